"""Items of a listed split that cannot be shown, found by those who count each item once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vlm_envs.qa.datasets.rows import BrokenRowError
from vlm_envs.splits import seed_index

_MAX_NAMED = 3


def unshown_items(world: Any, seeds: Iterable[int]) -> dict[int, str]:
    """Returns what is wrong with items whose picture or document is missing or broken; nothing of most.

    In the place of such an item a world shows the next one, which an evaluation would count twice. Each picture is
    decoded for this, as it is when it is shown.

    Args:
        world: A world without its wrappers. Of one whose split is not that of a data set's listed items, nothing is
            looked at.
        seeds: Reset seeds, of which each gives the item of its place in the split.

    Returns:
        What is wrong by seed, with file and row; empty where all can be shown.
    """
    count = world.num_levels
    source: Any = getattr(world.dynamics, "source", None)
    if not count or not hasattr(source, "ids"):
        return {}
    ids: Sequence[str] = source.ids(world.split)
    found: dict[int, str] = {}
    for seed in seeds:
        try:
            source.find(ids[seed_index(seed, world.split) % count])
        except BrokenRowError as error:
            found[seed] = str(error)
    return found


def told_left_out(which: str, faults: Iterable[str]) -> str:
    """Returns the line that counts items that are left out, and names the first of them.

    Args:
        which: Whose items they are.
        faults: What is wrong with each of at least one.
    """
    told = tuple(faults)
    named = " ".join(f"{fault.rstrip('.')}." for fault in told[:_MAX_NAMED])
    more = f" And {len(told) - _MAX_NAMED} more." if len(told) > _MAX_NAMED else ""
    return f"{which}: left out: {len(told)}, which cannot be shown. {named}{more}"
