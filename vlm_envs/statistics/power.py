"""How likely a test is to find a difference, and how many levels it needs to."""

from __future__ import annotations

import numpy as np


def mcnemar_power(num_levels: int, only_first: float, only_second: float, *, alpha: float = 0.05) -> float:
    """Returns how likely McNemar's exact test finds a difference between two agents.

    Args:
        num_levels: Levels that both play.
        only_first: Probability that the first agent alone solves a level.
        only_second: Probability that the second one alone does.
        alpha: Level of significance, two-sided.

    Raises:
        ValueError: If the probabilities are none.
    """
    from scipy.stats import binom

    changed = only_first + only_second
    if num_levels < 1 or min(only_first, only_second) < 0 or not 0 < changed <= 1:
        raise ValueError(f"Expected levels, and probabilities with a sum in (0, 1]; got {only_first}, {only_second}.")
    changes = np.arange(1, num_levels + 1)
    # The test rejects where the smaller of the two counts is at most `edge`
    edge = binom.ppf(alpha / 2, changes, 0.5)
    edge -= binom.cdf(edge, changes, 0.5) > alpha / 2
    share = only_second / changed
    rejects = binom.cdf(edge, changes, share) + binom.sf(changes - edge - 1, changes, share)
    return float((binom.pmf(changes, num_levels, changed) * rejects).sum())


def num_levels_needed(
    only_first: float, only_second: float, *, alpha: float = 0.05, power: float = 0.8, most: int = 100_000
) -> int | None:
    """Returns how many levels McNemar's exact test needs to find a difference with a given power; None beyond `most`.

    Args:
        only_first: Probability that the first agent alone solves a level.
        only_second: Probability that the second one alone does.
        alpha: Level of significance, two-sided.
        power: Probability of finding the difference.
        most: Levels beyond which nobody looks.
    """
    if only_first == only_second:
        return None
    low, high = 0, 8
    while mcnemar_power(high, only_first, only_second, alpha=alpha) < power:
        low, high = high, 2 * high
        if low >= most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = mcnemar_power(middle, only_first, only_second, alpha=alpha) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high if high <= most else None
