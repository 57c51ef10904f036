"""How likely a test is to find a difference, and how many levels it needs to."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vlm_envs.statistics.pairs import blocks


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
    num_draws: int = 1000,
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
        num_draws: Simulated boards for `most`, with a fixed seed.
    """
    num_tests = num_worlds * math.comb(num_models, 2)
    both = joint_success(first, second, agreement)
    least = mcnemar_power(num_levels, first - both, second - both, alpha=alpha / num_tests)
    rates = np.array([first] * (num_models // 2) + [second] * (num_models - num_models // 2))
    if num_tests == 1:
        most = least
    else:
        most = _simulated_power(num_levels, rates, num_worlds, _shared(first, second, agreement), alpha, num_draws)
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
        num_worlds: Likewise.
        agreement: Likewise.
        alpha: Likewise.
        power: What `FamilyPower.power` shall be.
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
    num_levels: int, rates_M: npt.NDArray[np.float64], num_worlds: int, shared: float, alpha: float, num_draws: int
) -> float:
    """Returns how often pairs with different rates differ significantly on simulated boards."""
    rng = np.random.default_rng(0)
    num_models = len(rates_M)
    pairs = np.array(list(itertools.combinations(range(num_models), 2)))
    differs = np.tile(rates_M[pairs[:, 0]] != rates_M[pairs[:, 1]], num_worlds)
    found, rates = 0, rates_M.astype(np.float32)
    for rows in blocks(num_draws, num_worlds * num_levels * num_models, most=2**23):
        chance = rng.random((rows, num_worlds, num_levels, num_models), dtype=np.float32)
        if shared:
            same = rng.random((rows, num_worlds, num_levels, 1), dtype=np.float32) < shared
            chance = np.where(same, chance[..., :1], chance)
        solved = (chance < rates).astype(np.float32)
        both = np.swapaxes(solved, -1, -2) @ solved
        wins = np.diagonal(both, axis1=-2, axis2=-1)
        only_first, only_second = (
            (wins[..., one] - both[..., one, other]).reshape(rows, -1) for one, other in (pairs.T, pairs.T[::-1])
        )
        found += int(_significant(only_first, only_second, alpha)[:, differs].sum())
    return found / (num_draws * int(differs.sum()))


def _significant(
    only_first: npt.NDArray[np.float32], only_second: npt.NDArray[np.float32], alpha: float
) -> npt.NDArray[np.bool_]:
    """Returns bool[R, P]: which of each board's P pairs differ by McNemar's exact test after Holm's correction."""
    from scipy.special import bdtr

    changed = (only_first + only_second).astype(int)
    fewer = np.minimum(only_first, only_second)
    p_values = np.where(changed > 0, 2 * bdtr(fewer, np.maximum(changed, 1), 0.5), 1.0)
    order = np.argsort(p_values, axis=1)
    num_tests = p_values.shape[1]
    rejected = np.take_along_axis(p_values, order, axis=1) < alpha / (num_tests - np.arange(num_tests))
    significant = np.empty(rejected.shape, bool)
    np.put_along_axis(significant, order, np.logical_and.accumulate(rejected, axis=1), axis=1)
    return significant
