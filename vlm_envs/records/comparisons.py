"""Comparing agents that met the same levels: paired bootstrap, Holm's correction, repeats, and power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vlm_envs.records.statistics import Interval

_SEED = 0
"""Of the resampling, so that a page says the same whenever it is made."""


class PairedDifference(NamedTuple):
    """Difference of two means over the same levels.

    Attributes:
        mean: Second minus first.
        interval: Its confidence interval.
        p_value: Two-sided, that there is no difference.
    """

    mean: float
    interval: Interval
    p_value: float


def paired_bootstrap(
    first: npt.ArrayLike, second: npt.ArrayLike, *, confidence: float = 0.95, num_resamples: int = 10_000
) -> PairedDifference:
    """Returns the difference of two agents' means on the same levels, which are resampled with replacement.

    Args:
        first: float[N], one number a level.
        second: float[N], those of the other agent in the same order.
        confidence: Two-sided confidence, strictly between 0 and 1.
        num_resamples: How often.

    Returns:
        The difference with its percentile interval; the p-value is twice the smaller share of resamples on the other
        side of 0, and never below 2 / (num_resamples + 1).

    Raises:
        ValueError: If the arrays are empty or of different lengths.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 13 and 15.
    """
    differences = np.asarray(second, float) - np.asarray(first, float)
    if differences.ndim != 1 or not len(differences):
        raise ValueError(f"Expected two arrays of as many levels, at least one; got shape {differences.shape}.")
    rng = np.random.default_rng(_SEED)
    means = np.concatenate([
        differences[rng.integers(len(differences), size=(rows, len(differences)))].mean(axis=1)
        for rows in _chunks(num_resamples, len(differences))
    ])  # fmt: skip
    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    smaller = min((means <= 0).sum(), (means >= 0).sum())
    return PairedDifference(
        float(differences.mean()),
        Interval(float(low), float(high)),
        min(1.0, float(2 * (smaller + 1) / (num_resamples + 1))),
    )


def _chunks(num_rows: int, width: int, most: int = 2**22) -> list[int]:
    """Returns numbers of rows that sum to `num_rows`, so that none of the blocks takes much memory."""
    step = max(1, most // width)
    return [min(step, num_rows - start) for start in range(0, num_rows, step)]


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p-values corrected for how many there are, in their order: Holm's step-down, never above 1.

    Source: Holm, Scand. J. Stat. 6 (1979) 65-70.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def pass_at_k(num_trials: int, num_successes: int, k: int) -> float:
    """Returns the probability that at least one of k trials of a level succeeds, estimated without bias.

    Args:
        num_trials: Trials that were made of the level, at least k.
        num_successes: Of these, how many succeeded.
        k: Trials that are drawn of them without replacement.

    Raises:
        ValueError: If a number is out of range.

    Source: Chen et al., Evaluating Large Language Models Trained on Code (2021), equation 1.
    """
    _require_trials(num_trials, num_successes, k)
    return 1.0 - math.comb(num_trials - num_successes, k) / math.comb(num_trials, k)


def pass_hat_k(num_trials: int, num_successes: int, k: int) -> float:
    """Returns the probability that all of k trials of a level succeed (pass^k), estimated without bias.

    Args:
        num_trials: Trials that were made of the level, at least k.
        num_successes: Of these, how many succeeded.
        k: Trials that are drawn of them without replacement.

    Raises:
        ValueError: If a number is out of range.

    Source: Yao et al., tau-bench (2024), section 3.
    """
    _require_trials(num_trials, num_successes, k)
    return math.comb(num_successes, k) / math.comb(num_trials, k)


def _require_trials(num_trials: int, num_successes: int, k: int) -> None:
    if not (1 <= k <= num_trials and 0 <= num_successes <= num_trials):
        raise ValueError(
            f"Expected 1 <= k <= trials and 0 <= successes <= trials; got k={k}, {num_trials} trials and "
            f"{num_successes} successes."
        )


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
    high = 8
    while mcnemar_power(high, only_first, only_second, alpha=alpha) < power:
        high *= 2
        if high > most:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        enough = mcnemar_power(middle, only_first, only_second, alpha=alpha) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high
