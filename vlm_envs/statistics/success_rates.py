"""Success rates: Wilson intervals, rates of clustered episodes, and pass@k."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from vlm_envs.statistics.paired_tests import PairedOutcomes

_KNOWN_FREEDOM = 0.6
"""Subtracted from the number of clusters to get the degrees of freedom of their interval."""

_FEWEST_CLUSTERS = 2
"""Effective number of clusters below which their rates carry no information about others."""


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

    Unlike the normal approximation's interval, it stays within 0 and 1 and has a positive width even if no
    trial or every trial succeeded.

    Args:
        num_successes: Number of trials that succeeded, from 0 to `num_trials`.
        num_trials: Number of independent trials; with 0, every rate is possible.
        confidence: Two-sided confidence, strictly between 0 and 1.

    Raises:
        ValueError: If an argument is out of range.

    Source: Wilson, J. Am. Stat. Assoc. 22 (1927) 209-212; method 3 of Newcombe, Stat. Med. 17 (1998) 857-872.
    """
    if num_trials == num_successes == 0:
        return Interval(0.0, 1.0)
    if not (0 <= num_successes <= num_trials and 0 < confidence < 1):
        raise ValueError(
            f"Expected successes, trials, and a confidence in (0, 1); got {num_successes}, {num_trials}, {confidence}."
        )
    z, rate = _two_sided(confidence), num_successes / num_trials
    whole = 2 * (num_trials + z**2)
    middle = (2 * num_trials * rate + z**2) / whole
    reach = z / whole * math.sqrt(4 * num_trials * rate * (1 - rate) + z**2)
    low = 0.0 if num_successes == 0 else middle - reach
    return Interval(low, 1.0 if num_successes == num_trials else middle + reach)


def _two_sided(confidence: float) -> float:
    """Returns the normal quantile at which two-sided confidence ends."""
    # Importing it from `scipy.stats` would take another half second, and a trainer that only writes needs
    # neither
    from scipy.special import ndtri

    return float(ndtri(0.5 + 0.5 * confidence))


def repeated_interval(num_successes: npt.ArrayLike, num_trials: npt.ArrayLike, confidence: float = 0.95) -> Interval:
    """Returns the interval of a success rate whose trials come in clusters, such as repeats of a level.

    Trials in one cluster resemble each other, so they carry less information than as many independent trials.
    Clusters of unequal size count as fewer: as Kish's effective number, which equals the number of clusters
    if all have the same size. The interval is Student's on the logit scale, from the variance between
    clusters, with the effective number minus 0.6 as degrees of freedom. It is never wider than Wilson's for
    the effective number of clusters, which is valid however similar the trials of a cluster are, and never
    narrower than Jeffreys' for the number of trials. If all trials succeed or all fail, it is Wilson's for
    the effective number of clusters. With fewer than two effective clusters, such as one large one among many
    of one trial each, every rate is possible.

    In simulations of clusters with rates from beta distributions the 95% interval covers the true rate in 93%
    to 98% of cases for 2 to 64 clusters of equal size. For unequal sizes it is about 90% or more: more than
    98% if one cluster dominates, and 89% for a few large clusters of mostly certain outcomes among many of
    one trial.

    Args:
        num_successes: Successes in each cluster, from 0 to its trials.
        num_trials: Trials in each cluster. `by_level` returns both.
        confidence: Two-sided confidence, strictly between 0 and 1.

    Sources: the variance of a ratio, Kish, Survey Sampling (1965), section 6.3, and the effective number of
        clusters, section 8.2; intervals of proportions in clustered samples compared by Dean and Pagano, J.
        Surv. Stat. Methodol. 3 (2015) 484-503; Jeffreys' interval, Brown, Cai and DasGupta, Stat. Sci. 16
        (2001) 101-133. Transformation, bounds, and degrees of freedom were chosen by the coverage of
        simulated clusters.
    """
    from scipy.special import betaincinv, expit, logit, stdtrit

    solved, trials = np.asarray(num_successes, float), np.asarray(num_trials, float)
    solved, trials = solved[trials > 0], trials[trials > 0]
    total = float(trials.sum())
    shares = trials / total
    num_effective = 1 / float((shares**2).sum()) if total else 0.0
    if num_effective < _FEWEST_CLUSTERS - 1e-9:  # rounding
        return Interval(0.0, 1.0)
    rate, upper = min(1.0, float(solved.sum()) / total), 0.5 + 0.5 * confidence
    widest = _wilson(rate, num_effective, confidence)
    if not 0 < rate < 1:
        return widest
    # Residuals are too small, as large clusters pull the rate toward their own; with equal sizes the factor
    # is L / (L - 1)
    unbiased = 1 / (1 - 2 * num_effective * float((shares**3).sum()) + 1 / num_effective)
    variance = unbiased * float(((solved - rate * trials) ** 2).sum()) / total**2
    # Student's t with one degree of freedom is too wide, since the binomial part of the variance is known
    quantile = float(stdtrit(num_effective - _KNOWN_FREEDOM, upper))
    reach = quantile * math.sqrt(variance) / (rate * (1 - rate))
    successes = rate * total
    ends = [betaincinv(successes + 0.5, total - successes + 0.5, share) for share in (1 - upper, upper)]
    low = min(float(expit(logit(rate) - reach)), float(ends[0]))
    high = max(float(expit(logit(rate) + reach)), float(ends[1]))
    return Interval(max(low, widest.low), min(high, widest.high))


def _wilson(rate: float, num_trials: float, confidence: float) -> Interval:
    """Returns Wilson's interval for a number of trials that need not be an integer."""
    z2 = _two_sided(confidence) ** 2
    middle = (rate + z2 / (2 * num_trials)) / (1 + z2 / num_trials)
    half = math.sqrt(z2 * (rate * (1 - rate) / num_trials + z2 / (4 * num_trials**2))) / (1 + z2 / num_trials)
    return Interval(0.0 if rate <= 0 else max(0.0, middle - half), 1.0 if rate >= 1 else min(1.0, middle + half))


def paired_rates_interval(outcomes: PairedOutcomes, before: Interval, after: Interval) -> Interval:
    """Returns the interval of the difference of two success rates on the same trials, after minus before.

    Unlike a bootstrap interval, it has a positive width even if no outcome changed.

    Args:
        outcomes: Outcomes of the trials; at least one.
        before: Wilson's interval of the rate before or, for repeats, the one from `repeated_interval`.
        after: The same for the rate after.

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


ValueT = TypeVar("ValueT")

Episode = Mapping[str, Any]
"""A recorded episode: its `seed` and, if recorded, its `start_state_hash` and `cluster`."""


def content_of(*episodes: Episode) -> str:
    """Returns the recorded id of content that episodes on one level share with others; empty if there is none."""
    return next((str(episode["cluster"]) for episode in episodes if episode.get("cluster")), "")


def level_of(*episodes: Episode) -> Hashable:
    """Returns the level that episodes were played on: the hash of its start state, or the seed if none was recorded.

    Several seeds can give the same level.
    """
    hashes = (str(episode["start_state_hash"]) for episode in episodes if episode.get("start_state_hash"))
    return next(hashes, None) or int(episodes[0]["seed"])


def cluster_of(*episodes: Episode) -> Hashable:
    """Returns the cluster of episodes on one level: their content, or else the level itself."""
    return content_of(*episodes) or level_of(*episodes)


def by_cluster(clusters: Iterable[Hashable], values: Iterable[ValueT]) -> dict[Hashable, list[ValueT]]:
    """Groups values by cluster, in order of first appearance."""
    found: dict[Hashable, list[ValueT]] = defaultdict(list)
    for cluster, value in zip(clusters, values, strict=True):
        found[cluster].append(value)
    return dict(found)


def num_levels_of(episodes: Iterable[Episode]) -> int:
    """Returns the number of distinct levels."""
    return len(set(map(level_of, episodes)))


def share_interval(episodes: Sequence[Episode], values: Sequence[float]) -> Interval:
    """Returns the 95% interval of a share, over clusters.

    Args:
        episodes: Episodes that the share is computed over.
        values: One per episode, from 0 to 1.
    """
    grouped = by_cluster(map(cluster_of, episodes), values).values()
    return repeated_interval([sum(cluster) for cluster in grouped], [len(cluster) for cluster in grouped])


def evaluated_rate(episodes: Sequence[Episode], solved: Sequence[bool]) -> dict[str, Any]:
    """Returns the counts of an evaluation and the interval of its success rate, as they are recorded.

    Args:
        episodes: At least one.
        solved: One per episode.

    Returns:
        `num_episodes`, `num_levels` (distinct ones), `num_successes`, and the ends of the success rate's 95%
        interval, `success_low` and `success_high`: Wilson's if every episode is its own cluster, else over
        clusters.
    """
    num_episodes, num_successes = len(episodes), sum(solved)
    is_clustered = len(set(map(cluster_of, episodes))) < num_episodes
    low, high = share_interval(episodes, solved) if is_clustered else wilson_interval(num_successes, num_episodes)
    return {
        "num_episodes": num_episodes,
        "num_levels": num_levels_of(episodes),
        "num_successes": num_successes,
        "success_low": low,
        "success_high": high,
    }


def counted_episodes(num_episodes: int, num_levels: int, levels: str = "levels") -> str:
    """Returns a text with the number of episodes and levels: `"64 levels"`, or `"64 episodes on 30 levels"`."""
    counted = f"{num_levels} {levels}"
    return counted if num_levels == num_episodes else f"{num_episodes} episodes on {counted}"


def pass_at_k(num_trials: int, num_successes: int, k: int) -> float:
    """Returns an unbiased estimate of the probability that at least one of k trials of a level succeeds.

    Args:
        num_trials: Number of trials made on the level, at least k.
        num_successes: Number of these that succeeded.
        k: Number of trials drawn from these without replacement.

    Raises:
        ValueError: If a number is out of range.

    Source: Chen et al., Evaluating Large Language Models Trained on Code (2021), equation 1.
    """
    _require_trials(num_trials, num_successes, k)
    return 1.0 - math.comb(num_trials - num_successes, k) / math.comb(num_trials, k)


def pass_hat_k(num_trials: int, num_successes: int, k: int) -> float:
    """Returns an unbiased estimate of the probability that all of k trials of a level succeed (pass^k).

    Args:
        num_trials: Number of trials made on the level, at least k.
        num_successes: Number of these that succeeded.
        k: Number of trials drawn from these without replacement.

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
