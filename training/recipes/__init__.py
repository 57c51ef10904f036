"""Recipes: functions that return the configuration of a run. Their names are what `python -m training` takes."""

from collections.abc import Callable

from training.config.run import RunConfig
from training.recipes.tiny import frozenlake_tiny, navigation_tiny, primitive_tiny, sokoban_tiny, svg_tiny, zoomqa_tiny

RECIPES: dict[str, Callable[[], RunConfig]] = {
    "frozenlake_tiny": frozenlake_tiny,
    "sokoban_tiny": sokoban_tiny,
    "svg_tiny": svg_tiny,
    "navigation_tiny": navigation_tiny,
    "primitive_tiny": primitive_tiny,
    "zoomqa_tiny": zoomqa_tiny,
}
