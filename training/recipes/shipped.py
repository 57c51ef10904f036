"""Recipes that ship, by the names that `python -m training` takes, and the starts that some of them continue from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from training.config.run_config import RunConfig
from training.recipes.argos import argos, argos_hack_tiny, argos_tiny
from training.recipes.arm_thinker import arm_thinker, arm_thinker_tiny
from training.recipes.ivgr import ivgr, ivgr_tiny
from training.recipes.mags import mags, mags_tiny
from training.recipes.tiny import (
    docqa_tiny,
    frozenlake_tiny,
    judging_tiny,
    mix_tiny,
    navigation_tiny,
    primitive_tiny,
    sokoban_tiny,
    svg_tiny,
    videoqa_tiny,
    zoomqa_tiny,
)
from training.recipes.vagen import vagen_base, vagen_full
from training.stages.stages_config import StagesConfig
from vlm_envs.errors import ConfigError

OF_A_WORLD: dict[str, Callable[[str], RunConfig]] = {made.__name__: made for made in (vagen_base, vagen_full)}
"""Presets that are written with one of their worlds behind them: `vagen_full:navigation`. Alone they have a default."""

RECIPES: dict[str, Callable[[], RunConfig]] = {
    made.__name__: made
    for made in (
        frozenlake_tiny,
        sokoban_tiny,
        svg_tiny,
        navigation_tiny,
        primitive_tiny,
        zoomqa_tiny,
        docqa_tiny,
        videoqa_tiny,
        judging_tiny,
        mix_tiny,
        vagen_base,
        vagen_full,
    )
}

STAGED_RECIPES: dict[str, Callable[[], StagesConfig]] = {
    made.__name__: made for made in (mags_tiny, arm_thinker_tiny, ivgr_tiny, argos_tiny, argos_hack_tiny)
}
"""Those that are several runs, one after the other."""

STAGED_PRESETS: dict[str, Callable[[], StagesConfig]] = {
    made.__name__: made for made in (mags, arm_thinker, ivgr, argos)
}
"""Those for a checkpoint and data sets of the user's own."""

STAGED_VARIANTS: dict[str, Callable[[str], StagesConfig]] = {
    made.__name__: made for made in (mags, mags_tiny, arm_thinker, argos, argos_tiny, argos_hack_tiny)
}
"""Those that may have more behind their name: an ablation, `mags:direct`, or the folder of data, `arm_thinker:DIR`."""


_WEIGHTS = {
    "VLM/FrozenLake-v0": 2.0,
    "VLM/Sokoban-v0": 2.0,
    "VLM/Navigation-v0": 1.5,
    "VLM/PrimitiveSkillPlace-v0": 3.0,
    "VLM/SVG-v0": 2.5,
    "VLM/ZoomQA-v0": 2.0,
    "VLM/DocQA-v0": 3.0,
    "VLM/VideoQA-v0": 0.2,
    "VLM/RewardJudging-v0": 0.8,
}
"""How much of the mix's first steps each world has, by what there was to learn then."""


def mix_first_steps() -> RunConfig:
    """The first 8,000 steps of mix_tiny's start: 900 only copy, 1,500 show first turns; needs `make drivers`.

    Worlds and experts are those of `mix_tiny`; their weights are others.
    """
    config = mix_tiny()
    cold_start = replace(
        config.cold_start,
        num_steps=8000,
        num_copying_steps=900,
        num_first_turn_steps=1500,
        residual_scale=0.15,
        start_from=None,
    )
    worlds = tuple(replace(world, cold_start_weight=_WEIGHTS[world.env_id]) for world in config.worlds)
    return replace(config, name="mix_first_steps", model=None, worlds=worlds, cold_start=cold_start)


def primitive_two_cubes() -> RunConfig:
    """The first 400 steps of primitive_tiny's start, with two cubes and an optimal expert; needs `make drivers`.

    Two cubes show twice as many numbers in every picture as one does, so numbers are learnt sooner.
    """
    config = primitive_tiny()
    cold_start = replace(
        config.cold_start, num_steps=400, num_first_turn_steps=400, suboptimal_rate=0.0, start_from=None
    )
    (world,) = config.worlds
    two_cubes = replace(world, kwargs={**world.kwargs, "num_cubes": 2, "max_actions_per_turn": 4})
    return replace(config, name="primitive_two_cubes", model=None, worlds=(two_cubes,), cold_start=cold_start)


FIRST_STARTS: dict[str, Callable[[], RunConfig]] = {
    made.__name__: made for made in (mix_first_steps, primitive_two_cubes)
}
"""By the names that `python -m training cold_start` takes."""


def recipe_after(start: str) -> str:
    """Returns the recipe whose cold start goes on from one of `FIRST_STARTS`."""
    goes_on_from = {recipe().cold_start.start_from: name for name, recipe in RECIPES.items()}
    return goes_on_from[f"training/recipes/checkpoints/{start}"]


def require_trainable(name: str) -> None:
    """Refuses one of `FIRST_STARTS` where a recipe is asked for.

    Raises:
        ConfigError: If it is one. The message says what makes it.
    """
    if name in FIRST_STARTS:
        raise ConfigError(
            f"{name} is no recipe to train: the cold start of {recipe_after(name)} goes on from it. To make it anew: "
            f"python -m training cold_start {name}"
        )
