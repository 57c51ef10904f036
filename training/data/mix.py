"""The worlds of a mix, in as many copies as each iteration plays of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from training.config.shares import Shares
from training.config.worlds import WorldSpec, world_names
from vlm_envs.vector.env import VectorWorld


class MixEntry(NamedTuple):
    """A world of a mix in an iteration: its number in the mix, what it is, its name there, how many groups."""

    number: int
    spec: WorldSpec
    name: str
    num_groups: int


class MixedWorlds:
    """The worlds of a mix, for iterations of `total` groups of so many copies."""

    def __init__(self, specs: Sequence[WorldSpec], total: int, *, copies: int = 1) -> None:
        self._specs, self._copies = tuple(specs), copies
        self._names, self._shares = world_names(specs), Shares(specs, total)
        self._vectors: dict[tuple[int, int], VectorWorld] = {}
        for place in self.played(0):  # What a world lacks is to be known before anything is learnt.
            self.vector(place)

    def played(self, iteration: int) -> list[MixEntry]:
        """Returns the worlds that an iteration plays."""
        named = zip(self._specs, self._names, self._shares.of(iteration), strict=True)
        return [MixEntry(number, *each) for number, each in enumerate(named) if each[-1]]

    def vector(self, place: MixEntry) -> VectorWorld:
        """Returns `num_groups * copies` worlds, kept in each of the sizes that one is played in.

        Raises:
            WorkerError: If their workers do not come up; they are tried again next time.
        """
        key = (place.number, place.num_groups)
        if key not in self._vectors:
            self._vectors[key] = place.spec.make_vector(place.num_groups * self._copies, split="train")
        return self._vectors[key]

    def close(self) -> None:
        """Ends the worlds' workers."""
        for worlds in self._vectors.values():
            worlds.close()
