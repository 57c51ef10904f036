"""The worlds of a mix, in as many copies as each iteration plays of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from training.config.shares import Shares
from training.config.worlds import WorldSpec, world_names
from vlm_envs.vector.env import VectorWorld


class MixEntry(NamedTuple):
    """A world of a mix in an iteration.

    Attributes:
        number: Of the world, in the mix.
        spec: What it is.
        name: What the mix calls it.
        num_groups: How many groups are played of it.
        own: Which of them this process plays.
    """

    number: int
    spec: WorldSpec
    name: str
    num_groups: int
    own: range


class MixUnit(NamedTuple):
    """Worlds of a mix that play each start state together: partners of iVGR, or a world alone.

    Attributes:
        names: What the mix calls them.
        num_groups: How many groups an iteration plays of each.
    """

    names: tuple[str, ...]
    num_groups: int


class MixedWorlds:
    """The worlds of a mix, for iterations of `total` groups of so many copies.

    Where several processes (`num_processes`, this one is `rank`) play a mix together, each plays every so many-th group
    of an iteration, counted over all its worlds.
    """

    def __init__(
        self, specs: Sequence[WorldSpec], total: int, *, copies: int = 1, rank: int = 0, num_processes: int = 1
    ) -> None:
        self._specs, self._copies = tuple(specs), copies
        self._rank, self._num_processes = rank, num_processes
        self._names, self._shares = world_names(specs), Shares(specs, total)
        self._vectors: dict[tuple[int, int], VectorWorld] = {}
        for place in self.played(0):  # What a world lacks is to be known before anything is learnt.
            if place.own:
                self.vector(place)

    def played(self, iteration: int) -> list[MixEntry]:
        """Returns the worlds that an iteration plays."""
        places, num_before = [], 0
        for number, (spec, name, num_groups) in enumerate(
            zip(self._specs, self._names, self._shares.of(iteration), strict=True)
        ):
            own = range((self._rank - num_before) % self._num_processes, num_groups, self._num_processes)
            num_before += num_groups
            if num_groups:
                places.append(MixEntry(number, spec, name, num_groups, own))
        return places

    def units(self, iteration: int) -> list[MixUnit]:
        """Returns the same worlds, those together that play each start state together."""
        counts = self._shares.of(iteration)
        units = (MixUnit(tuple(self._names[each] for each in unit), counts[unit[0]]) for unit in self._shares.units)
        return [unit for unit in units if unit.num_groups]

    def vector(self, place: MixEntry) -> VectorWorld:
        """Returns worlds, `copies` of each group that this process plays, kept in each of the sizes that come up.

        Raises:
            WorkerError: If their workers do not come up; they are tried again next time.
        """
        key = (place.number, len(place.own))
        if key not in self._vectors:
            self._vectors[key] = place.spec.make_vector(len(place.own) * self._copies, split="train")
        return self._vectors[key]

    def close(self) -> None:
        """Ends the worlds' workers."""
        for worlds in self._vectors.values():
            worlds.close()
