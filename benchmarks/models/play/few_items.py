"""Worlds with fewer items in the split than were asked for, and datasets of which only a part is played."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.models.board.spec import WorldSpec
from vlm_envs.qa.datasets.dataset_splits import BY_HASH


def few_items_lines(worlds: Sequence[WorldSpec], asked: int | None) -> list[str]:
    """Returns a line for each world that plays fewer items than its user may expect.

    Args:
        worlds: What is played.
        asked: Episodes that the user asked for; None for the default.
    """
    return [line for world in worlds if (line := _line(world, asked))]


def _line(world: WorldSpec, asked: int | None) -> str:
    count, is_divided = world.num_levels, _is_divided(world)
    if count is None or (not is_divided if asked is None else asked <= count):
        return ""
    of_asked = "" if asked is None else f" of {asked}"
    remedy = "; is_benchmark=True makes all of them test" if is_divided and world.split == "test" else ""
    items = "1 item" if count == 1 else f"{count} items"
    return f"{world.label}: plays {count}{of_asked}: split {world.split} has {items}{remedy}."


def _is_divided(world: WorldSpec) -> bool:
    """Returns whether a dataset is divided by a hash only because nothing else was asked for."""
    is_asked = {"is_benchmark", "train_on_all"} & world.kwargs.keys()
    return world.kwargs.get("dataset") in BY_HASH and not is_asked
