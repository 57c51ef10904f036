"""What every reward of a paper returns: named terms that sum to a total, or the reason why there is none.

The papers' rewards read two kinds of text, and only one of them is the model's. A tool's output, a question or a
file may hold `<answer>` or `<zoom>` as well; were it read as the model's words, whoever writes the file writes the
reward. Every function of these modules therefore takes *the model's own pieces* - what the policy sampled, one
string per generation - and never a transcript. No tag may open in one piece and close in the next.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from judges.state_text.exact import JudgeScore


@dataclass(frozen=True, kw_only=True, slots=True)
class Reward:
    """The reward of one rollout.

    Attributes:
        terms: each term with its weight in it; they sum to `total`. A term that does not apply is absent, not 0.
        raw: each term's value before its weight, for logs.
        reason: one line for logs: why there is no reward, or what decided it.
        available: False when a judge could not answer; the trainer masks such a rollout.
    """

    terms: Mapping[str, float]
    raw: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    available: bool = True

    @property
    def total(self) -> float:
        """The sum of the terms; NaN when unavailable, so that no sum can take an outage for a zero."""
        return math.fsum(self.terms.values()) if self.available else math.nan

    @classmethod
    def outage(cls, reason: str) -> "Reward":
        """The reward of a rollout whose judge could not answer, with the reason why."""
        return cls(terms={}, reason=reason, available=False)


def on_rubric(score: JudgeScore, rubric: Collection[float]) -> JudgeScore:
    """Return a judge's score, or an outage where it is none of the grades that the judge was asked for.

    Args:
        score: what the judge said; any float.
        rubric: the allowed grades.

    Returns:
        `score` itself, or an outage that names the grade.
    """
    if not score.available or score.f1 in rubric:
        return score
    return JudgeScore.outage(f"the judge said {score.f1!r}, which is none of {sorted(rubric)}")
