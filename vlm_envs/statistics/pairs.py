"""The same trials before and after, counted, and tests of whether anything changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

KeyT = TypeVar("KeyT", bound=Hashable)

_MOST_ENUMERATED = 13
"""Levels that differ up to which all sign choices are tried."""

_MOST_WHOLE = 20_000
"""Largest sum of whole differences whose exact distribution is computed."""


@dataclass(frozen=True, kw_only=True)
class PairedOutcomes:
    """Outcomes of the same trials before and after.

    Attributes:
        num_both: Succeeded both times.
        num_only_before: Succeeded before, failed after.
        num_only_after: Failed before, succeeded after.
        num_neither: Failed both times.
        clustered_p_value: P-value of the sign-flip test over clusters of trials; None if each trial is its own.
    """

    num_both: int
    num_only_before: int
    num_only_after: int
    num_neither: int
    clustered_p_value: float | None = None

    @property
    def num_pairs(self) -> int:
        """Trials that were made both times."""
        return self.num_both + self.num_only_before + self.num_only_after + self.num_neither

    @property
    def p_value(self) -> float:
        """P-value that nothing changed: of McNemar's exact test or, with clusters, of the sign-flip test."""
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
    """Counts the outcomes of the trials made both times; others are left out.

    Args:
        before: Whether each trial succeeded, by keys such as world and seed.
        after: The same of the second time.
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
    from scipy.special import bdtr  # `scipy.stats` takes another half second to import

    fewer, num_changed = min(num_only_before, num_only_after), num_only_before + num_only_after
    if fewer < 0:
        raise ValueError(f"Expected counts of pairs; got {num_only_before} and {num_only_after}.")
    return min(1.0, 2 * float(bdtr(fewer, num_changed, 0.5))) if num_changed else 1.0


def sign_flip_test(differences: npt.ArrayLike, *, num_draws: int = 10_000) -> float:
    """Returns the two-sided p-value that two agents do equally well, 1 if no level differs.

    If the agents are the same, the difference on any level is as likely to have the opposite sign. The p-value is the
    share of all sign choices whose sum is at least as far from 0. It is exact for whole numbers and for up to 13 levels
    that differ; otherwise signs are drawn with a fixed seed, and the p-value is at least 1 / (num_draws + 1). With one
    episode per agent and level, and successes, this is McNemar's exact test; clusters of episodes (repeats of a level,
    questions about one image) are flipped as a whole.

    Args:
        differences: One number per level or cluster: the second agent's total minus the first one's.
        num_draws: Sign choices drawn if they are not enumerated.

    Sources: Fisher, The Design of Experiments (1935), section 21; Pitman, J. R. Stat. Soc. Suppl. 4 (1937) 119-130;
        Phipson and Smyth, Stat. Appl. Genet. Mol. Biol. 9 (2010) 39, for drawn signs. Flipping whole clusters is the
        wild cluster bootstrap with the null imposed of Cameron, Gelbach and Miller, Rev. Econ. Stat. 90 (2008) 414-427.
    """
    values = np.asarray(differences, float)
    sizes = np.abs(values[values != 0])
    if (sizes == np.rint(sizes)).all() and sizes.sum() <= _MOST_WHOLE:
        return _whole_sign_flips(sizes.astype(int), abs(values.sum()))
    least = abs(values.sum()) - 1e-9 * sizes.sum()  # sums of floats that tie may differ in their last digits
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
    """Returns numbers of rows that sum to `num_rows`, none of which needs more than `most` cells of this width."""
    step = max(1, most // max(1, width))
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
