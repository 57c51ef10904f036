"""Pools of levels, gone through epoch by epoch in an order that a seed decides.

    file of levels ──> filters (pass rates, lengths, lists of ids) ──> epoch 0: C A B · epoch 1: B A C · ...

Every level comes once in an epoch before any comes again. Where the next one stands is a count of visits, and nothing
else: whoever has that count goes on exactly.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from training.config.worlds.pool_levels import PoolLevel, chosen_levels
from training.config.worlds.pools import PoolConfig


class Pool:
    """Levels in an endless order: each once an epoch, before any comes again.

    Args:
        levels: At least one.
        seed: Of the order; equal seeds give equal levels the same order.
        order: As in `PoolConfig`.

    Attributes:
        ids: The levels' ids, in the order of the file.
    """

    def __init__(self, levels: Sequence[PoolLevel], *, seed: int, order: str = "shuffled") -> None:
        assert levels, "see `open_pool`"
        self.ids = tuple(each.level_id for each in levels)
        self._seed = seed
        self._rank = [_difficulty(each) for each in levels] if order == "easiest_first" else None
        self._epochs: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def digest(self) -> str:
        """Hash of the ids in their order: of equal seeds, pools with equal ones have the same order."""
        return hashlib.blake2b(json.dumps([self.ids, self._rank]).encode("ascii"), digest_size=8).hexdigest()

    def visited(self, first: int, num: int) -> list[str]:
        """Returns the levels of `num` visits from visit `first` on, counted from 0 over all epochs."""
        places = (divmod(visit, len(self)) for visit in range(first, first + num))
        return [self.ids[self._epoch(epoch)[place]] for epoch, place in places]

    def _epoch(self, epoch: int) -> list[int]:
        """Returns the order of an epoch."""
        if epoch not in self._epochs:
            order: list[int] = np.random.default_rng([self._seed, epoch]).permutation(len(self)).tolist()
            ranks = self._rank
            self._epochs = {epoch: order if ranks is None else sorted(order, key=lambda place: ranks[place])}
        return self._epochs[epoch]


def _difficulty(level: PoolLevel) -> tuple[float, float]:
    """Returns what levels are ordered by, the easiest first; those of which nothing is known last."""
    rate, length = level.pass_rate, level.solution_length
    return 1.0 if rate is None else -rate, 1e9 if length is None else float(length)


def open_pools(configs: Sequence[PoolConfig | None], *, seed: int) -> list[Pool | None]:
    """Returns the pool of each world that has one; raises as `chosen_levels`."""
    return [None if config is None else open_pool(config, seed=seed) for config in configs]


def open_pool(config: PoolConfig, *, seed: int) -> Pool:
    """Returns the levels of a pool that its filters let through; raises as `chosen_levels`."""
    return Pool(chosen_levels(config), seed=seed, order=config.order)
