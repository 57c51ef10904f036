"""Shares of a mix that go by success: how many groups of the next iteration each world plays.

    weights x factors of success ──> what each is due, added up over iterations ──> whole groups, the most overdue first

Partners of iVGR are one unit: they have one success, and each start state is played by both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from training.config.worlds.mix import MixConfig
from training.config.worlds.shares import Shares
from training.config.worlds.spec import WorldSpec


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
