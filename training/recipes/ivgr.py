"""iVGR's two stages with the paper's constants, `python -m training ivgr --model DIR`, and the tiny `ivgr_tiny`.

| `ivgr` | | source |
|---|---|---|
| **sft** | one epoch of 32,000 grounded and 3,000 textual responses | section 4.1 |
| batch | 64 | appendix C |
| rate | 1e-5, cosine; no warmup | appendix C; pin |
| **rl** | GRPO, advantages within each stream's own group | section 3.2 |
| mix | 45% grounded and 45% textual with the same queries; 10% general, only textual | appendix B |
| batch, steps | 512 queries, 360; for 32B 128 and 500 | appendix C |
| group size N, temperature | 5, 1.0 | appendix C |
| tokens per response | 4,096 | appendix C |
| rate | 1e-6, constant; no warmup | appendix C; pin |
| KL β | 0.01, k3, in the loss, to the model of stage sft | appendix C; pins |
| rewards | format + accuracy + box; format + accuracy + consistency | equations 1 to 3 |
| archive's τ | 0.3 | section 4.4, table 6 |
| consistency α | 1, 0.7, 0.3, 0 | section 3.3 |
| judge | Qwen2.5-72B-Instruct, once, at 0.01 | appendix C, table 9 |
| queries with boxes | all of TreeVGR-RL-37K | section 4.1, table 11 |
| evaluation | V*, HR-Bench and others, by `benchmarks evaluate`; no training data | section 4.1 |
| general queries | pass rate 0.2 to 0.4 of five rollouts of the model of stage sft | appendix B |
| candidates | all of OpenMMReasoner-74K and ArxivQA-100K; 12,000 and 2,000 are kept | table 11's names; pin |
| model | Qwen2.5-VL-7B | section 4.1 |

*Pins* are values that the paper does not specify; those not in the table are one optimizer step per batch, clips of
0.2, a gradient norm of 1.0, AdamW with betas (0.9, 0.999), epsilon 1e-8, and the default weight decay of its two
frameworks (none in LLaMA-Factory, 0.01 of all weights in verl), bfloat16 with float32 master weights, gradient
checkpointing, and micro-batches of 8,192 tokens. Further choices are documented in docs/ivgr.md. *Not run here* with
a 7B model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agents.api.endpoint_config import EndpointConfig
from agents.hf.sampling_config import SamplingConfig
from training.algorithms.grpo import GRPO
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.judge_config import JudgeConfig
from training.config.run_config import RunConfig
from training.config.update_config import LARGE_MODEL, PAPER_BETAS, PPOConfig
from training.config.world_spec import WorldSpec
from training.pools.pool_config import PoolConfig
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import STAGE_BEFORE, Stage, StagesConfig

MODEL = "Qwen/Qwen2.5-VL-7B-Instruct"
"""The smallest of the paper's models; set `--model DIR` to its local directory."""

_PAID_BY_JUDGE: dict[str, Any] = {"answer_reward": 0.0, "format_reward": 0.0, "prompt_example": False}
"""The paper's reward already includes answer and format."""

CANDIDATES = {"OpenMMReasoner-74K": 74_000, "ArxivQA-100K": 100_000}
"""Table 11's collections of general queries, each with the number in its name.

Appendix B gives the number of kept queries, 12,000 and 2,000, but not of played ones: the names suggest that all of
both collections were played. If `general` has fewer queries, all of them are played.
"""

_PASS_RATES: dict[str, Any] = {"attempts": 5, "min_pass_rate": 0.2, "max_pass_rate": 0.4}
"""Appendix B: one or two passes in five attempts."""


def ivgr() -> StagesConfig:
    """iVGR: fine-tuning on grounded and textual responses, then both streams by GRPO; takes `--model DIR`.

    It reads `grounded.jsonl` and `textual.jsonl` (conversations) and the folders `TreeVGR-RL-37K` and `general`
    (queries in TreeVGR's columns), and asks a judge at 127.0.0.1:8000. It trains on all queries and holds out none;
    evaluate on benchmarks with `python -m benchmarks evaluate`.
    """
    fine_tuning = SFTConfig(
        model=MODEL,
        data=("grounded.jsonl", "textual.jsonl"),
        num_epochs=1.0,
        batch_size=64,
        learning_rate=1e-5,
        warmup_ratio=0.0,
        betas=PAPER_BETAS,
        weight_decay=0.0,
        **LARGE_MODEL,
    )
    boxed = _PAID_BY_JUDGE | {"dataset": "treevgr", "folder": "TreeVGR-RL-37K", "train_on_all": True}
    general = boxed | {"folder": "general"}
    reinforcement = RunConfig(
        name="rl",
        model=STAGE_BEFORE,
        worlds=_mix(
            boxed,
            general,
            boxed_pool=PoolConfig(file="boxed.jsonl", draw=37_000),
            general_pool=PoolConfig(file="general.jsonl", draw=sum(CANDIDATES.values()), **_PASS_RATES),
        ),
        num_iterations=360,
        num_groups=512,
        group_size=5,
        sampling=SamplingConfig(temperature=1.0, max_new_tokens=4096),
        judge=JudgeConfig.of_episodes(
            "ivgr",
            endpoint=EndpointConfig(
                model="Qwen/Qwen2.5-72B-Instruct", base_url="http://127.0.0.1:8000/v1", temperature=0.01
            ),
        ),
        algorithm=GRPO(),
        ppo=PPOConfig(
            learning_rate=1e-6,
            warmup_iterations=0,
            num_minibatches=1,
            micro_batch_tokens=8192,
            kl_coef=0.01,
            kl_placement="loss",
            betas=PAPER_BETAS,
            weight_decay=0.01,
        ),
        **LARGE_MODEL,
        num_eval_episodes=0,
        num_val_episodes=0,
    )
    return StagesConfig(name="ivgr", stages=(Stage(name="sft", run=fine_tuning), Stage(name="rl", run=reinforcement)))


def ivgr_tiny() -> StagesConfig:
    """iVGR: the tiny VLM names the color of the leftmost block, with boxes or in words.

    Boards have one to four blocks. The first stage learns to see: it lists blocks with their boxes, and imitates an
    expert that sees well but often mistakes another block for the leftmost, equally in both streams. The 30
    iterations of the second stage pass three times over 90 questions. General questions ask for the number of blocks,
    without boxes; the imitated expert miscounts, and the questions are filtered by the first stage's pass rates.
    `judges.word_consistency` judges whether both streams agree.
    """
    mistaken, miscounted = (
        {**_BLOCKS, "source": f"vlm_envs.content.blocks:mistaken_{what}"} for what in ("blocks", "counts")
    )
    imitation = _tiny(
        "sft",
        (
            _world("scenes", {**_BLOCKS, "source": _COUNTED}, "ivgr_grounded", weight=0.4),
            *_streams(mistaken, weight=0.2),
            _world("general", miscounted | {"boxes": False}, "ivgr_textual", weight=0.1),
            _world("views", mistaken, "ivgr_views", weight=0.1),
        ),
        reward=None,
    )
    reinforcement = _tiny(
        "rl",
        _mix(
            _BLOCKS,
            _GENERAL,
            boxed_pool=PoolConfig(file="boxed.jsonl", draw=90),
            general_pool=PoolConfig(file="general.jsonl", draw=120, **_PASS_RATES),
        ),
        reward="ivgr",
    )
    return StagesConfig(
        name="ivgr_tiny",
        stages=(
            Stage(name="sft", run=replace(imitation, num_iterations=0, num_eval_episodes=0)),
            Stage(name="rl", run=replace(reinforcement, model=STAGE_BEFORE)),
        ),
    )


_BLOCKS: dict[str, Any] = _PAID_BY_JUDGE | {
    "source": "vlm_envs.content.blocks:leftmost_blocks",
    "max_pixels": 112 * 112,
}
_COUNTED = "vlm_envs.content.blocks:counted_blocks"
_GENERAL = _BLOCKS | {"source": _COUNTED, "boxes": False}


def _tiny(name: str, worlds: tuple[WorldSpec, ...], *, reward: str | None) -> RunConfig:
    """Returns a stage of `ivgr_tiny` with the settings that both share."""
    return RunConfig(
        name=name,
        worlds=worlds,
        num_iterations=30,
        num_groups=20,
        group_size=5,
        sampling=SamplingConfig(max_new_tokens=80),
        judge=JudgeConfig.of_episodes(reward),
        algorithm=GRPO(),
        ppo=PPOConfig(
            learning_rate=1e-4,
            warmup_iterations=0,
            num_minibatches=2,
            micro_batch_size=20,
            kl_coef=0.01,
            kl_placement="loss",
            old_logprobs="sampler",
        ),
        cold_start=ColdStartConfig(num_steps=2000, num_first_turn_steps=0, batch_size=20),
        num_eval_episodes=128,
        num_val_episodes=32,
        num_threads=1,
    )


def _streams(kwargs: dict[str, Any], *, weight: float, pool: PoolConfig | None = None) -> tuple[WorldSpec, ...]:
    """Returns the same questions with boxes in the thoughts and with words only; equal weights make them partners."""
    names = ("grounded", "textual")
    return tuple(_world(name, kwargs, f"ivgr_{name}", weight=weight, pool=pool) for name in names)


def _mix(
    boxed: dict[str, Any], general: dict[str, Any], *, boxed_pool: PoolConfig, general_pool: PoolConfig
) -> tuple[WorldSpec, ...]:
    """Returns the mixture of appendix B: queries of one pool in both streams, and general queries with words only."""
    return (
        *_streams(boxed, weight=0.45, pool=boxed_pool),
        _world("general", general, "ivgr_textual", weight=0.1, pool=general_pool),
    )


def _world(
    name: str, kwargs: dict[str, Any], prompt_format: str, *, weight: float, pool: PoolConfig | None = None
) -> WorldSpec:
    return WorldSpec(
        env_id="VLM/ZoomQA-v0", kwargs={**kwargs, "prompt_format": prompt_format}, name=name, weight=weight, pool=pool
    )
