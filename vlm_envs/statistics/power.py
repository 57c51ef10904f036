"""How likely a test is to find a difference, and how many levels it needs to."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vlm_envs.statistics.pairs import blocks

_MOST_BOARDS, _FEWEST_BOARDS = 1000, 8
"""Simulated boards for one power; large boards average over many pairs, so fewer are enough."""

_MOST_PAIRS = 1_000_000
"""Pairs on all simulated boards, as far as `_FEWEST_BOARDS` allows."""


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


@dataclass(frozen=True, kw_only=True)
class FamilyPower:
    """How likely a pair of agents is told apart on a board of several models and worlds, after Holm's correction.

    Attributes:
        num_levels: Levels of each world.
        num_tests: Pairs of models in all worlds.
        least: Probability if no other pair differs.
        most: Mean probability if in every world half of the models have one rate and half the other.
    """

    num_levels: int
    num_tests: int
    least: float
    most: float

    @property
    def power(self) -> float:
        """The middle of both: Holm's method finds a difference more easily the more others it finds."""
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
        num_levels: Levels of each world, which all models play.
        first: Success rate of one model.
        second: Success rate of the other.
        num_models: Models on the board, at least 2; references are no part of the family.
        num_worlds: Worlds.
        agreement: Correlation of the outcomes of two models on a level, 0 for none.
        alpha: Level of significance, two-sided.
    """
    num_tests = num_worlds * math.comb(num_models, 2)
    both = joint_success(first, second, agreement)
    least = mcnemar_power(num_levels, first - both, second - both, alpha=alpha / num_tests)
    rates = np.array([first] * (num_models // 2) + [second] * (num_models - num_models // 2))
    if num_tests == 1:
        most = least
    else:
        most = _simulated_power(num_levels, rates, num_worlds, _shared(first, second, agreement), alpha)
    return FamilyPower(num_levels=num_levels, num_tests=num_tests, least=least, most=most)


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
    """Returns the power with as many levels of each world as `power` needs, to about 1%; None beyond `most`.

    Args:
        first: Success rate of one model.
        second: Success rate of the other.
        num_models: As `family_power` takes it.
        num_worlds: As `family_power` takes it.
        agreement: As `family_power` takes it.
        alpha: As `family_power` takes it.
        power: Lowest `FamilyPower.power`.
        most: Largest number of levels to try.
    """
    both = joint_success(first, second, agreement)
    num_tests = num_worlds * math.comb(num_models, 2)

    def found(num_levels: int) -> FamilyPower:
        return family_power(
            num_levels,
            first,
            second,
            num_models=num_models,
            num_worlds=num_worlds,
            agreement=agreement,
            alpha=alpha,
        )

    # With this many the least power is as wanted, so the middle is at least that
    high = num_levels_needed(first - both, second - both, alpha=alpha / num_tests, power=power, most=most)
    if high is None:
        return None
    low, enough = high // 2, found(high)
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        tried = found(middle)
        if tried.power >= power:
            high, enough = middle, tried
        else:
            low = middle
    return enough


def joint_success(first: float, second: float, agreement: float) -> float:
    """Returns the probability that two agents both solve a level, from their rates and the outcomes' correlation."""
    both = first * second + agreement * math.sqrt(first * (1 - first) * second * (1 - second))
    return min(both, first, second)


def _shared(first: float, second: float, agreement: float) -> float:
    """Returns the share of levels on which both agents' outcomes have one cause, so that their correlation is met."""
    most = min(first, second) - first * second
    return (joint_success(first, second, agreement) - first * second) / most if most > 0 else 0.0


def _simulated_power(
    num_levels: int, rates_M: npt.NDArray[np.float64], num_worlds: int, shared: float, alpha: float
) -> float:
    """Returns how often pairs with different rates differ significantly on simulated boards, with a fixed seed.

    The levels that both agents of a pair solve are drawn given how many each solves. This is exact for each pair, and
    pairs of pairs are independent then, so the time does not depend on the number of levels.
    """
    rng = np.random.default_rng(0)
    one, other = np.array(list(itertools.combinations(range(len(rates_M)), 2))).T
    differs = np.tile(rates_M[one] != rates_M[other], num_worlds)
    low, high = min(rates_M), max(rates_M)
    num_draws = min(_MOST_BOARDS, max(_FEWEST_BOARDS, _MOST_PAIRS // len(differs)))
    found = 0
    for rows in blocks(num_draws, len(differs), most=2**20):
        # On shared levels the better agents solve what the worse do, and some more
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
