"""Results of judges: the score of a text and the reward of a rollout; both may be unavailable.

Only part of a transcript is the model's own text. A tool's output, a question, or a file may also contain
`<answer>` or `<zoom>`; if these were read as the model's words, the author of the file would control the reward.
Functions that return a `Reward` therefore take *the model's own pieces*, one sampled string per generation, and
never a transcript. No tag may open in one piece and close in the next.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeScore:
    """A judge's score of one text.

    Attributes:
        value: The score, in [0, 1]; NaN without one, so that no sum can mistake it for a zero.
        per_category: F1 of each of the world's categories, in [0, 1].
        num_facts_read: Facts found in the text, right or wrong.
        num_facts_right: Facts found in the text that are true.
        reason: One line for logs: the basis of the score, or why there is none.
        available: False if the judge could not answer; the trainer masks such a turn.
    """

    value: float
    per_category: Mapping[str, float] = field(default_factory=dict)
    num_facts_read: int = 0
    num_facts_right: int = 0
    reason: str = ""
    available: bool = True

    @property
    def precision(self) -> float:
        """Share of the stated facts that are true, in [0, 1]; omissions do not lower it. NaN without facts.

        Judges that give a verdict without counting facts, such as `direct`, report no facts.
        """
        return self.num_facts_right / self.num_facts_read if self.num_facts_read else math.nan

    @classmethod
    def unavailable(cls, reason: str) -> JudgeScore:
        """Returns the result of a judge that could not answer, with the reason."""
        return cls(value=math.nan, reason=reason, available=False)


class Judge(Protocol):
    """Scores a text against the state that it describes or predicts."""

    def score(self, text: str, state: Mapping[str, Any]) -> JudgeScore | Awaitable[JudgeScore]:
        """Returns the score of `text` against the typed state dict `state`; may be `async`.

        A judge that cannot answer returns `JudgeScore.unavailable`.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Reward:
    """The reward of one rollout.

    Attributes:
        terms: Weighted terms, which sum to `total`. A term that does not apply is absent, not 0.
        raw: Each term's value before weighting, for logs.
        reason: One line for logs: the basis of the reward, or why there is none.
        available: False if a judge could not answer; the trainer masks such a rollout.
    """

    terms: Mapping[str, float]
    raw: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    available: bool = True

    @property
    def total(self) -> float:
        """The sum of the terms; NaN if unavailable, so that no sum can mistake it for a zero."""
        return math.fsum(self.terms.values()) if self.available else math.nan

    @classmethod
    def unavailable(cls, reason: str) -> Reward:
        """Returns the reward of a rollout whose judge could not answer, with the reason."""
        return cls(terms={}, reason=reason, available=False)


def on_rubric(score: JudgeScore, rubric: Collection[float]) -> JudgeScore:
    """Returns a judge's score; unavailable, with the grade in its reason, if the grade is not in the rubric."""
    if not score.available or score.value in rubric:
        return score
    return JudgeScore.unavailable(f"the judge said {score.value!r}, which is none of {sorted(rubric)}")
