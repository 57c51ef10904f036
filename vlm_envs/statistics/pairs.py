"""The same trials before and after, counted, and tests of whether anything changed."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class PairedOutcomes:
    """Outcomes of the same trials before and after.

    Attributes:
        num_both: Succeeded both times.
        num_only_before: Succeeded before, failed after.
        num_only_after: Failed before, succeeded after.
        num_neither: Failed both times.
    """

    num_both: int
    num_only_before: int
    num_only_after: int
    num_neither: int

    @property
    def num_pairs(self) -> int:
        """Trials that were made both times."""
        return self.num_both + self.num_only_before + self.num_only_after + self.num_neither

    @property
    def p_value(self) -> float:
        """P-value of McNemar's exact test that nothing changed."""
        return mcnemar_exact(self.num_only_before, self.num_only_after)


def pair_outcomes(before: Mapping[Hashable, bool], after: Mapping[Hashable, bool]) -> PairedOutcomes:
    """Counts the outcomes of the trials made both times, by keys such as world and seed; others are left out."""
    pairs = [(before[key], after[key]) for key in before if key in after]
    return PairedOutcomes(
        num_both=pairs.count((True, True)),
        num_only_before=pairs.count((True, False)),
        num_only_after=pairs.count((False, True)),
        num_neither=pairs.count((False, False)),
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
