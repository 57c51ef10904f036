"""Recipes that ship, by the names that `python -m training` takes."""

from __future__ import annotations

from collections.abc import Callable

from training.config.run import RunConfig
from training.recipes.tiny import frozenlake_tiny, navigation_tiny, primitive_tiny, sokoban_tiny, svg_tiny, zoomqa_tiny

RECIPES: dict[str, Callable[[], RunConfig]] = {
    made.__name__: made
    for made in (frozenlake_tiny, sokoban_tiny, svg_tiny, navigation_tiny, primitive_tiny, zoomqa_tiny)
}
