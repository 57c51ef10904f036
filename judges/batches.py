"""Judging many texts at once: judges that can do it together do, for others it is a loop."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol, runtime_checkable

from judges.scores import Judge, JudgeScore

TextAndState = tuple[str, Mapping[str, Any]]
"""A text and the state dict that it is to be scored against."""


@runtime_checkable
class BatchJudge(Judge, Protocol):
    """A judge that scores many texts faster than one after the other."""

    def score_many(self, claims: Sequence[TextAndState]) -> list[JudgeScore]:
        """Returns the score of every claim as `score` gives it, in order."""
        ...


def score_many(judge: Judge, claims: Sequence[TextAndState]) -> list[JudgeScore]:
    """Returns one score for each of many texts, in order."""
    if isinstance(judge, BatchJudge):
        return judge.score_many(claims)
    return [judge.score(text, state) for text, state in claims]


class AskingClient(Protocol):
    """A model that can be asked several things at a time; `agents.api.client.ChatClient` is one."""

    def under_way(
        self, function: Callable[[Any], Any], items: Iterable[Any], /
    ) -> AbstractContextManager[Iterator[Any]]:
        """Returns the results in order of a function that is called on many items, as many at a time as allowed."""
        ...


@runtime_checkable
class AskingJudge(Judge, Protocol):
    """A judge that reads its scores off a model's answers; several may put their questions to that model together."""

    @property
    def client(self) -> AskingClient:
        """The model."""
        ...

    def questions(self, claims: Sequence[TextAndState]) -> Mapping[Hashable, Any]:
        """Returns the distinct questions about some claims, by what tells them apart."""
        ...

    def ask(self, question: Any) -> Any:
        """Returns the model's answer to one question."""
        ...

    def read(self, claims: Sequence[TextAndState], answers: Mapping[Hashable, Any]) -> list[JudgeScore]:
        """Returns the claims' scores, from the answers to their questions."""
        ...


Job = tuple[Judge, Sequence[TextAndState]]
"""A judge and what it is to score."""


def score_together(jobs: Sequence[Job]) -> list[list[JudgeScore]]:
    """Returns for each job its scores, in order; all models are asked at once, and each all at once."""
    scores: dict[int, list[JudgeScore]] = {}
    asking: dict[int, AskingJudge] = {}
    for place, (judge, claims) in enumerate(jobs):
        if isinstance(judge, AskingJudge):
            asking[place] = judge
        else:
            scores[place] = score_many(judge, claims)
    told = _answers({place: (judge, jobs[place][1]) for place, judge in asking.items()})
    scores |= {place: judge.read(jobs[place][1], told[place]) for place, judge in asking.items()}
    return [scores[place] for place in range(len(jobs))]


def _answers(jobs: Mapping[int, tuple[AskingJudge, Sequence[TextAndState]]]) -> dict[int, dict[Hashable, Any]]:
    """Returns each job's answers by their questions' keys; all models are asked at once."""
    clients: dict[int, AskingClient] = {}
    asked: dict[int, list[tuple[int, AskingJudge, Hashable, Any]]] = {}
    for place, (judge, claims) in jobs.items():
        clients[id(judge.client)] = judge.client
        questions = [(place, judge, key, question) for key, question in judge.questions(claims).items()]
        asked.setdefault(id(judge.client), []).extend(questions)
    told: dict[int, dict[Hashable, Any]] = {place: {} for place in jobs}
    with ExitStack() as stack:
        results = [
            (each, stack.enter_context(clients[name].under_way(lambda one: one[1].ask(one[3]), each)))
            for name, each in asked.items()
        ]
        for each, answers in results:
            for (place, _, key, _), answer in zip(each, answers, strict=True):
                told[place][key] = answer
    return told
