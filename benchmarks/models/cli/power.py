"""`python -m benchmarks power`: how many levels a difference needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from vlm_envs.statistics.paired_tests import FamilyPower, family_levels_needed
from vlm_envs.validation import require, require_above, require_at_least, require_between

_MOST_MODELS, _MOST_WORLDS = 50, 100

_LEAST_ALPHA = 1e-6


@dataclass(frozen=True, kw_only=True)
class PowerOptions:
    """Compute how many levels of each world a board needs to find a difference between two agents.

    Attributes:
        first: Success rate of one agent.
        second: Success rate of the other.
        models: Agents on the board, without references: a board corrects for all of their pairs.
        worlds: Worlds of the board: it corrects for the pairs in all of them.
        agreement: Correlation of their outcomes on the same level, 0 for none.
        alpha: Level of significance, two-sided.
        power: Probability of finding the difference.
    """

    first: Annotated[float, Positional, arg(metavar="RATE")]
    second: Annotated[float, Positional, arg(metavar="RATE")]
    models: int = 2
    worlds: int = 1
    agreement: float = 0.0
    alpha: float = 0.05
    power: float = 0.8

    def __post_init__(self) -> None:
        require_between(self, 0, 1, "first", "second", "agreement")
        require_above(self, 0, "power")
        require(self.alpha < 1 and self.power < 1, "--alpha and --power must be below 1.")
        require(self.alpha >= _LEAST_ALPHA, f"--alpha must be at least {_LEAST_ALPHA:g}; got {self.alpha:g}.")
        require_at_least(self, 2, "models")
        require_at_least(self, 1, "worlds")
        require(self.models <= _MOST_MODELS, f"--models must be at most {_MOST_MODELS}; got {self.models}.")
        require(self.worlds <= _MOST_WORLDS, f"--worlds must be at most {_MOST_WORLDS}; got {self.worlds}.")


def run_power(options: PowerOptions) -> None:
    """Prints the number of levels."""
    first, second = options.first, options.second
    if first == second:
        print(f"There is no difference to find: both succeed on {first:.0%} of the levels.")
        return
    needed = family_levels_needed(
        first,
        second,
        num_models=options.models,
        num_worlds=options.worlds,
        agreement=options.agreement,
        alpha=options.alpha,
        power=options.power,
    )
    found = "more than 100,000 levels" if needed is None else f"{needed.num_levels} levels"
    where = " of each world" if options.worlds > 1 else ""
    test = f"McNemar's exact test at {options.alpha:g}{_correction(options)}"
    assumed = "" if options.agreement else " Assumed: their outcomes on a level do not agree; see --agreement."
    print(
        f"{found}{where}: {test} finds {first:g} against {second:g} with a probability of {options.power:.0%}."
        f"{_range(needed)}{assumed}"
    )


def _correction(options: PowerOptions) -> str:
    num_tests = options.worlds * options.models * (options.models - 1) // 2
    if num_tests == 1:
        return ""
    worlds = "1 world" if options.worlds == 1 else f"{options.worlds} worlds"
    return f", Holm-corrected for {num_tests} pairs ({options.models} models in {worlds}),"


def _range(needed: FamilyPower | None) -> str:
    if needed is None or needed.num_tests == 1:
        return ""
    return (
        f" This probability is {needed.least:.0%} if no other pair differs, and {needed.most:.0%} if half of the "
        "models have each rate in every world."
    )
