"""Confidence intervals of success rates and of their differences."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vlm_envs.statistics.pairs import PairedOutcomes


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
    if num_trials == num_successes == 0:
        return Interval(0.0, 1.0)
    if not (0 <= num_successes <= num_trials and 0 < confidence < 1):
        raise ValueError(f"Expected successes of trials, and a share; got {num_successes}, {num_trials}, {confidence}.")
    z, rate = _quantile(0.5 + 0.5 * confidence), num_successes / num_trials
    whole = 2 * (num_trials + z**2)
    middle = (2 * num_trials * rate + z**2) / whole
    reach = z / whole * math.sqrt(4 * num_trials * rate * (1 - rate) + z**2)
    low = 0.0 if num_successes == 0 else middle - reach
    return Interval(low, 1.0 if num_successes == num_trials else middle + reach)


def _quantile(share: float) -> float:
    """Returns a quantile of the normal distribution."""
    # Of `scipy.stats` it would take another half second to import, and a trainer that only writes needs neither
    from scipy.special import ndtri

    return float(ndtri(share))


def repeated_interval(num_successes: npt.ArrayLike, num_trials: npt.ArrayLike, confidence: float = 0.95) -> Interval:
    """Returns Wilson's interval of a success rate where levels are played several times.

    Trials of one level resemble each other, so that there is less to learn from them than from as many levels. The
    interval is Wilson's for the number of independent trials that would tell as much: all of them where levels do not
    matter or are played once, and the number of levels where repeats never differ, or where nothing is known of how
    they do because all trials succeeded, or none.

    Args:
        num_successes: Of each level, trials that succeeded, whole numbers.
        num_trials: Of each level, trials, at least one. `by_level` gives both.
        confidence: Two-sided confidence, strictly between 0 and 1.

    Source: the design effect of Kish, Survey Sampling (1965), section 8.2, with the linearised variance of a ratio,
        and Wilson's interval as in Korn and Graubard, Surv. Methodol. 24 (1998) 193-201, who adjust Clopper's so.
    """
    solved, trials = np.asarray(num_successes, float), np.asarray(num_trials, float)
    total = trials.sum()
    if not total:
        return Interval(0.0, 1.0)
    rate = solved.sum() / total
    variance = ((solved - rate * trials) ** 2).sum() / total**2
    independent = rate * (1 - rate) / variance if variance else total if 0 < rate < 1 else len(trials)
    independent = min(independent, total)
    z2 = _quantile((1 + confidence) / 2) ** 2
    middle = (rate + z2 / (2 * independent)) / (1 + z2 / independent)
    half = np.sqrt(z2 * (rate * (1 - rate) / independent + z2 / (4 * independent**2))) / (1 + z2 / independent)
    return Interval(max(0.0, float(middle - half)), min(1.0, float(middle + half)))


def paired_rates_interval(outcomes: PairedOutcomes, before: Interval, after: Interval) -> Interval:
    """Returns the interval of the difference of two success rates on the same trials, after less before.

    Unlike a bootstrap's it has a width even where no outcome changed.

    Args:
        outcomes: Of the trials; at least one.
        before: Wilson's interval of the rate before, for repeats as `repeated_interval` gives it.
        after: The same of the rate after.

    Source: Newcombe, Stat. Med. 17 (1998) 2635-2650, method 10.
    """
    both, lost, won, neither = (
        outcomes.num_both,
        outcomes.num_only_before,
        outcomes.num_only_after,
        outcomes.num_neither,
    )
    total = outcomes.num_pairs
    first, second = (both + lost) / total, (both + won) / total
    product = both * neither - lost * won
    margins = math.sqrt((both + lost) * (won + neither) * (both + won) * (lost + neither))
    agreement = (max(product - total / 2, 0.0) if product > 0 else product) / margins if margins else 0.0

    def reach(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one**2 - 2 * agreement * one * other + other**2))

    difference = second - first
    low = difference - reach(second - after.low, before.high - first)
    high = difference + reach(first - before.low, after.high - second)
    return Interval(max(-1.0, low), min(1.0, high))
