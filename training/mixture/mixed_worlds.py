"""The worlds of a mixture, in as many copies as each iteration plays of them.

Weights may adapt to success (`AdaptiveShares`):

    weights x factors of success ──> what each is due, added up over iterations ──> whole groups, the most overdue first

Partners of iVGR are one unit: they have one success, and each start state is played by both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from training.config.world_spec import WorldSpec, world_names
from training.mixture.mixture_config import MixConfig, Shares
from training.pools.pool_levels import Pool, ShownLevels
from vlm_envs.errors import ConfigError, WorkerError
from vlm_envs.vector.vector_world import VectorWorld

_MAX_SIZES = 2
"""Vectors kept of a world whose shares change without end."""


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
    of an iteration, counted over all its worlds. A world with a pool goes through that level by level, whoever plays
    them.

    Args:
        specs: The worlds.
        total: Groups an iteration.
        copies: Worlds of a group.
        rank: Number of this process.
        num_processes: How many there are.
        pools: The pool of each world, None where it has none; empty where no world has.
        mix: How shares change with success.
    """

    def __init__(
        self,
        specs: Sequence[WorldSpec],
        total: int,
        *,
        copies: int = 1,
        rank: int = 0,
        num_processes: int = 1,
        pools: Sequence[Pool | None] = (),
        mix: MixConfig | None = None,
    ) -> None:
        self._specs, self._copies = tuple(specs), copies
        self._rank, self._num_processes = rank, num_processes
        self._names, self._pools = world_names(specs), tuple(pools) or (None,) * len(specs)
        self._visits = [0] * len(specs)
        self._shown = {
            number: ShownLevels(self._names[number], pool.ids)
            for number, pool in enumerate(self._pools)
            if pool is not None and specs[number].reads_data
        }
        self.adaptive = AdaptiveShares(specs, total, mix) if mix is not None and mix.schedule != "fixed" else None
        self._shares = self.adaptive or Shares(specs, total)
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
            self._make_room(place.number)
            self._vectors[key] = place.spec.make_vector(len(place.own) * self._copies, split="train")
        return self._vectors[key]

    def _make_room(self, number: int) -> None:
        """Ends the oldest vector of a world whose shares change without end, so that not every size is kept."""
        kept = [key for key in self._vectors if key[0] == number]
        if self.adaptive is not None and len(kept) >= _MAX_SIZES:
            self._vectors.pop(kept[0]).close()

    def next_levels(self, place: MixEntry) -> list[str] | None:
        """Returns the levels of a world's next groups, this process's or not; None where it has no pool.

        Where this process plays some, those of a data set can be shown: another stands for each that cannot.

        Raises:
            ConfigError: If none of the pool can be shown.
        """
        pool = self._pools[place.number]
        if pool is None:
            return None
        first = self._visits[place.number]
        self._visits[place.number] += place.num_groups
        levels = pool.visited(first, place.num_groups)
        shown = self._shown.get(place.number)
        if shown is None or not place.own:
            return levels
        try:
            return shown.in_place_of(levels, self.vector(place))
        except WorkerError:  # who plays them meets it again, and knows what to do
            return levels

    def metrics(self) -> dict[str, float]:
        """Returns where each world's pool stands, and what shares go by where they change."""
        found: dict[str, float] = {}
        for name, pool, num_visits in zip(self._names, self._pools, self._visits, strict=True):
            if pool is not None:
                found |= {f"pool/{name}/epoch": num_visits / len(pool), f"pool/{name}/size": float(len(pool))}
        found |= {f"pool/{self._names[each]}/broken": float(shown.num_broken) for each, shown in self._shown.items()}
        return found | ({} if self.adaptive is None else self.adaptive.metrics(self._names))

    def state_dict(self) -> dict[str, Any] | None:
        """Returns what the next iteration depends on; None where it depends on nothing but its number."""
        digests = [pool and pool.digest for pool in self._pools]
        if self.adaptive is None and not any(digests):
            return None
        shares = None if self.adaptive is None else self.adaptive.state_dict()
        return {"visits": list(self._visits), "digests": digests, "shares": shares}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` returned.

        Raises:
            ConfigError: If a pool has other levels now.
        """
        for name, spec, pool, before in zip(self._names, self._specs, self._pools, state["digests"], strict=True):
            if pool is not None and pool.digest != before:
                assert spec.pool is not None
                raise ConfigError(
                    f"The pool of {name} is not the one that the run began with: {spec.pool.file}, or a list of ids "
                    f"that goes with it, has changed, and now has {len(pool)} levels for this run. Put the files back, "
                    "or start another run."
                )
        self._visits = list(state["visits"])
        if self.adaptive is not None:
            self.adaptive.load_state_dict(state["shares"])

    def close(self) -> None:
        """Ends the worlds' workers."""
        for worlds in self._vectors.values():
            worlds.close()


class AdaptiveShares:
    """Deals out the groups of one iteration after another, by what is known of the worlds' success when it begins.

    Args:
        specs: Worlds with their weights.
        total: Groups an iteration, as for `Shares`.
        config: How weights change.

    Attributes:
        units: The worlds' places, those of partners together.
    """

    def __init__(self, specs: Sequence[WorldSpec], total: int, config: MixConfig) -> None:
        self.units, self._total, self._config = Shares(specs, total).units, total, config
        self._weights = [specs[unit[0]].weight * len(unit) for unit in self.units]
        self._num_worlds = len(specs)
        self._success: list[float | None] = [None] * len(self.units)
        self._num_open = 1 if config.schedule == "stepwise" else len(self.units)
        self._due = [0.0] * len(self.units)
        self._shares = [0.0] * len(self.units)
        self._iteration, self._counts = -1, (0,) * len(specs)

    def of(self, iteration: int) -> tuple[int, ...]:
        """Returns how many groups of an iteration each world plays; dealt when it is first asked for."""
        if iteration != self._iteration:
            self._iteration, self._counts = iteration, self._dealt()
        return self._counts

    def learn(self, success: Mapping[int, Sequence[bool]]) -> None:
        """Takes what an iteration's episodes came to, by number of their world."""
        for index, unit in enumerate(self.units):
            outcomes = [outcome for number in unit for outcome in success.get(number, ())]
            if outcomes:
                rate, known = sum(outcomes) / len(outcomes), self._success[index]
                memory = 0.0 if known is None else self._config.memory
                self._success[index] = memory * (known or 0.0) + (1.0 - memory) * rate
        if self._config.schedule == "stepwise":
            last = self._success[self._num_open - 1]
            if last is not None and last >= self._config.unlock_success:
                self._num_open = min(self._num_open + 1, len(self.units))

    def metrics(self, names: Sequence[str]) -> dict[str, float]:
        """Returns for each world the share and the groups of the last iteration, and its success as known by now.

        Args:
            names: Of the worlds.
        """
        found: dict[str, float] = {}
        for index, unit in enumerate(self.units):
            known = self._success[index]
            for number in unit:
                found[f"mix/{names[number]}/share"] = self._shares[index] / len(unit)
                found[f"mix/{names[number]}/groups"] = float(self._counts[number])
                found[f"mix/{names[number]}/success"] = math.nan if known is None else known
        return found

    def state_dict(self) -> dict[str, Any]:
        """Returns what the next iteration's shares depend on."""
        return {
            "success": list(self._success),
            "num_open": self._num_open,
            "due": list(self._due),
            "shares": list(self._shares),
            "iteration": self._iteration,
            "counts": self._counts,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` returned."""
        self._success, self._num_open = list(state["success"]), int(state["num_open"])
        self._due, self._shares = list(state["due"]), list(state["shares"])
        self._iteration, self._counts = int(state["iteration"]), tuple(state["counts"])

    def _dealt(self) -> tuple[int, ...]:
        """Deals out an iteration's groups; what is rounded off one time is made up the next."""
        weights = [
            weight * (self._config.factor(success) if self._config.schedule == "success" else 1.0)
            for weight, success in zip(self._weights[: self._num_open], self._success, strict=False)
        ]
        self._shares = [weight / sum(weights) for weight in weights] + [0.0] * (len(self.units) - len(weights))
        self._due = [due + self._total * share for due, share in zip(self._due, self._shares, strict=True)]
        counts, num_left = [0] * self._num_worlds, self._total
        while num_left > 0:
            index = self._most_overdue(num_left)
            if index is None:
                break
            unit = self.units[index]
            for number in unit:
                counts[number] += 1
            self._due[index] -= len(unit)
            num_left -= len(unit)
        return tuple(counts)

    def _most_overdue(self, num_left: int) -> int | None:
        """Returns which unit plays the next group; None where one place is left, only pairs play, and none is due."""
        order = sorted(range(self._num_open), key=lambda each: -self._due[each] / len(self.units[each]))
        fitting = [each for each in order if len(self.units[each]) <= num_left]
        if fitting:
            return fitting[0]
        return order[0] if self._due[order[0]] >= 1.0 else None
