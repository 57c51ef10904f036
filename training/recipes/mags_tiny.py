"""Mags-RL's two stages on the tiny VLM: `python -m training mags_tiny`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from training.config.judges import JudgeConfig
from training.config.run import RunConfig
from training.config.stages import STAGE_BEFORE, Stage, StagesConfig
from training.config.supervised.cold_start import ColdStartConfig
from training.config.worlds.spec import WorldSpec
from training.recipes.mags import SMFANET, VARIANTS
from training.recipes.tiny import tiny_recipe, without_critic
from vlm_envs.validation import require_choice

_SUPER_RESOLUTION: Mapping[str, Any] = MappingProxyType({"upscaler": SMFANET, "upscaler_kwargs": {"factor": 2}})
_CROP_AND_RESIZE: Mapping[str, Any] = MappingProxyType({"upscaler": "bicubic", "upscaler_kwargs": {"factor": 2}})
_NUM_ITERATIONS = (40, 30)
"""Of both stages: three quarters of the first one's in the second, as 225 of 300."""
_NO_JUDGE = JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0)
_IMITATION = ColdStartConfig(num_steps=2000, num_first_turn_steps=1100, suboptimal_rate=0.5)


def mags_tiny(variant: str = "curriculum") -> StagesConfig:
    """Mags-RL's two stages on the tiny VLM: find the place with precision, then with recall. Cold start included.

    The cold start, in place of a pretrained checkpoint that follows either, imitates an expert under the prompts of
    both. Between the stages change what the paper changes: the prompts, the reward for zooming, the rate, a quarter of
    the first stage's, and what the policy is held to, by 0.04 to what it began with and by 0.03 to what the first stage
    made. The second has other levels. Temperatures are 1 in both. Crops are enlarged by the SMFANet that ships. The
    variants are those of `training.recipes.mags`, `mags_tiny:direct` with as many iterations as both stages have.

    Args:
        variant: One of `VARIANTS`.

    Raises:
        ConfigError: If there is no such variant.
    """
    return _VARIANT_OF[require_choice("The variant of mags_tiny", variant, VARIANTS)]()


def _curriculum() -> StagesConfig:
    first, second = _NUM_ITERATIONS
    recall = _of_stage(2, num_iterations=second, learning_rate=2.5e-5, kl_coef=0.03)
    return _staged(
        "mags_tiny",
        Stage(name="precision", run=_of_stage(1, num_iterations=first, learning_rate=1e-4, kl_coef=0.04)),
        Stage(name="recall", run=replace(recall, seed=1), reference="reset"),
    )


def _direct() -> StagesConfig:
    run = _of_stage(2, num_iterations=sum(_NUM_ITERATIONS), learning_rate=1e-4, kl_coef=0.04)
    return _staged("mags_tiny_direct", Stage(name="direct", run=run))


def _without_super_resolution() -> StagesConfig:
    run = _of_stage(1, num_iterations=_NUM_ITERATIONS[0], learning_rate=1e-4, kl_coef=0.04, enlarged=_CROP_AND_RESIZE)
    return _staged("mags_tiny_without_super_resolution", Stage(name="precision", run=run), enlarged=_CROP_AND_RESIZE)


_VARIANT_OF: Mapping[str, Callable[[], StagesConfig]] = MappingProxyType(
    dict(zip(VARIANTS, (_curriculum, _direct, _without_super_resolution), strict=True))
)


def _staged(name: str, *stages: Stage, enlarged: Mapping[str, Any] = _SUPER_RESOLUTION) -> StagesConfig:
    """Returns a run of stages that begins by imitating the expert under the prompts of both of the paper's."""
    prompts = tuple(
        replace(world, name=f"stage {number}")
        for number in (1, 2)
        for world in _of_stage(number, num_iterations=0, learning_rate=1e-4, kl_coef=0.0, enlarged=enlarged).worlds
    )
    imitated = _of_stage(1, num_iterations=0, learning_rate=1e-4, kl_coef=0.0)
    imitated = replace(imitated, model=None, worlds=prompts, judge=_NO_JUDGE)
    return StagesConfig(name=name, stages=(Stage(name="imitation", run=imitated), *stages))


def _of_stage(
    number: int,
    *,
    num_iterations: int,
    learning_rate: float,
    kl_coef: float,
    enlarged: Mapping[str, Any] = _SUPER_RESOLUTION,
) -> RunConfig:
    """Returns questions of dots on blocks, with the prompts and reward of one of the paper's stages.

    Boards are shown at a quarter of their size: blocks are plain there, and their dots two pixels wide. In half of the
    cases the expert of the cold start zooms into the middle, wherever the block is, and answers as if it knew.
    """
    config = tiny_recipe(
        "mags_tiny",
        WorldSpec(
            env_id="VLM/ZoomQA-v0",
            kwargs={
                "prompt_format": "mags",
                "mags_stage": number,
                "source": "vlm_envs.content.dots:dotted_blocks",
                "max_pixels": 112 * 112,
                "answer_reward": 0.0,  # the paper's reward has an answer's in it
                "prompt_example": False,
                **enlarged,
            },
        ),
        num_iterations=num_iterations,
        cold_start=_IMITATION,
        max_new_tokens=80,
        judge=JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0, episode_reward=f"mags_stage_{number}"),
    )
    config = without_critic(config)
    return replace(config, model=STAGE_BEFORE, ppo=replace(config.ppo, learning_rate=learning_rate, kl_coef=kl_coef))
