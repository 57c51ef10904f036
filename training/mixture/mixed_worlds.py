"""The worlds of a mixture, with the number of copies that each iteration needs.

Weights may adapt to success (`AdaptiveShares`):

    weights x success factors ──> due groups, accumulated over iterations ──> whole groups, most overdue first

Partner worlds of iVGR form one unit: they share a success rate and play the same start states.
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
"""Number of vectors kept per world with adaptive shares."""


class MixEntry(NamedTuple):
    """A world of a mixture in one iteration.

    Attributes:
        number: Index of the world in the mixture.
        spec: The world.
        name: Name of the world in the mixture.
        num_groups: Number of groups of the world.
        own: Indices of the groups that this process plays.
    """

    number: int
    spec: WorldSpec
    name: str
    num_groups: int
    own: range


class MixUnit(NamedTuple):
    """Worlds of a mixture that play the same start states: iVGR partners, or a single world.

    Attributes:
        names: Names of the worlds in the mixture.
        num_groups: Number of groups per world in an iteration.
    """

    names: tuple[str, ...]
    num_groups: int


class MixedWorlds:
    """The worlds of a mixture, for iterations of `total` groups with `copies` worlds each.

    With several processes, the groups of an iteration, counted over all worlds, are dealt round-robin to processes. A
    world with a pool visits its levels in order, whichever process plays them.

    Args:
        specs: The worlds.
        total: Groups per iteration.
        copies: Worlds per group.
        rank: Rank of this process.
        num_processes: Number of processes.
        pools: The pool of each world or None; empty if no world has a pool.
        mix: Settings of adaptive weights.
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
        for entry in self.played(0):  # so that missing requirements are found before training
            if entry.own:
                self.vector(entry)

    def played(self, iteration: int) -> list[MixEntry]:
        """Returns the worlds of an iteration."""
        entries, num_before = [], 0
        for number, (spec, name, num_groups) in enumerate(
            zip(self._specs, self._names, self._shares.of(iteration), strict=True)
        ):
            own = range((self._rank - num_before) % self._num_processes, num_groups, self._num_processes)
            num_before += num_groups
            if num_groups:
                entries.append(MixEntry(number, spec, name, num_groups, own))
        return entries

    def units(self, iteration: int) -> list[MixUnit]:
        """Returns the worlds of an iteration, grouped by shared start states."""
        counts = self._shares.of(iteration)
        units = (MixUnit(tuple(self._names[number] for number in unit), counts[unit[0]]) for unit in self._shares.units)
        return [unit for unit in units if unit.num_groups]

    def vector(self, place: MixEntry) -> VectorWorld:
        """Returns `copies` worlds for each group that this process plays; vectors are cached by size.

        Raises:
            WorkerError: If workers do not start; the next call tries again.
        """
        key = (place.number, len(place.own))
        if key not in self._vectors:
            self._make_room(place.number)
            self._vectors[key] = place.spec.make_vector(len(place.own) * self._copies, split="train")
        return self._vectors[key]

    def _make_room(self, number: int) -> None:
        """Closes the oldest vector of a world with adaptive shares, to bound the number of cached sizes."""
        kept = [key for key in self._vectors if key[0] == number]
        if self.adaptive is not None and len(kept) >= _MAX_SIZES:
            self._vectors.pop(kept[0]).close()

    def next_levels(self, place: MixEntry) -> list[str] | None:
        """Returns the levels of a world's next groups on all processes; None if it has no pool.

        If this process plays any of them, broken dataset levels are replaced.

        Raises:
            ConfigError: If no level of the pool can be shown.
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
        except WorkerError:  # the error occurs again, and is handled, when the levels are played
            return levels

    def metrics(self) -> dict[str, float]:
        """Returns metrics of pools and of adaptive shares."""
        found: dict[str, float] = {}
        for name, pool, num_visits in zip(self._names, self._pools, self._visits, strict=True):
            if pool is not None:
                found |= {f"pool/{name}/epoch": num_visits / len(pool), f"pool/{name}/size": float(len(pool))}
        found |= {
            f"pool/{self._names[number]}/broken": float(shown.num_broken) for number, shown in self._shown.items()
        }
        return found | ({} if self.adaptive is None else self.adaptive.metrics(self._names))

    def state_dict(self) -> dict[str, Any] | None:
        """Returns the state of pools and shares; None if iterations depend only on their number."""
        digests = [pool and pool.digest for pool in self._pools]
        if self.adaptive is None and not any(digests):
            return None
        shares = None if self.adaptive is None else self.adaptive.state_dict()
        return {"visits": list(self._visits), "digests": digests, "shares": shares}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state.

        Raises:
            ConfigError: If the levels of a pool have changed.
        """
        for name, spec, pool, before in zip(self._names, self._specs, self._pools, state["digests"], strict=True):
            if pool is not None and pool.digest != before:
                assert spec.pool is not None
                raise ConfigError(
                    f"The pool of {name} has changed since the run was started: {spec.pool.file}, or one of its lists "
                    f"of ids, now gives {len(pool)} levels. Restore the files, or start another run."
                )
        self._visits = list(state["visits"])
        if self.adaptive is not None:
            self.adaptive.load_state_dict(state["shares"])

    def close(self) -> None:
        """Closes all worlds and their workers."""
        for worlds in self._vectors.values():
            worlds.close()


class AdaptiveShares:
    """Assigns the groups of each iteration by the estimated success of the worlds at its start.

    Args:
        specs: Worlds with their weights.
        total: Groups per iteration, as for `Shares`.
        config: Settings of adaptive weights.

    Attributes:
        units: Indices of the worlds, with partners together.
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
        """Returns the number of groups of each world in an iteration, computed on the first call."""
        if iteration != self._iteration:
            self._iteration, self._counts = iteration, self._dealt()
        return self._counts

    def learn(self, success: Mapping[int, Sequence[bool]]) -> None:
        """Updates the success estimates with the outcomes of an iteration's episodes, by world index."""
        for index, unit in enumerate(self.units):
            outcomes = [outcome for number in unit for outcome in success.get(number, ())]
            if outcomes:
                rate, estimate = sum(outcomes) / len(outcomes), self._success[index]
                memory = 0.0 if estimate is None else self._config.memory
                self._success[index] = memory * (estimate or 0.0) + (1.0 - memory) * rate
        if self._config.schedule == "stepwise":
            last = self._success[self._num_open - 1]
            if last is not None and last >= self._config.unlock_success:
                self._num_open = min(self._num_open + 1, len(self.units))

    def metrics(self, names: Sequence[str]) -> dict[str, float]:
        """Returns share and groups in the last iteration and the current success estimate of each world.

        Args:
            names: Names of the worlds.
        """
        found: dict[str, float] = {}
        for index, unit in enumerate(self.units):
            success = self._success[index]
            for number in unit:
                found[f"mix/{names[number]}/share"] = self._shares[index] / len(unit)
                found[f"mix/{names[number]}/groups"] = float(self._counts[number])
                found[f"mix/{names[number]}/success"] = math.nan if success is None else success
        return found

    def state_dict(self) -> dict[str, Any]:
        """Returns the state on which future shares depend."""
        return {
            "success": list(self._success),
            "num_open": self._num_open,
            "due": list(self._due),
            "shares": list(self._shares),
            "iteration": self._iteration,
            "counts": self._counts,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state."""
        self._success, self._num_open = list(state["success"]), int(state["num_open"])
        self._due, self._shares = list(state["due"]), list(state["shares"])
        self._iteration, self._counts = int(state["iteration"]), tuple(state["counts"])

    def _dealt(self) -> tuple[int, ...]:
        """Assigns the groups of an iteration; rounding errors carry over to later ones."""
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
        """Returns the unit of the next group; None if one group is left, all units are pairs, and none is due."""
        order = sorted(range(self._num_open), key=lambda index: -self._due[index] / len(self.units[index]))
        fitting = [index for index in order if len(self.units[index]) <= num_left]
        if fitting:
            return fitting[0]
        return order[0] if self._due[order[0]] >= 1.0 else None
