"""Items chosen at random."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

ItemT = TypeVar("ItemT")


def pick(rng: np.random.Generator, items: Sequence[ItemT]) -> ItemT:
    """Returns one item, each as likely."""
    return items[int(rng.integers(len(items)))]


def pick_several(rng: np.random.Generator, items: Sequence[ItemT], count: int) -> list[ItemT]:
    """Returns different items in a random order, at most as many as there are."""
    return [items[int(index)] for index in rng.permutation(len(items))[:count]]


def pick_by_group(rng: np.random.Generator, items: Iterable[ItemT], group_of: Callable[[ItemT], str]) -> ItemT:
    """Returns one item, each group as likely, and each item of a group."""
    groups: dict[str, list[ItemT]] = {}
    for item in items:
        groups.setdefault(group_of(item), []).append(item)
    return pick(rng, groups[pick(rng, sorted(groups))])
