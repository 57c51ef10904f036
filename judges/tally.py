"""Counting right and claimed facts, and the F1 score that follows."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """How many facts of one category were claimed, and how many of those are right.

    Attributes:
        num_correct: claimed facts that are true.
        num_claimed: facts the text claims.
        num_true: facts the state holds.
    """

    num_correct: int
    num_claimed: int
    num_true: int

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, in [0, 1].

        Nothing to say and nothing said counts as 1: silence on holes describes a lake without holes in full.
        """
        total = self.num_claimed + self.num_true
        return 2.0 * self.num_correct / total if total else 1.0

    def __str__(self) -> str:
        """The counts in words, for logs."""
        return f"{self.num_correct} right of {self.num_claimed} claimed, {self.num_true} true"
