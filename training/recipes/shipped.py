"""Recipes that ship, by the names that `python -m training` takes."""

from __future__ import annotations

from collections.abc import Callable

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
