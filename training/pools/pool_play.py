"""Playing a pool: its levels in a seeded order, epoch by epoch, and replacements for broken ones.

    file of levels ──> filters (pass rates, lengths, lists of ids) ──> epoch 0: C A B · epoch 1: B A C · ...

Every level comes once per epoch. The position is a count of visits and nothing else, so that a resumed run continues
exactly.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from training.pools.pool_config import PoolConfig
from training.pools.pool_levels import PoolLevel, chosen_levels
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.qa.datasets.rows import BrokenRowError
from vlm_envs.vector.env import VectorWorld

_logger = logging.getLogger(__name__)

_AT_ONCE = 16
"""Levels that are looked at in one call of a world, which has only so much time."""


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


class ShownLevels:
    """Which levels of a pool can be shown, looked at when their turn comes for the first time.

    What stands for a level that cannot is the next one in the pool's file that can, and so the same in every process
    and after a resumption.

    Args:
        name: What the mix calls the world.
        ids: The pool's levels, in the order of its file.
    """

    def __init__(self, name: str, ids: Sequence[str]) -> None:
        self._name, self._ids = name, tuple(ids)
        self._faults: dict[str, str] = {}

    @property
    def num_broken(self) -> int:
        """How many levels cannot be shown, of those whose turn has come."""
        return sum(map(bool, self._faults.values()))

    def in_place_of(self, levels: Sequence[str], worlds: VectorWorld) -> list[str]:
        """Returns levels that can be shown; each that cannot is named once in a warning, with its file and row.

        Args:
            levels: Of the pool.
            worlds: Where they are to be played; the first of them looks.

        Raises:
            ConfigError: If no level of the pool can be shown.
        """
        self._look(levels, worlds)
        return [level if not self._faults[level] else self._next_after(level, worlds) for level in levels]

    def _next_after(self, level: str, worlds: VectorWorld) -> str:
        place = self._ids.index(level)
        for other in (*self._ids[place + 1 :], *self._ids[:place]):
            self._look([other], worlds)
            if not self._faults[other]:
                return other
        raise ConfigError(
            f"None of the {len(self._ids)} levels in the pool of {self._name} can be shown. {self._faults[level]} Copy "
            "the data set's pictures again, then go on with --resume."
        )

    def _look(self, levels: Sequence[str], worlds: VectorWorld) -> None:
        new = [level for level in dict.fromkeys(levels) if level not in self._faults]
        for start in range(0, len(new), _AT_ONCE):
            part = new[start : start + _AT_ONCE]
            for level, fault in zip(part, worlds.apply({0: partial(level_faults, levels=part)})[0], strict=True):
                self._faults[level] = fault
                if fault:
                    _logger.warning(
                        "A level of %s is left out, and the next one played in its place. %s %d of the pool's %d "
                        "levels are left out by now.",
                        self._name,
                        fault,
                        self.num_broken,
                        len(self._ids),
                    )


def level_faults(world: Any, levels: Sequence[str], *, of: type[VLMEnvsError] = BrokenRowError) -> list[str]:
    """Returns what is wrong with each level, nothing with most; called where the world lives.

    Args:
        world: The world, whose data have the levels.
        levels: Their ids.
        of: The errors that are told; any other is raised.
    """
    found: list[str] = []
    for level in levels:
        try:
            world.dynamics.load(level)
            found.append("")
        except of as error:
            found.append(str(error))
    return found
