"""`python -m benchmarks power`: how many levels a difference needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from vlm_envs.arguments.ranges import require_above, require_between
from vlm_envs.errors import require
from vlm_envs.statistics.power import num_levels_needed


@dataclass(frozen=True, kw_only=True)
class PowerOptions:
    """Tell how many levels it takes to find a difference between two agents on the same levels.

    Attributes:
        first: Success rate of one agent.
        second: Success rate of the other.
        agreement: Correlation of their outcomes on the same level, 0 for none.
        alpha: Level of significance, two-sided.
        power: Probability of finding the difference.
    """

    first: Annotated[float, Positional, arg(metavar="RATE")]
    second: Annotated[float, Positional, arg(metavar="RATE")]
    agreement: float = 0.0
    alpha: float = 0.05
    power: float = 0.8

    def __post_init__(self) -> None:
        require_between(self, 0, 1, "first", "second", "agreement")
        require_above(self, 0, "alpha", "power")
        require(self.alpha < 1 and self.power < 1, "--alpha and --power must be below 1.")


def run_power(options: PowerOptions) -> None:
    """Prints the number of levels."""
    first, second = options.first, options.second
    if first == second:
        print(f"There is no difference to find: both succeed on {first:.0%} of the levels.")
        return
    both = first * second + options.agreement * math.sqrt(first * (1 - first) * second * (1 - second))
    both = min(both, first, second)
    needed = num_levels_needed(first - both, second - both, alpha=options.alpha, power=options.power)
    told = f"{needed} levels" if needed is not None else "more than 100,000 levels"
    test = f"McNemar's exact test at {options.alpha:g}"
    assumed = (
        "" if options.agreement else " It is assumed that their outcomes on a level do not agree; see --agreement."
    )
    print(f"{told}: {test} finds {first:g} against {second:g} with a probability of {options.power:.0%}.{assumed}")
