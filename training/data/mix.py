"""The worlds of a mix, in as many copies as each iteration plays of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from training.config.shares import Shares
from training.config.worlds import WorldSpec, world_names
from vlm_envs.errors import WorkerError
from vlm_envs.vector.env import VectorWorld

_logger = logging.getLogger(__name__)


class MixedWorlds:
    """The worlds of a mix in as many copies as an iteration plays.

    Args:
        specs: Worlds with their weights.
        total: Groups an iteration.
        copies: Episodes a group.
    """

    def __init__(self, specs: Sequence[WorldSpec], total: int, *, copies: int = 1) -> None:
        self._specs, self._copies = tuple(specs), copies
        self._names, self._shares = world_names(specs), Shares(specs, total)
        self._vectors: dict[tuple[int, int], VectorWorld] = {}
        self.of(0)  # What a world lacks is to be known before anything is learnt.

    def of(self, iteration: int) -> list[tuple[WorldSpec, str, VectorWorld, int]]:
        """Returns spec, name, `count * copies` worlds and count of each world that an iteration plays.

        A world whose share is no whole number is kept in each of the sizes it is played in.

        Raises:
            WorkerError: If the workers of some do not come up.
        """
        return [
            (self._specs[index], self._names[index], self._vector(index, count), count)
            for index, count in enumerate(self._shares.of(iteration))
            if count
        ]

    def try_of(self, iteration: int) -> list[tuple[WorldSpec, str, VectorWorld | None, int]]:
        """Returns what `of` does, with None for worlds whose workers do not come up; they are tried again next time."""
        return [
            (self._specs[index], self._names[index], self._try_vector(index, count), count)
            for index, count in enumerate(self._shares.of(iteration))
            if count
        ]

    def _try_vector(self, index: int, count: int) -> VectorWorld | None:
        try:
            return self._vector(index, count)
        except WorkerError as error:
            _logger.warning("%s Groups of %s in this iteration: %d, left out.", error, self._names[index], count)
            return None

    def _vector(self, index: int, count: int) -> VectorWorld:
        if (index, count) not in self._vectors:
            made = self._specs[index].make_vector(count * self._copies, split="train")
            self._vectors[index, count] = made
        return self._vectors[index, count]

    def close(self) -> None:
        """Ends the worlds' workers."""
        for worlds in self._vectors.values():
            worlds.close()
