"""How sure a success rate is: Wilson's interval, and McNemar's exact test of the same levels twice."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Interval(NamedTuple):
    """A confidence interval of a rate, both ends within 0 and 1.

    Attributes:
        low: Lower end.
        high: Upper end.
    """

    low: float
    high: float


def wilson_interval(num_successes: int, num_trials: int, confidence: float = 0.95) -> Interval:
    """Returns Wilson's score interval of a success rate, without continuity correction.

    Unlike the interval of the normal approximation it stays within 0 and 1 and has a width even when no
    trial, or every trial, succeeded.

    Args:
        num_successes: Trials that succeeded, from 0 to `num_trials`.
        num_trials: Independent trials; without any, every rate is possible.
        confidence: Two-sided confidence, strictly between 0 and 1.

    Raises:
        ValueError: If an argument is out of range.

    Source: Wilson, J. Am. Stat. Assoc. 22 (1927) 209-212; method 3 of Newcombe, Stat. Med. 17 (1998) 857-872.
    """
    from scipy.stats import binomtest  # half a second, for which a trainer that only writes need not wait

    if num_trials == num_successes == 0:
        return Interval(0.0, 1.0)
    found = binomtest(num_successes, num_trials).proportion_ci(confidence, method="wilson")
    return Interval(float(found.low), float(found.high))


def mcnemar_exact(num_only_before: int, num_only_after: int) -> float:
    """Returns the two-sided p-value of McNemar's exact test, 1 when no outcome changed.

    If training changed nothing, a level whose outcome changed is as likely to have been won as lost, so
    either count follows a binomial distribution with probability 1/2. Levels with equal outcomes carry no
    information.

    Args:
        num_only_before: Pairs that succeeded before and failed after.
        num_only_after: Pairs that failed before and succeeded after.

    Raises:
        ValueError: If a count is negative.

    Source: McNemar, Psychometrika 12 (1947) 153-157, with the exact binomial tail in place of chi-squared.
    """
    from scipy.stats import binomtest

    num_changed = num_only_before + num_only_after
    return float(binomtest(num_only_before, num_changed).pvalue) if num_changed else 1.0


@dataclass(frozen=True, kw_only=True)
class PairedOutcomes:
    """Outcomes of the same trials before and after.

    Attributes:
        num_both: Succeeded both times.
        num_only_before: Succeeded before, failed after.
        num_only_after: Failed before, succeeded after.
        num_neither: Failed both times.
    """

    num_both: int
    num_only_before: int
    num_only_after: int
    num_neither: int

    @property
    def num_pairs(self) -> int:
        """Trials that were made both times."""
        return self.num_both + self.num_only_before + self.num_only_after + self.num_neither

    @property
    def p_value(self) -> float:
        """P-value of McNemar's exact test that nothing changed."""
        return mcnemar_exact(self.num_only_before, self.num_only_after)


def pair_outcomes(before: Mapping[Hashable, bool], after: Mapping[Hashable, bool]) -> PairedOutcomes:
    """Counts the outcomes of the trials made both times, by keys such as world and seed; others are left out."""
    pairs = [(before[key], after[key]) for key in before if key in after]
    return PairedOutcomes(
        num_both=pairs.count((True, True)),
        num_only_before=pairs.count((True, False)),
        num_only_after=pairs.count((False, True)),
        num_neither=pairs.count((False, False)),
    )
