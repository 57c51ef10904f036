"""Puts questions to a model before their answers are wanted: of one episode while the others still play.

    1. an episode goes on  ── ask ahead ──> the model, in threads
    2. all episodes are over ── score ── ask ──> the answer that is under way, or there already

Scoring stays what it is, and finds its answers there. So scores, what is asked and how often do not depend on it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from judges.batches import AskingClient, AskingJudge, TextAndState
from judges.scores import Judge, JudgeScore

Submit = Callable[[Callable[[Any], Any], Any], "Future[Any]"]
"""Calls a function on an item in another thread."""


class Ahead:
    """Answers that are under way, each of which is taken once; outside of `open` nothing is."""

    def __init__(self) -> None:
        self._submit: Submit | None = None
        self._answers: dict[Hashable, tuple[Future[Any], Any]] = {}

    @contextmanager
    def open(self, submitting: AbstractContextManager[Submit]) -> Iterator[None]:
        """Lets questions be asked ahead within the block; what nobody has taken at its end is given up."""
        try:
            with submitting as self._submit:
                yield
        finally:
            self._submit, self._answers = None, {}

    def ask(self, key: Hashable, function: Callable[[Any], Any], question: Any) -> None:
        """Begins to ask a question, unless it is under way.

        Args:
            key: Tells questions apart. What it names by `id` must be a part of the question, which is kept.
            function: Asks it.
            question: Its argument.
        """
        if self._submit is not None and key not in self._answers:
            self._answers[key] = self._submit(function, question), question

    def take(self, key: Hashable) -> Future[Any] | None:
        """Returns an answer that may still be under way; None if it was not asked for."""
        answer = self._answers.pop(key, None)
        return None if answer is None else answer[0]


class AheadJudge:
    """A judge whose questions may be asked ahead; an `AskingJudge`.

    Args:
        judge: Who is asked.
        ahead: Where its answers are until they are wanted.
    """

    def __init__(self, judge: AskingJudge, ahead: Ahead) -> None:
        self._judge, self._ahead = judge, ahead

    @property
    def client(self) -> AskingClient:
        """The model."""
        return self._judge.client

    def ask_ahead(self, claims: Sequence[TextAndState]) -> None:
        """Begins to ask about some claims."""
        for key, question in self._judge.questions(claims).items():
            self._ahead.ask((id(self), key), self._judge.ask, question)

    def score(self, text: str, state: Mapping[str, Any]) -> JudgeScore:
        """Returns the score of one text."""
        return self._judge.score(text, state)

    def questions(self, claims: Sequence[TextAndState]) -> Mapping[Hashable, Any]:
        """Returns the distinct questions about some claims, each with what tells it apart."""
        return {key: (key, question) for key, question in self._judge.questions(claims).items()}

    def ask(self, question: tuple[Hashable, Any]) -> Any:
        """Returns the answer to a question of `questions`: the one that was asked for ahead, if it was."""
        key, asked = question
        answer = self._ahead.take((id(self), key))
        return self._judge.ask(asked) if answer is None else answer.result()

    def read(self, claims: Sequence[TextAndState], answers: Mapping[Hashable, Any]) -> list[JudgeScore]:
        """Returns the claims' scores, from the answers to their questions."""
        return self._judge.read(claims, answers)


def finding_ahead(judge_for: Callable[[str, Any], Judge], ahead: Ahead) -> Callable[[str, Any], Judge]:
    """Returns a finder of the same judges, in which those that ask a model may be asked ahead."""

    @functools.cache
    def find(env_id: str, representation: Any) -> Judge:
        judge = judge_for(env_id, representation)
        return AheadJudge(judge, ahead) if isinstance(judge, AskingJudge) else judge

    return find
