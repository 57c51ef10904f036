"""Built-in recipes by name, and the initial stages from which some of their cold starts continue."""

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
"""Presets that take a world after their name, as in `vagen_full:navigation`; the world has a default."""

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
"""Recipes with several stages."""

STAGED_PRESETS: dict[str, Callable[[], StagesConfig]] = {
    made.__name__: made for made in (mags, arm_thinker, ivgr, argos)
}
"""Staged recipes for the user's own checkpoint and datasets."""

STAGED_VARIANTS: dict[str, Callable[[str], StagesConfig]] = {
    made.__name__: made for made in (mags, mags_tiny, arm_thinker, argos, argos_tiny, argos_hack_tiny)
}
"""Staged recipes that take an argument: an ablation, `mags:direct`, or a data folder, `arm_thinker:DIR`."""


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
"""Weight of each world in the first steps of the mixture, by how much there was to learn."""


def mix_first_steps() -> RunConfig:
    """The first 8,000 steps of mix_tiny's start: 900 only copy, 1,500 show first turns; needs `make drivers`.

    Worlds and experts are those of `mix_tiny`; their weights differ.
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

    Two cubes show twice as many numbers per image as one, so that numbers are learned sooner.
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
"""Initial stages by name, for `python -m training cold_start`."""


def recipe_after(start: str) -> str:
    """Returns the recipe whose cold start continues from one of `FIRST_STARTS`."""
    recipe_by_start = {recipe().cold_start.start_from: name for name, recipe in RECIPES.items()}
    return recipe_by_start[f"training/recipes/checkpoints/{start}"]


def require_trainable(name: str) -> None:
    """Checks that a name is not one of `FIRST_STARTS`, which are not recipes.

    Raises:
        ConfigError: If it is one, with the command that makes it.
    """
    if name in FIRST_STARTS:
        raise ConfigError(
            f"{name} is not a recipe to train, but the start from which the cold start of {recipe_after(name)} "
            f"continues. To rebuild it: python -m training cold_start {name}"
        )
