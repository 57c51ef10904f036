"""Judging many texts at once: judges that can do it together do, for others it is a loop."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from judges.exact import Judge, JudgeScore

Claim = tuple[str, Mapping[str, Any]]
"""A text and the state dict that it is to be scored against."""


@runtime_checkable
class BatchJudge(Judge, Protocol):
    """A judge that scores many texts faster than one after the other."""

    def score_many(self, claims: Sequence[Claim]) -> list[JudgeScore]:
        """Score every claim as `score` does, in order."""
        ...


def score_many(judge: Judge, claims: Sequence[Claim]) -> list[JudgeScore]:
    """Score many texts with one judge.

    Args:
        judge: any judge.
        claims: texts with the states to score them against.

    Returns:
        One score for each, in order.
    """
    if isinstance(judge, BatchJudge):
        return judge.score_many(claims)
    return [judge.score(text, state) for text, state in claims]


@runtime_checkable
class AskingJudge(Judge, Protocol):
    """A judge that reads its scores off a model's answers; several may put their questions to that model together."""

    @property
    def client(self) -> Any:
        """The model; its `map` keeps as many questions under way as it may."""
        ...

    def questions(self, claims: Sequence[Claim]) -> Mapping[str, Any]:
        """The distinct questions about some claims, by what tells them apart."""
        ...

    def ask(self, question: Any) -> Any:
        """Put one question to the model."""
        ...

    def read(self, claims: Sequence[Claim], answers: Mapping[str, Any]) -> list[JudgeScore]:
        """The claims' scores, from the answers to their questions."""
        ...


def score_together(jobs: Sequence[tuple[Judge, Sequence[Claim]]]) -> list[list[JudgeScore]]:
    """Score many texts with several judges; those of one model ask all their questions at once.

    Args:
        jobs: judges, each with its claims.

    Returns:
        For each job its scores, in order.
    """
    scores: dict[int, list[JudgeScore]] = {}
    by_client: dict[int, list[tuple[int, AskingJudge]]] = {}
    for place, (judge, claims) in enumerate(jobs):
        if isinstance(judge, AskingJudge):
            by_client.setdefault(id(judge.client), []).append((place, judge))
        else:
            scores[place] = score_many(judge, claims)
    for members in by_client.values():
        asked = [
            (place, judge, key, question)
            for place, judge in members
            for key, question in judge.questions(jobs[place][1]).items()
        ]
        answers = members[0][1].client.map(lambda one: one[1].ask(one[3]), asked)
        told: dict[int, dict[str, Any]] = {place: {} for place, _ in members}
        for (place, _, key, _), answer in zip(asked, answers, strict=True):
            told[place][key] = answer
        scores |= {place: judge.read(jobs[place][1], told[place]) for place, judge in members}
    return [scores[place] for place in range(len(jobs))]
