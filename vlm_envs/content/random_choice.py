"""Random choices from collections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

ItemT = TypeVar("ItemT")


def pick(rng: np.random.Generator, items: Sequence[ItemT]) -> ItemT:
    """Returns a uniformly random item."""
    return items[int(rng.integers(len(items)))]


def pick_several(rng: np.random.Generator, items: Sequence[ItemT], count: int) -> list[ItemT]:
    """Returns up to `count` distinct items in random order."""
    return [items[int(index)] for index in rng.permutation(len(items))[:count]]


def pick_by_group(rng: np.random.Generator, items: Iterable[ItemT], group_of: Callable[[ItemT], str]) -> ItemT:
    """Returns a random item of a random group; groups are equally likely, whatever their size."""
    groups: dict[str, list[ItemT]] = {}
    for item in items:
        groups.setdefault(group_of(item), []).append(item)
    return pick(rng, groups[pick(rng, sorted(groups))])
