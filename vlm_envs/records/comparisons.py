"""Comparing agents that met the same levels: paired bootstrap and sign flips, Holm's correction, repeats, and power.

Episodes on one level are no independent trials: where a level is played several times, levels are what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vlm_envs.records.statistics import Interval, PairedOutcomes

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
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    levels: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    num_resamples: int = 10_000,
) -> PairedDifference:
    """Returns the difference of two agents' means on the same levels, which are resampled with replacement.

    Args:
        first: float[N], one number an episode.
        second: float[N], those of the other agent in the same order.
        levels: What tells levels apart, one an episode; None where no level was played twice.
        confidence: Two-sided confidence, strictly between 0 and 1.
        num_resamples: How often.

    Returns:
        The difference with its percentile interval; the p-value is twice the smaller share of resamples on the other
        side of 0. It is never below 2 / (num_resamples + 1), nor below 2 / 2^m for m levels on which the agents
        differ: all of m signs are equal that often by chance, however small the share.

    Raises:
        ValueError: If the arrays are empty or of different lengths.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 13 and 15.
    """
    differences = np.asarray(second, float) - np.asarray(first, float)
    if differences.ndim != 1 or not len(differences):
        raise ValueError(f"Expected two arrays of as many levels, at least one; got shape {differences.shape}.")
    sums, counts = by_level(differences, levels)
    rng = np.random.default_rng(_SEED)
    means = np.concatenate([
        sums[drawn := rng.integers(len(sums), size=(rows, len(sums)))].sum(axis=1) / counts[drawn].sum(axis=1)
        for rows in _chunks(num_resamples, len(sums))
    ])  # fmt: skip
    return PairedDifference(float(differences.mean()), _percentile_interval(means, confidence), _p_value(means, sums))


def seeds_interval(
    solved_SN: npt.ArrayLike,
    *,
    levels: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    num_resamples: int = 10_000,
) -> Interval:
    """Returns the interval of a mean over seeds and levels, both drawn again: both are of what there could have been.

    Args:
        solved_SN: float[S, N], one number of each seed's policy in each episode.
        levels: As `paired_bootstrap` has them.
        confidence: Two-sided confidence, strictly between 0 and 1.
        num_resamples: How often.

    Source: Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice (2021), section 4.
    """
    return _percentile_interval(_means_over_seeds(solved_SN, levels, num_resamples), confidence)


def paired_seeds_bootstrap(
    first_SN: npt.ArrayLike,
    second_SN: npt.ArrayLike,
    *,
    levels: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    num_resamples: int = 10_000,
) -> PairedDifference:
    """Returns the difference of two ways of training on the same levels; levels and seeds are drawn again.

    Unlike `paired_bootstrap` of each level's mean, it asks what other seeds would have come to, too. Of two or three
    seeds it knows little: where nothing differs but seeds, a p-value below 0.05 comes up once in eight times rather
    than once in twenty. Tell what each seed came to beside it.

    Args:
        first_SN: float[S, N], one number of each seed's policy in each episode.
        second_SN: float[S, N], those of the other way of training.
        levels: As `paired_bootstrap` has them.
        confidence: Two-sided confidence, strictly between 0 and 1.
        num_resamples: How often.

    Returns:
        Second minus first, with its percentile interval and a p-value as `paired_bootstrap` has them.

    Raises:
        ValueError: If the arrays are empty or of different shapes.

    Source: as `seeds_interval`.
    """
    first, second = np.asarray(first_SN, float), np.asarray(second_SN, float)
    if first.shape != second.shape or first.ndim != 2 or not first.size:
        raise ValueError(f"Expected two arrays of as many seeds and levels; got {first.shape} and {second.shape}.")
    differences_SN = second - first
    means = _means_over_seeds(differences_SN, levels, num_resamples)
    interval, p_value = _percentile_interval(means, confidence), _p_value(means, by_level(differences_SN, levels)[0])
    return PairedDifference(float(differences_SN.mean()), interval, p_value)


def _means_over_seeds(
    values_SN: npt.ArrayLike, levels: Sequence[Hashable] | None, num_resamples: int
) -> npt.NDArray[np.float64]:
    """Returns float[num_resamples]: means of seeds and levels drawn with replacement."""
    sums_SL, counts_L = by_level(values_SN, levels)
    num_seeds, num_levels = sums_SL.shape
    rng = np.random.default_rng(_SEED)
    means = []
    for _ in range(num_resamples):
        seeds, drawn = rng.integers(num_seeds, size=num_seeds), rng.integers(num_levels, size=num_levels)
        means.append(sums_SL[seeds][:, drawn].sum() / (num_seeds * counts_L[drawn].sum()))
    return np.array(means)


def by_level(
    episodes: npt.ArrayLike, levels: Sequence[Hashable] | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns the sums of each level's episodes, float[..., L] of float[..., N], and how many those are, float[L].

    Args:
        episodes: float[..., N], one number an episode.
        levels: What tells levels apart, one an episode; None where no level was played twice.

    Raises:
        ValueError: If there are not as many levels as episodes.
    """
    values = np.asarray(episodes, float)
    if levels is None:
        return values, np.ones(values.shape[-1])
    if len(levels) != values.shape[-1]:
        raise ValueError(f"Expected the level of each of {values.shape[-1]} episodes; got {len(levels)}.")
    numbers = {level: number for number, level in enumerate(dict.fromkeys(levels))}
    places = np.array([numbers[level] for level in levels])
    sums, counts = np.zeros((*values.shape[:-1], len(numbers))), np.bincount(places).astype(float)
    np.add.at(sums.T, places, values.T)
    return sums, counts


def _percentile_interval(means: npt.NDArray[np.float64], confidence: float) -> Interval:
    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return Interval(float(low), float(high))


def _p_value(means: npt.NDArray[np.float64], differences: npt.NDArray[np.float64]) -> float:
    """Returns the two-sided p-value of resampled means, not below what as many levels can show that differ at all.

    Args:
        means: Of the resamples.
        differences: float[L] or float[S, L], the sums of each level's differences, of each seed.
    """
    smaller = min((means <= 0).sum(), (means >= 0).sum())
    of_levels = differences.sum(axis=0) if differences.ndim > 1 else differences
    least = 2.0 ** (1 - int(np.count_nonzero(of_levels)))
    return min(1.0, max(least, float(2 * (smaller + 1) / (len(means) + 1))))


def _chunks(num_rows: int, width: int, most: int = 2**22) -> list[int]:
    """Returns numbers of rows that sum to `num_rows`, so that none of the blocks takes much memory."""
    step = max(1, most // width)
    return [min(step, num_rows - start) for start in range(0, num_rows, step)]


def sign_flip_test(differences: Sequence[int]) -> float:
    """Returns the two-sided p-value that two agents solve the levels equally often, 1 where none differs.

    Were they the same, the difference on any level would be as likely to have come out with the other sign. The
    p-value is exact: the share of all choices of signs under which the sum is as far from 0. On levels played once by
    each it is McNemar's exact test; on levels played several times it takes each level's episodes together.

    Args:
        differences: One number a level: episodes that the second agent solved, less those that the first one did.

    Source: Fisher, The Design of Experiments (1935), section 21; Pitman, J. R. Stat. Soc. Suppl. 4 (1937) 119-130.
    """
    sizes = [abs(difference) for difference in differences if difference]
    chances = np.ones(1)  # Of every sum, from the lowest on
    for size in sizes:
        flipped = np.zeros(len(chances) + 2 * size)
        flipped[: len(chances)] += chances / 2
        flipped[2 * size :] += chances / 2
        chances = flipped
    sums = np.arange(len(chances)) - sum(sizes)
    return min(1.0, float(chances[np.abs(sums) >= abs(sum(differences))].sum()))


def repeated_interval(num_successes: Sequence[int], num_trials: Sequence[int], confidence: float = 0.95) -> Interval:
    """Returns Wilson's interval of a success rate where levels are played several times.

    Trials of one level resemble each other, so that there is less to learn from them than from as many levels. The
    interval is Wilson's for the number of independent trials that would tell as much: all of them where levels do not
    matter or are played once, and the number of levels where repeats never differ, or where nothing is known of how
    they do because all trials succeeded, or none.

    Args:
        num_successes: Of each level, trials that succeeded.
        num_trials: Of each level, trials, at least one.
        confidence: Two-sided confidence, strictly between 0 and 1.

    Source: the design effect of Kish, Survey Sampling (1965), section 8.2, with the linearised variance of a ratio,
        and Wilson's interval as in Korn and Graubard, Surv. Methodol. 24 (1998) 193-201, who adjust Clopper's so.
    """
    from scipy.stats import norm

    solved, trials = np.asarray(num_successes, float), np.asarray(num_trials, float)
    total = trials.sum()
    if not total:
        return Interval(0.0, 1.0)
    rate = solved.sum() / total
    variance = ((solved - rate * trials) ** 2).sum() / total**2
    independent = rate * (1 - rate) / variance if variance else total if 0 < rate < 1 else len(trials)
    independent = min(independent, total)
    z2 = norm.ppf((1 + confidence) / 2) ** 2
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
