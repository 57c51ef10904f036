"""Levels of a pool whose pictures turn out to be missing or broken: another one is played in the place of each."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError
from vlm_envs.vector.vector_world import VectorWorld

_logger = logging.getLogger(__name__)

_AT_ONCE = 16
"""Levels that are looked at in one call of a world, which has only so much time."""


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
