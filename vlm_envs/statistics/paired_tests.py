"""Paired tests of two agents on the same seeds, and their power."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

KeyT = TypeVar("KeyT", bound=Hashable)

_MOST_ENUMERATED = 13
"""Maximum number of differing levels for which all sign choices are enumerated."""

_MOST_WHOLE = 20_000
"""Largest sum of integer differences whose exact distribution is computed."""


@dataclass(frozen=True, kw_only=True)
class PairedOutcomes:
    """Outcomes of the same trials before and after.

    Attributes:
        num_both: Trials that succeeded both times.
        num_only_before: Trials that succeeded before and failed after.
        num_only_after: Trials that failed before and succeeded after.
        num_neither: Trials that failed both times.
        clustered_p_value: P-value of the sign-flip test over clusters of trials; None if each trial is its
            own cluster.
    """

    num_both: int
    num_only_before: int
    num_only_after: int
    num_neither: int
    clustered_p_value: float | None = None

    @property
    def num_pairs(self) -> int:
        """Number of trials made both times."""
        return self.num_both + self.num_only_before + self.num_only_after + self.num_neither

    @property
    def p_value(self) -> float:
        """P-value of no change, from McNemar's exact test or, with clusters, the sign-flip test."""
        if self.clustered_p_value is not None:
            return self.clustered_p_value
        return mcnemar_exact(self.num_only_before, self.num_only_after)

    @property
    def test(self) -> str:
        """Name of the test."""
        return "McNemar’s exact test" if self.clustered_p_value is None else "cluster sign-flip test"


def pair_outcomes(
    before: Mapping[KeyT, bool], after: Mapping[KeyT, bool], clusters: Mapping[KeyT, Hashable] | None = None
) -> PairedOutcomes:
    """Counts the outcomes of trials that were made both times; ignores others.

    Args:
        before: Whether each trial succeeded before, by keys such as world and seed.
        after: Whether each trial succeeded after.
        clusters: Cluster of each trial made both times; None if trials are independent.
    """
    keys = [key for key in before if key in after]
    pairs = [(before[key], after[key]) for key in keys]
    changes: dict[Hashable, int] = defaultdict(int)
    for key in keys:
        changes[key if clusters is None else clusters[key]] += after[key] - before[key]
    return PairedOutcomes(
        num_both=pairs.count((True, True)),
        num_only_before=pairs.count((True, False)),
        num_only_after=pairs.count((False, True)),
        num_neither=pairs.count((False, False)),
        clustered_p_value=sign_flip_test([*changes.values()]) if len(changes) < len(keys) else None,
    )


def mcnemar_exact(num_only_before: int, num_only_after: int) -> float:
    """Returns the two-sided p-value of McNemar's exact test, 1 if no outcome changed.

    If training has no effect, a level whose outcome changed is as likely to have been won as lost, so either
    count follows a binomial distribution with probability 1/2. Levels with equal outcomes carry no
    information.

    Args:
        num_only_before: Pairs that succeeded before and failed after.
        num_only_after: Pairs that failed before and succeeded after.

    Raises:
        ValueError: If a count is negative.

    Source: McNemar, Psychometrika 12 (1947) 153-157, with the exact binomial tail in place of chi-squared.
    """
    from scipy.special import bdtr  # `scipy.stats` takes another half second to import

    fewer, num_changed = min(num_only_before, num_only_after), num_only_before + num_only_after
    if fewer < 0:
        raise ValueError(f"Counts of pairs must not be negative; got {num_only_before} and {num_only_after}.")
    return min(1.0, 2 * float(bdtr(fewer, num_changed, 0.5))) if num_changed else 1.0


def sign_flip_test(differences: npt.ArrayLike, *, num_draws: int = 10_000) -> float:
    """Returns the two-sided p-value of the hypothesis that two agents perform equally, 1 if no level differs.

    If the agents are the same, the difference on any level is as likely to have the opposite sign. The
    p-value is the share of all sign choices whose sum is at least as far from 0. It is exact for integers and
    for up to 13 levels that differ; otherwise signs are drawn with a fixed seed, and the p-value is at least
    1 / (num_draws + 1). With one episode per agent and level, and binary outcomes, this is McNemar's exact
    test; clusters of episodes (repeats of a level, questions about one image) are flipped as a whole.

    Args:
        differences: One number per level or cluster: the second agent's total minus the first one's.
        num_draws: Number of random sign choices if they are not enumerated.

    Sources: Fisher, The Design of Experiments (1935), section 21; Pitman, J. R. Stat. Soc. Suppl. 4 (1937)
        119-130; Phipson and Smyth, Stat. Appl. Genet. Mol. Biol. 9 (2010) 39, for random signs. Flipping
        whole clusters is the wild cluster bootstrap with the null imposed of Cameron, Gelbach and Miller,
        Rev. Econ. Stat. 90 (2008) 414-427.
    """
    values = np.asarray(differences, float)
    sizes = np.abs(values[values != 0])
    if (sizes == np.rint(sizes)).all() and sizes.sum() <= _MOST_WHOLE:
        return _whole_sign_flips(sizes.astype(int), abs(values.sum()))
    least = abs(values.sum()) - 1e-9 * sizes.sum()  # equal sums of floats may differ in their last digits
    if len(sizes) <= _MOST_ENUMERATED:
        signs = (np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes)) & 1) * 2.0 - 1.0
        return float((np.abs(signs @ sizes) >= least).mean())
    rng, num_far = np.random.default_rng(0), 0
    for rows in blocks(num_draws, len(sizes)):
        signs = rng.integers(2, size=(rows, len(sizes)), dtype=np.int8) * 2.0 - 1.0
        num_far += int((np.abs(signs @ sizes) >= least).sum())
    return (num_far + 1) / (num_draws + 1)


def _whole_sign_flips(sizes: npt.NDArray[np.int64], observed: float) -> float:
    """Returns the share of sign choices whose sum is at least as far from 0 as the observed one, by convolution."""
    chances = np.ones(1)  # of every sum, from the lowest
    for size in sizes:
        flipped = np.zeros(len(chances) + 2 * size)
        flipped[: len(chances)] += chances / 2
        flipped[2 * size :] += chances / 2
        chances = flipped
    sums = np.arange(len(chances)) - sizes.sum()
    return min(1.0, float(chances[np.abs(sums) >= observed].sum()))


def blocks(num_rows: int, width: int, most: int = 2**22) -> list[int]:
    """Returns numbers of rows that add up to `num_rows`, each of which needs at most `most` cells at this width."""
    step = max(1, most // max(1, width))
    return [min(step, num_rows - start) for start in range(0, num_rows, step)]


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p-values after Holm's step-down correction for multiple tests, in the same order and never above 1.

    Source: Holm, Scand. J. Stat. 6 (1979) 65-70.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


_MOST_BOARDS, _FEWEST_BOARDS = 1000, 8
"""Number of simulated boards per power; large boards average over many pairs, so fewer are enough."""

_MOST_PAIRS = 1_000_000
"""Maximum number of pairs on all simulated boards, as far as `_FEWEST_BOARDS` allows."""


def mcnemar_power(num_levels: int, only_first: float, only_second: float, *, alpha: float = 0.05) -> float:
    """Returns the power of McNemar's exact test to detect a difference between two agents.

    Args:
        num_levels: Number of levels that both play.
        only_first: Probability that only the first agent solves a level.
        only_second: Probability that only the second agent does.
        alpha: Level of significance, two-sided.

    Raises:
        ValueError: If the probabilities are not valid.
    """
    from scipy.stats import binom

    changed = only_first + only_second
    if num_levels < 1 or min(only_first, only_second) < 0 or not 0 < changed <= 1:
        raise ValueError(f"Expected levels, and probabilities with a sum in (0, 1]; got {only_first}, {only_second}.")
    changes = np.arange(1, num_levels + 1)
    # The test rejects if the smaller of the two counts is at most `edge`
    edge = binom.ppf(alpha / 2, changes, 0.5)
    edge -= binom.cdf(edge, changes, 0.5) > alpha / 2
    share = only_second / changed
    rejects = binom.cdf(edge, changes, share) + binom.sf(changes - edge - 1, changes, share)
    return float((binom.pmf(changes, num_levels, changed) * rejects).sum())


def num_levels_needed(
    only_first: float, only_second: float, *, alpha: float = 0.05, power: float = 0.8, most: int = 100_000
) -> int | None:
    """Returns the number of levels that McNemar's exact test needs for a given power; None if more than `most`.

    Args:
        only_first: Probability that only the first agent solves a level.
        only_second: Probability that only the second agent does.
        alpha: Level of significance, two-sided.
        power: Probability of detecting the difference.
        most: Largest number of levels to try.
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


class FamilyPower(NamedTuple):
    """Power to distinguish a pair of agents on a board with several models and worlds, after Holm's correction.

    Attributes:
        num_levels: Number of levels per world.
        num_tests: Number of pairs of models in all worlds.
        least: Power if no other pair differs.
        most: Mean power if in every world half of the models have one rate and half the other.
    """

    num_levels: int
    num_tests: int
    least: float
    most: float

    @property
    def power(self) -> float:
        """The mean of both: Holm's method detects a difference more easily the more others it detects."""
        return (self.least + self.most) / 2


def family_power(
    num_levels: int,
    first: float,
    second: float,
    *,
    num_models: int,
    num_worlds: int,
    agreement: float = 0.0,
    alpha: float = 0.05,
) -> FamilyPower:
    """Returns the power of McNemar's exact test with Holm's correction over all pairs of models in all worlds.

    Args:
        num_levels: Number of levels per world, all of which every model plays.
        first: Success rate of one model.
        second: Success rate of the other.
        num_models: Number of models on the board, at least 2; references are not part of the family.
        num_worlds: Number of worlds.
        agreement: Correlation of the outcomes of two models on a level, 0 for none.
        alpha: Level of significance, two-sided.
    """
    num_tests, both = num_worlds * math.comb(num_models, 2), joint_success(first, second, agreement)
    least = mcnemar_power(num_levels, first - both, second - both, alpha=alpha / num_tests)
    if num_tests == 1:
        return FamilyPower(num_levels, num_tests, least, least)
    rates = np.array([first] * (num_models // 2) + [second] * (num_models - num_models // 2))
    # Share of levels on which both agents' outcomes have a common cause, which produces their correlation
    most_shared = min(first, second) - first * second
    shared = (both - first * second) / most_shared if most_shared > 0 else 0.0
    most = _simulated_power(num_levels, rates, num_worlds, shared, alpha)
    return FamilyPower(num_levels, num_tests, least, most)


def family_levels_needed(
    first: float,
    second: float,
    *,
    num_models: int,
    num_worlds: int,
    agreement: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
    most: int = 100_000,
) -> FamilyPower | None:
    """Returns the power with the number of levels per world that `power` requires, to about 1%; None beyond `most`.

    Args:
        first: Success rate of one model.
        second: Success rate of the other.
        num_models: See `family_power`.
        num_worlds: See `family_power`.
        agreement: See `family_power`.
        alpha: See `family_power`.
        power: Minimum `FamilyPower.power`.
        most: Largest number of levels to try.
    """
    both = joint_success(first, second, agreement)
    num_tests = num_worlds * math.comb(num_models, 2)
    board = {"num_models": num_models, "num_worlds": num_worlds}
    found = partial(family_power, first=first, second=second, agreement=agreement, alpha=alpha, **board)
    # With this many levels the lower bound reaches the power, so the mean does too
    high = num_levels_needed(first - both, second - both, alpha=alpha / num_tests, power=power, most=most)
    if high is None:
        return None
    low, enough = high // 2, found(num_levels=high)
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        tried = found(num_levels=middle)
        if tried.power >= power:
            high, enough = middle, tried
        else:
            low = middle
    return enough


def joint_success(first: float, second: float, agreement: float) -> float:
    """Returns the probability that two agents both solve a level, from their rates and the outcomes' correlation."""
    both = first * second + agreement * math.sqrt(first * (1 - first) * second * (1 - second))
    return min(both, first, second)


def _simulated_power(
    num_levels: int, rates_M: npt.NDArray[np.float64], num_worlds: int, shared: float, alpha: float
) -> float:
    """Returns how often pairs with different rates differ significantly on simulated boards, with a fixed seed.

    The number of levels that both agents of a pair solve is drawn given the number each solves. This is exact
    for each pair but makes pairs independent of each other, so the time does not depend on the number of
    levels.
    """
    rng = np.random.default_rng(0)
    one, other = np.array(list(itertools.combinations(range(len(rates_M)), 2))).T
    differs = np.tile(rates_M[one] != rates_M[other], num_worlds)
    low, high = min(rates_M), max(rates_M)
    num_draws = min(_MOST_BOARDS, max(_FEWEST_BOARDS, _MOST_PAIRS // len(differs)))
    found = 0
    for rows in blocks(num_draws, len(differs), most=2**20):
        # On shared levels the better agents solve all that the worse ones do, and some more
        num_shared = rng.binomial(num_levels, shared, size=(rows, num_worlds, 1))
        num_alone = np.broadcast_to(num_levels - num_shared, (rows, num_worlds, len(one)))
        more = rng.binomial(num_shared, high - low)
        wins = rng.binomial(num_levels - num_shared, rates_M, size=(rows, num_worlds, len(rates_M)))
        both = rng.hypergeometric(wins[..., one], num_alone - wins[..., one], wins[..., other])
        only_first = wins[..., one] - both + more * (rates_M[one] > rates_M[other])
        only_second = wins[..., other] - both + more * (rates_M[one] < rates_M[other])
        significant = _significant(only_first.reshape(rows, -1), only_second.reshape(rows, -1), alpha)
        found += int(significant[:, differs].sum())
    return found / (num_draws * int(differs.sum()))


def _significant(
    only_first: npt.NDArray[np.int64], only_second: npt.NDArray[np.int64], alpha: float
) -> npt.NDArray[np.bool_]:
    """Returns bool[R, P]: which of each board's P pairs differ by McNemar's exact test after Holm's correction."""
    from scipy.special import bdtr

    changed = only_first + only_second
    fewer = np.minimum(only_first, only_second)
    p_values = np.where(changed > 0, 2 * bdtr(fewer, np.maximum(changed, 1), 0.5), 1.0)
    order = np.argsort(p_values, axis=1)
    num_tests = p_values.shape[1]
    rejected = np.take_along_axis(p_values, order, axis=1) < alpha / (num_tests - np.arange(num_tests))
    significant = np.empty(rejected.shape, bool)
    np.put_along_axis(significant, order, np.logical_and.accumulate(rejected, axis=1), axis=1)
    return significant
