"""Bootstrap intervals of means and differences, resampling levels and seeds.

Episodes on one level are not independent: if a level is played several times, levels are resampled, not
episodes.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vlm_envs.statistics.paired_tests import blocks, sign_flip_test
from vlm_envs.statistics.success_rates import Interval

_SEED = 0
"""Seed of the resampling, so that pages are reproducible."""


class PairedDifference(NamedTuple):
    """Difference of two means over the same levels.

    Attributes:
        mean: Second minus first.
        interval: Its confidence interval.
        p_value: Two-sided p-value of the hypothesis of no difference.
    """

    mean: float
    interval: Interval
    p_value: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ({self.interval.low:+.3f} to {self.interval.high:+.3f})"


def paired_bootstrap(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    levels: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    num_resamples: int = 10_000,
) -> PairedDifference:
    """Returns the difference of two agents' means on the same levels, with an interval and a test for few levels.

    Args:
        first: float[N], one number per episode.
        second: float[N], those of the other agent in the same order.
        levels: Level or cluster of each episode; None if no level was played twice.
        confidence: Two-sided confidence, strictly between 0 and 1.
        num_resamples: Number of random sign choices if they are not enumerated.

    Returns:
        The difference, with Student's interval over levels, and the p-value of `sign_flip_test`: the wild
        cluster bootstrap with the null imposed. Unlike a percentile bootstrap, both are valid with only 8
        levels, as long as differences are about symmetric, which they are between equal agents. With one
        level the interval is unbounded.

    Raises:
        ValueError: If the arrays are empty or of different lengths.

    Source: Cameron, Gelbach and Miller, Rev. Econ. Stat. 90 (2008) 414-427, who compare tests with few
        clusters.
    """
    from scipy.special import stdtrit

    differences = np.asarray(second, float) - np.asarray(first, float)
    if differences.ndim != 1 or not len(differences):
        raise ValueError(f"Expected two arrays of equal length, not empty; got shape {differences.shape}.")
    sums, counts = by_level(differences, levels)
    mean, num_levels = float(differences.mean()), len(sums)
    squares = float(((sums - mean * counts) ** 2).sum())
    reach = math.inf if differences.any() else 0.0
    if num_levels > 1:
        deviation = math.sqrt(num_levels / (num_levels - 1) * squares) / len(differences)
        reach = float(stdtrit(num_levels - 1, 0.5 + 0.5 * confidence)) * deviation
    p_value = sign_flip_test(sums, num_draws=num_resamples)
    return PairedDifference(mean, Interval(mean - reach, mean + reach), p_value)


def seeds_interval(
    solved_SN: npt.ArrayLike,
    *,
    levels: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    num_resamples: int = 10_000,
) -> Interval:
    """Returns the interval of a mean over seeds and levels, resampling both, since both are samples.

    Args:
        solved_SN: float[S, N], one number for each seed's policy in each episode.
        levels: See `paired_bootstrap`.
        confidence: Two-sided confidence, strictly between 0 and 1.
        num_resamples: Number of resamples.

    Source: Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice (2021),
        section 4.
    """
    return _percentile_interval(_means_over_seeds(*by_level(solved_SN, levels), num_resamples), confidence)


def paired_seeds_bootstrap(
    first_SN: npt.ArrayLike,
    second_SN: npt.ArrayLike,
    *,
    levels: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    num_resamples: int = 10_000,
) -> PairedDifference:
    """Returns the difference of two training methods on the same levels, resampling levels and seeds.

    Unlike `paired_bootstrap` of each level's mean, this also covers the variation between seeds. With two or
    three seeds it is unreliable: if only seeds differ, a p-value below 0.05 occurs whenever all differences
    have the same sign, with three seeds one time in four rather than one in twenty. Report the result of each
    seed as well.

    Args:
        first_SN: float[S, N], one number for each seed's policy in each episode.
        second_SN: float[S, N], those of the other training method.
        levels: See `paired_bootstrap`.
        confidence: Two-sided confidence, strictly between 0 and 1.
        num_resamples: Number of resamples.

    Returns:
        Second minus first, with its percentile interval. The p-value is twice the smaller share of resamples
        on either side of 0, but at least 2 / (num_resamples + 1), and at least 2 / 2^m for m levels that
        differ.

    Raises:
        ValueError: If the arrays are empty or of different shapes.

    Source: see `seeds_interval`.
    """
    first, second = np.asarray(first_SN, float), np.asarray(second_SN, float)
    if first.shape != second.shape or first.ndim != 2 or not first.size:
        raise ValueError(f"Expected two arrays of equal shape [seeds, levels]; got {first.shape} and {second.shape}.")
    sums_SL, counts_L = by_level(second - first, levels)
    means = _means_over_seeds(sums_SL, counts_L, num_resamples)
    smaller = min((means <= 0).sum(), (means >= 0).sum())
    least = 2.0 ** (
        1 - int(np.count_nonzero(sums_SL.sum(axis=0)))
    )  # smallest p-value possible with this many differing levels
    p_value = min(1.0, max(least, float(2 * (smaller + 1) / (num_resamples + 1))))
    return PairedDifference(float((second - first).mean()), _percentile_interval(means, confidence), p_value)


def _means_over_seeds(
    sums_SL: npt.NDArray[np.float64], counts_L: npt.NDArray[np.float64], num_resamples: int
) -> npt.NDArray[np.float64]:
    """Returns float[num_resamples]: means over seeds and levels drawn with replacement."""
    num_seeds, num_levels = sums_SL.shape
    seeds_RS, levels_RL = _drawn(num_seeds, num_levels, num_resamples)
    means, done = [], 0
    for rows in blocks(num_resamples, num_seeds * num_levels):
        seeds, drawn = seeds_RS[done : done + rows], levels_RL[done : done + rows]
        sums = np.take_along_axis(sums_SL[seeds].sum(axis=1), drawn, axis=1).sum(axis=1)
        means.append(sums / (num_seeds * counts_L[drawn].sum(axis=1)))
        done += rows
    return np.concatenate(means)


@lru_cache(maxsize=1)
def _drawn(num_seeds: int, num_levels: int, num_resamples: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Returns the drawn seeds, int32[R, S], and levels, int32[R, L], the same for all arms of a table."""
    rng = np.random.default_rng(_SEED)
    seeds_RS = np.empty((num_resamples, num_seeds), np.int32)
    levels_RL = np.empty((num_resamples, num_levels), np.int32)
    for seeds, levels in zip(seeds_RS, levels_RL, strict=True):
        seeds[:], levels[:] = rng.integers(num_seeds, size=num_seeds), rng.integers(num_levels, size=num_levels)
    return seeds_RS, levels_RL


def by_level(
    episodes: npt.ArrayLike, levels: Sequence[Hashable] | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Returns the sum over each level's episodes, float[..., L], and the number of its episodes, float[L].

    Args:
        episodes: float[..., N], one number per episode.
        levels: Key of each episode's level; None if no level was played twice.

    Raises:
        ValueError: If there are not as many levels as episodes.
    """
    values = np.asarray(episodes, float)
    if levels is None:
        return values, np.ones(values.shape[-1])
    if len(levels) != values.shape[-1]:
        raise ValueError(f"Expected a level for each of {values.shape[-1]} episodes; got {len(levels)}.")
    numbers = {level: number for number, level in enumerate(dict.fromkeys(levels))}
    places = np.array([numbers[level] for level in levels])
    sums, counts = np.zeros((*values.shape[:-1], len(numbers))), np.bincount(places).astype(float)
    np.add.at(sums.T, places, values.T)
    return sums, counts


def _percentile_interval(means: npt.NDArray[np.float64], confidence: float) -> Interval:
    tail = 100 * (1 - confidence) / 2
    low, high = np.percentile(means, [tail, 100 - tail])
    return Interval(float(low), float(high))
