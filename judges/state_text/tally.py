"""Counts of right and claimed facts, and their F1 score."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


def best_matching(gains: npt.NDArray[np.float64] | npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """Returns disjoint pairs of rows and columns with the highest sum of gains."""
    from scipy.optimize import linear_sum_assignment  # imported here because it is slow

    rows, columns = linear_sum_assignment(gains, maximize=True)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """The numbers of claimed and right facts of one category.

    Attributes:
        num_correct: Claimed facts that are true.
        num_claimed: Facts the text claims.
        num_true: Facts the state holds.
        num_excess: Claimed facts that are not right but cancel no right one in `net_f1`.
        num_implied: Right facts that the text implies without claiming them; both F1 scores count them as claimed.
    """

    num_correct: int
    num_claimed: int
    num_true: int
    num_excess: int = 0
    num_implied: int = 0

    @classmethod
    def of_one_fact(cls, claims: Iterable[bool]) -> Tally:
        """Counts the claims about a single value, such as a direction.

        If all claims are right, they count as one ("2.59 m, about 2.6 m"). Otherwise they contradict each other or the
        truth, and none counts as right, so that a text cannot try several values.
        """
        claims = list(claims)
        if claims and all(claims):
            return cls(num_correct=1, num_claimed=1, num_true=1)
        return cls(num_correct=0, num_claimed=len(claims), num_true=1)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, in [0, 1].

        Without true or claimed facts it is 1: a text without holes fully describes a lake without holes.
        """
        return 2.0 * (self.num_correct + self.num_implied) / self._total if self._total else 1.0

    @property
    def net_f1(self) -> float:
        """F1 in which each wrong claim cancels a right one, in [0, 1]; equal to `f1` where no claim is wrong."""
        num_wrong = self.num_claimed - self.num_correct - self.num_excess
        num_net = self.num_correct + self.num_implied - num_wrong
        return max(0.0, 2.0 * num_net / self._total) if self._total else 1.0

    @property
    def _total(self) -> int:
        return self.num_claimed + self.num_implied + self.num_true

    def __str__(self) -> str:
        """Returns the counts in words, for logs."""
        return f"{self.num_correct} right of {self.num_claimed} claimed, {self.num_true} true"


@dataclass(frozen=True, slots=True)
class Part:
    """One category's share in the score of a text.

    Attributes:
        name: The category's name in reports.
        weight: Its share of the score, in [0, 1]; the weights of a text's parts sum to 1.
        tally: Its facts.
        score: The category's score, in [0, 1]; the tally's F1 where None.
    """

    name: str
    weight: float
    tally: Tally
    score: float | None = None

    @property
    def value(self) -> float:
        """The category's score, in [0, 1]."""
        return self.tally.f1 if self.score is None else self.score
