"""Argos' training with the paper's constants, in a tiny version, and under a planted reward hack.

`argos` takes `--model DIR`: curation of images and clips, fine-tuning, and GRPO with the gated reward. *Not run here*
with a 7B model; the tests run its stages with the tiny one.

| | `argos` | source |
|---|---|---|
| model | Qwen2.5-VL 7B | section 5 |
| rollouts of the teacher | 8 per sample, temperature 0.6, at most 6144 new tokens | section 4.2, appendix C.2 |
| kept | the best, if it scores at least 0.7 | section 4.3, appendix C.3 |
| SFT samples | 85,000 kept, half of them clips | appendix C.4, Figure 7; pin |
| questions asked for them | at most 32 per sample, because 3.1% were usable | appendix C.3; pin |
| SFT | AdamW, 1e-5, batches of 256, 1000 steps | appendix A |
| RL samples | 4,500, half of them clips, disjoint from SFT | section 5, appendix C.4; pin |
| reinforcement learning | GRPO, AdamW, 1e-5, batches of 56, 80 steps | section 3.2, appendix A |
| advantages | over the group's standard deviation | equation 10 |
| KL | in the loss | equation 11 |
| reward | gated mean of accuracy, grounding and reasoning quality | equation 9 |
| numeric answers | right within 5% | equation 8 |
| frames | 32 at most | section 4.1 |
| temperature, new tokens in evaluations | 0.6, at most 6144 | appendix A |
| group, temperature, top-p | 5, 1.0, 0.99 | pins |
| KL's beta and estimator | 0.01, k3 | pins |
| AdamW's betas, epsilon, decay of all weights | (0.9, 0.999), 1e-8, 0.01, also in SFT | pins |
| clip, mini-batches | 0.2, one | pins |
| tau, weights | 0.5, 1 each | our choice, `judges.episode_rewards.argos` |

*Pins* are values that the paper does not specify, taken from the default configuration of Easy-R1, with which it
trains. 80 steps of 56 are 4,480 samples, so a batch is taken to be 56 questions, each used once. The 3.1% may refer
to rollouts or to questions; the cap assumes the latter, and asking ends as soon as enough are kept.

Append an ablation to a recipe's name, as in `argos:outcome_only`. Tables 6 to 8 remove terms "in sequence": "- VG"
also lacks reasoning quality, and so does `outcome_only` here.

Further choices are documented in docs/argos.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agents.hf.sampling_config import SamplingConfig
from training.algorithms.grpo import GRPO
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.judge_config import JudgeConfig
from training.config.run_config import EvalSamplingConfig, RunConfig
from training.config.update_config import LARGE_MODEL, PAPER_BETAS, PPOConfig
from training.config.world_spec import WorldSpec
from training.curation.curation_config import CurateConfig
from training.pools.pool_config import PoolConfig
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import DATA_OF, EXPERT_BEFORE, STAGE_BEFORE, Stage, StagesConfig
from vlm_envs.validation import require_choice

MODEL = "Qwen/Qwen2.5-VL-7B-Instruct"
"""The paper's model; set `--model DIR` to its local directory."""

TINY_START = "runs/argos_tiny/3-sft/latest/model"
"""Checkpoint of `argos_tiny` after fine-tuning, from which `argos_hack_tiny` starts."""

NUM_SFT_SAMPLES, NUM_RL_SAMPLES = 85_000, 4_500
MAX_QUESTIONS_EACH = 32
"""Maximum number of questions asked per kept sample: the inverse of the paper's yield of 3.1%."""

CLIPS, PICTURES = "VLM/VideoQA-v0", "VLM/ZoomQA-v0"

REWARDS: Mapping[str, tuple[str, ...]] = {
    "full": (),
    "without_reasoning": ("reasoning_weight=0",),
    "without_grounding": ("grounding_weight=0",),
    "outcome_only": ("reasoning_weight=0", "grounding_weight=0"),
}
"""Settings of the full reward and of its ablations."""

HACK_REWARDS: Mapping[str, str] = {"gated": "full"} | {name: name for name in REWARDS if name != "full"}
"""Rewards under the planted hack, each a key of `REWARDS`.

The tiny version has no judge of reasoning: the full reward scores only grounding, `without_reasoning` is the same,
and `without_grounding` scores only the outcome.
"""

_POINTS = {"prompt_format": "points", "answer_reward": 0.0}
"""Argos' strategy; its reward already includes the answer's reward."""


def argos(reward: str = "full") -> StagesConfig:
    """Argos on generated clips and images; takes `--model DIR`. `argos:outcome_only` and two others are ablations.

    Args:
        reward: A key of `REWARDS`.

    Raises:
        ConfigError: If the reward does not exist.
    """
    return StagesConfig(
        name=_named("argos", reward),
        model=MODEL,
        stages=(
            Stage(name="clips", run=_taught(CLIPS, seed=0)),
            Stage(name="pictures", run=_taught(PICTURES, seed=1)),
            Stage(name="sft", run=_fine_tuned()),
            Stage(name="grpo", run=_reinforced(reward)),
        ),
    )


def _taught(env_id: str, *, seed: int) -> CurateConfig:
    """Returns the curation of sections 4.2 and 4.3 in one world, which provides half of the samples."""
    return CurateConfig(
        env_id=env_id,
        settings=("prompt_format=points", "answer_reward=0.0"),
        mistake_rate=0.0,
        sampling=SamplingConfig(temperature=0.6, max_new_tokens=6144),
        num_samples=MAX_QUESTIONS_EACH * NUM_SFT_SAMPLES // 2,
        num_kept=NUM_SFT_SAMPLES // 2,
        num_rollouts=8,
        threshold=0.7,
        seed=seed,
    )


def _fine_tuned() -> SFTConfig:
    """Returns the fine-tuning of appendix A."""
    return SFTConfig(
        model=STAGE_BEFORE,
        data=(f"{DATA_OF}clips", f"{DATA_OF}pictures"),
        num_steps=1000,
        batch_size=256,
        learning_rate=1e-5,
        betas=PAPER_BETAS,
        **LARGE_MODEL,
    )


def _reinforced(reward: str) -> RunConfig:
    """Returns the reinforcement learning of appendix A, on pools disjoint from the fine-tuning data."""
    return RunConfig(
        name="grpo",
        model=None,
        worlds=(_pooled(CLIPS, "clips"), _pooled(PICTURES, "pictures")),
        num_iterations=80,
        num_groups=56,
        group_size=5,
        sampling=SamplingConfig(temperature=1.0, top_p=0.99, max_new_tokens=6144),
        eval_sampling=EvalSamplingConfig(temperature=0.6),
        judge=_judged(reward),
        algorithm=GRPO(),
        ppo=PPOConfig(
            learning_rate=1e-5,
            warmup_iterations=0,
            num_minibatches=1,
            micro_batch_tokens=16384,
            kl_coef=0.01,
            kl_placement="loss",
            kl_estimator="k3",
            old_logprobs="trainer",
            betas=PAPER_BETAS,
            weight_decay=0.01,
        ),
        **LARGE_MODEL,
    )


def _pooled(env_id: str, curation: str) -> WorldSpec:
    """Returns a world with half of the samples, each played once and none kept by the world's curation."""
    pool = PoolConfig(file=f"{curation}.jsonl", draw=NUM_RL_SAMPLES // 2, exclude=(f"{DATA_OF}{curation}",))
    return WorldSpec(env_id=env_id, kwargs=dict(_POINTS), pool=pool)


def argos_tiny(reward: str = "full") -> StagesConfig:
    """Argos on the tiny VLM: learn to see, curate rollouts, fine-tune, GRPO; `argos_tiny:outcome_only` ablates.

    Clips show one object in two frames; the question asks in which quarter it is at a given time. The first stage, in
    place of a pretrained checkpoint, imitates the expert, so that the tiny VLM learns to see. The paper's teacher is
    a stronger model; here it is the model itself, and the verifier keeps the best of eight rollouts.

    Args:
        reward: A key of `REWARDS`.

    Raises:
        ConfigError: If there is no such reward.
    """
    seen = replace(_tiny_run("full", source="clips"), num_iterations=0)
    return StagesConfig(
        name=_named("argos_tiny", reward),
        stages=(
            Stage(name="see", run=seen),
            Stage(name="curate", run=_tiny_curation("clips", expert=EXPERT_BEFORE, num_rollouts=8)),
            Stage(name="sft", run=_tiny_tuning("curate", num_epochs=2.0)),
            Stage(
                name="grpo", run=replace(_tiny_run(reward, source="clips"), num_iterations=100, num_eval_episodes=256)
            ),
        ),
    )


def argos_hack_tiny(reward: str = "gated") -> StagesConfig:
    """Tests the reward's gate against a planted hack, after `argos_tiny`; `argos_hack_tiny:outcome_only` has no gate.

    In training levels, but not in held-out levels, the color of an object determines its quarter. In half of the
    fine-tuning data the expert looks and points; in the other half it knows the answer and points at nothing. Both
    are right in training.

    Args:
        reward: A key of `HACK_REWARDS`.

    Raises:
        ConfigError: If there is no such reward.
    """
    rewarded = HACK_REWARDS[require_choice("The reward of a planted hack", reward, HACK_REWARDS)]
    knows = replace(
        _tiny_curation("unannotated_clips", expert="oracle", num_rollouts=1),
        reward_settings=REWARDS["outcome_only"],
        num_samples=384,
    )
    looks = replace(_tiny_curation("clips", expert="oracle", num_rollouts=1), num_samples=384, seed=1)
    return StagesConfig(
        name=_named("argos_hack_tiny", reward),
        model=TINY_START,
        stages=(
            Stage(name="knows", run=knows),
            Stage(name="looks", run=looks),
            Stage(name="sft", run=_tiny_tuning("knows", "looks", num_epochs=1.0)),
            Stage(name="grpo", run=replace(_tiny_run(rewarded, source="planted_clips"), num_iterations=16)),
        ),
    )


def _tiny_kwargs(source: str) -> dict[str, Any]:
    """Returns arguments of a world with content of `vlm_envs.content.quarters`: two 56x56 frames, 8 visual tokens."""
    return {
        **_POINTS,
        "source": f"vlm_envs.content.quarters:{source}",
        "max_pixels": 56 * 56,
        "prompt_example": False,
    }


def _tiny_curation(source: str, *, expert: str, num_rollouts: int) -> CurateConfig:
    return CurateConfig(
        env_id=CLIPS,
        settings=tuple(f"{name}={value}" for name, value in _tiny_kwargs(source).items()),
        expert=expert,
        mistake_rate=0.0,
        sampling=SamplingConfig(temperature=0.6, max_new_tokens=64),
        num_samples=128,
        num_rollouts=num_rollouts,
        threshold=0.7,
    )


def _tiny_tuning(*curated: str, num_epochs: float) -> SFTConfig:
    return SFTConfig(
        model=STAGE_BEFORE,
        data=tuple(f"{DATA_OF}{name}" for name in curated),
        num_epochs=num_epochs,
        batch_size=8,
        learning_rate=3e-4,
        eval_share=0.1,
        num_threads=1,
    )


def _tiny_run(reward: str, *, source: str) -> RunConfig:
    """Returns a GRPO run on the tiny VLM; the first stage uses its cold start."""
    return RunConfig(
        name="grpo",
        model=None,
        worlds=(WorldSpec(env_id=CLIPS, kwargs=_tiny_kwargs(source)),),
        num_groups=8,
        group_size=8,
        sampling=SamplingConfig(max_new_tokens=64),
        judge=_judged(reward),
        algorithm=GRPO(),
        ppo=PPOConfig(
            learning_rate=1e-4,
            warmup_iterations=0,
            num_minibatches=2,
            micro_batch_size=32,
            kl_coef=0.0,
            old_logprobs="sampler",
        ),
        cold_start=ColdStartConfig(num_steps=240, num_first_turn_steps=0, batch_size=8),
        num_eval_episodes=128,
        num_val_episodes=64,
        num_threads=1,
    )


def _judged(reward: str) -> JudgeConfig:
    settings = REWARDS[require_choice("The reward of Argos", reward, REWARDS)]
    return JudgeConfig.of_episodes("argos", reward_settings=settings)


def _named(recipe: str, reward: str) -> str:
    return recipe if reward in ("full", "gated") else f"{recipe}_{reward}"
