"""ARM-Thinker: imitate judgments, explore tools, judge correctly; `python -m training arm_thinker --model DIR`.

`arm_thinker_tiny` does the same with the tiny VLM in minutes. *Not run here* with a 7B model.

    general ─┐                           ┌─ R_format + R_try ─┐    ┌─ R_format + R_acc + R_succ
    zoom     ├─ verified rollouts ─ sft ─┤  exploration       ├────┤  accuracy
    checks   │  (curations)              └────────────────────┘    └─────────────────────────
    pages   ─┘

| | value | source |
|---|---|---|
| model | Qwen2.5-VL-7B | section 3.3.1 |
| fine-tuning samples after filtering | 40k general, 4k zoom, 1k checks, 1k pages | appendix A.2 |
| questions asked for them | at most 10 per sample | our choice |
| both orders of the responses | general | appendix A.2 |
| rollouts per question; trivial if all of the base model's are right | 5 | section 3.2 |
| kept rollouts | right format, right answer, a successful call (except general ones) | section 3.2 |
| fine-tuning | batches of 256, rate 2e-5, warmup 0.1, one epoch, 32,768 tokens, vision tower frozen | pins |
| RL samples | pools of 20k zoom and 4k pages, no checks; in both orders | appendix A.2; ours |
| excluded from them | levels that the stage's initial model solves in all of 5 attempts | section 3.2 |
| algorithm | GRPO | section 3.3.2 |
| batch, group, mini-batch | 512, 16, 256 | pins |
| rate, KL, entropy | 2e-6, none, none | pins |
| AdamW's betas, epsilon | (0.9, 0.999), 1e-8 | pins: defaults of LLaMA-Factory and verl |
| AdamW's decay | none in fine-tuning, 0.01 of all weights in reinforcement learning | pins: the same |
| epochs | 3 of 24,000 samples, each in both orders, in batches of 512: 279 iterations per stage | pins |
| turns | 5 | pin |
| reward of exploration | 0.3 format, 0.1 attempt | equation 4, pins |
| reward of accuracy | 0.3 format, 0.1 attempt, 0.7 accuracy, 0.5 success | equation 5, pins |

*Pins* are values that the paper does not specify, taken from the scripts of its public code (`sft_scripts/sft.sh`,
`examples/self/multiturn/agent/crop.sh`, `pair_rm_with_tool_reward_v8.py`). They do not distinguish the two RL stages,
so both have the same learning rate and number of iterations.

Further choices are documented in docs/arm-thinker.md.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.hf.sampling_config import SamplingConfig
from training.algorithms.grpo import GRPO
from training.config.judge_config import JudgeConfig
from training.config.run_config import RunConfig
from training.config.update_config import LARGE_MODEL, PAPER_BETAS, MemoryConfig, PPOConfig
from training.config.world_spec import WorldSpec
from training.curation.curation_config import CurateConfig
from training.pools.pool_config import PoolConfig
from training.recipes.tiny import judging_tiny
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import DATA_OF, EXPERT_BEFORE, STAGE_BEFORE, Stage, StagesConfig

MODEL = "Qwen/Qwen2.5-VL-7B-Instruct"
"""The base model (section 3.3.1); set `--model DIR` to its local directory."""

JUDGING = "VLM/RewardJudging-v0"
NUM_KEPT = {"general": 20_000, "zoom": 4_000, "checks": 1_000, "pages": 1_000}
"""Samples kept per curation (appendix A.2); 20,000 general ones in each of two orders make 40,000."""

NUM_ATTEMPTS = 5
"""Attempts that decide whether a question is trivial (section 3.2)."""

MAX_QUESTIONS_EACH = 10
"""Maximum number of questions asked per kept sample."""

REINFORCED = {"zoom": 20_000, "pages": 4_000}
"""RL samples (appendix A.2): pool sizes and mixture weights."""

BATCH_SIZE, NUM_EPOCHS, NUM_ORDERS = 512, 3, 2

_GENERATED = {
    "general": {"tracks": ("fine_grained",)},
    "zoom": {"tracks": ("fine_grained",)},
    "checks": {"tracks": ("instruction_following",)},
    "pages": {"tracks": ("document",)},
}
_DATASETS = {"general": "llava_critic", "zoom": "judged", "checks": "judged", "pages": "judged"}
_FOLDERS = {"general": "llava_critic", "zoom": "deepeyes", "checks": "mm_ifengine", "pages": "mp_docvqa"}
"""Subfolders with local copies, within the folder given to the preset."""

_OWN = {"prompt_format": "arm", "answer_reward": 0.0, "format_reward": 0.0}
"""The paper's format; its rewards already include the answer's reward."""


def arm_thinker(data: str = "") -> StagesConfig:
    """ARM-Thinker with the paper's constants on generated cases, or on your copies of its data as `arm_thinker:DIR`.

    Stages: imitate curated rollouts, with responses in both orders; reward tool calls; reward correct judgments.

    Args:
        data: Folder that contains `llava_critic`, `deepeyes`, `mm_ifengine`, and `mp_docvqa`; empty for generated
            cases.
    """
    sources = {name: _source(name, data) for name in NUM_KEPT}
    curations = tuple(_curation(name, sources[name], is_local=bool(data)) for name in sources)
    tuning = SFTConfig(
        model=MODEL,
        data=tuple(f"{DATA_OF}{name}" for name in sources),
        num_epochs=1.0,
        batch_size=256,
        learning_rate=2e-5,
        warmup_ratio=0.1,
        max_context_tokens=32_768,
        max_image_pixels=4096 * 28 * 28,
        betas=PAPER_BETAS,
        weight_decay=0.0,
        memory=MemoryConfig(gradient_checkpointing=True, freeze_vision_tower=True),
        dtype="bfloat16",
    )
    return StagesConfig(
        name="arm_thinker",
        stages=(
            *curations,
            Stage(name="sft", run=tuning),
            Stage(name="explore", run=_reinforced(sources, "arm_exploration")),
            Stage(name="accuracy", run=_reinforced(sources, "arm_accuracy")),
        ),
    )


def arm_thinker_tiny() -> StagesConfig:
    """ARM-Thinker on the tiny VLM: pairs of texts by an instruction's requirements, in both orders.

    It starts from the shipped checkpoint of `judging_tiny`. Fine-tuning rollouts have the paper's ratio of 40 judged
    without tools, like LLaVA-Critic's, to 6 with checks, so that the fine-tuned model rarely checks. The exploration
    reward pays for tool calls, the accuracy reward for correct judgments.
    """
    tiny = judging_tiny()
    (world,) = tiny.worlds
    kwargs = {name: value for name, value in world.kwargs.items() if name != "format_reward"} | _OWN
    settings = tuple(f"{name}={value!r}" for name, value in kwargs.items())
    at_a_glance, with_checks = (
        CurateConfig(
            env_id=world.env_id,
            settings=settings,
            again=("reverse_order=True",),
            episode_reward="arm_accuracy",
            reward_settings=() if needs_tools else ("needs_tools=False",),
            mistake_rate=mistake_rate,
            num_samples=num_samples,
            num_rollouts=1,
        )
        # Random answers are right half of the time
        for needs_tools, mistake_rate, num_samples in ((False, 1.0, 320), (True, 0.2, 36))
    )
    tuning = SFTConfig(
        model=str(tiny.model),
        data=(f"{DATA_OF}glance", f"{DATA_OF}checks"),
        num_epochs=2.0,
        learning_rate=5e-4,
        num_threads=1,
    )
    return StagesConfig(
        name="arm_thinker_tiny",
        stages=(
            Stage(name="glance", run=at_a_glance),
            Stage(name="checks", run=replace(with_checks, seed=1)),
            Stage(name="sft", run=tuning),
            Stage(name="explore", run=_tiny(tiny, kwargs, "arm_exploration", num_iterations=10)),
            Stage(name="accuracy", run=replace(_tiny(tiny, kwargs, "arm_accuracy", num_iterations=20), seed=1)),
        ),
    )


def _tiny(tiny: RunConfig, kwargs: dict[str, Any], reward: str, *, num_iterations: int) -> RunConfig:
    """Returns `judging_tiny` in both orders, under one of the paper's rewards and its algorithm."""
    return replace(
        tiny,
        model=STAGE_BEFORE,
        worlds=both_orders(WorldSpec(env_id=JUDGING, kwargs=kwargs)),
        algorithm=GRPO(),
        num_iterations=num_iterations,
        num_eval_episodes=128,
        judge=replace(tiny.judge, episode_reward=reward),
    )


def both_orders(spec: WorldSpec, name: str = "") -> tuple[WorldSpec, WorldSpec]:
    """Returns a world of pairs in both orders of the responses, each with half of its weight.

    Worlds with equal weights play the same seeds in an iteration, so that every pair is judged in both orders.

    Args:
        spec: The world.
        name: Prefix of the order in logs.
    """
    label = f"{name} " if name else ""
    return (
        replace(spec, name=f"{label}forward", weight=spec.weight / 2),
        replace(
            spec,
            name=f"{label}reverse",
            weight=spec.weight / 2,
            kwargs={**spec.kwargs, "reverse_order": True},
        ),
    )


def _source(name: str, data: str) -> dict[str, Any]:
    """Returns the arguments of a world that asks one kind of question."""
    if not data:
        return dict(_GENERATED[name])
    return {"dataset": _DATASETS[name], "folder": str(Path(data) / _FOLDERS[name])}


def _curation(name: str, source: dict[str, Any], *, is_local: bool) -> Stage:
    """Returns the curation of one kind of question.

    Generated cases are answered by an oracle that knows the errors; with local data, the base model's own rollouts
    are filtered. To use a stronger teacher, provide pools with pass counts of the base model, by which trivial
    questions are dropped.
    """
    general = name == "general"
    run = CurateConfig(
        env_id=JUDGING,
        settings=tuple(f"{key}={value!r}" for key, value in (source | _OWN).items()),
        again=("reverse_order=True",) if general else (),
        episode_reward="arm_accuracy",
        reward_settings=("needs_tools=False",) if general else (),
        expert=EXPERT_BEFORE if is_local else "oracle",
        num_samples=MAX_QUESTIONS_EACH * NUM_KEPT[name],
        num_kept=NUM_KEPT[name],
        num_rollouts=NUM_ATTEMPTS,
        drop_trivial=is_local,  # the oracle's rollouts do not show what the base model solves
        sampling=SamplingConfig(temperature=1.0, max_new_tokens=2048),
    )
    return Stage(name=name, run=run)


def _reinforced(sources: dict[str, dict[str, Any]], reward: str) -> RunConfig:
    """Returns one of the two RL stages: epochs over the same pools, with each pair in both orders."""
    specs = {
        name: WorldSpec(
            env_id=JUDGING,
            kwargs=sources[name] | _OWN | {"max_turns": 5},
            weight=number / 1000,
            pool=PoolConfig(file=f"{name}.jsonl", draw=number, attempts=NUM_ATTEMPTS, drop_trivial=True),
        )
        for name, number in REINFORCED.items()
    }
    worlds = tuple(ordered for name, spec in specs.items() for ordered in both_orders(spec, name))
    return RunConfig(
        name="arm_thinker",
        model=STAGE_BEFORE,
        worlds=worlds,
        num_iterations=NUM_EPOCHS * (NUM_ORDERS * sum(REINFORCED.values()) // BATCH_SIZE),
        num_groups=BATCH_SIZE,
        group_size=16,
        sampling=SamplingConfig(temperature=1.0, max_new_tokens=2048),
        judge=JudgeConfig.of_episodes(reward),
        algorithm=GRPO(),
        ppo=PPOConfig(
            learning_rate=2e-6,
            warmup_iterations=0,
            num_minibatches=2,
            micro_batch_tokens=16_384,
            kl_coef=0.0,
            betas=PAPER_BETAS,
            weight_decay=0.01,
        ),
        **LARGE_MODEL,
        num_eval_episodes=128,
        eval_every=8,
        num_val_episodes=128,
        checkpoint_every=8,
    )
