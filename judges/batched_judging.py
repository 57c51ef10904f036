"""Asks judges many questions at once, or before their answers are wanted, although rewards ask one after the other.

`Deferred` asks all questions at once:

    1. rewards ── ask ──> each new question is deferred and stays open
    2. all that were deferred are asked together: many requests under way, many rows in a forward pass
    3. rewards ── ask ──> the answers

A reward is a function of episodes and of what its judges say, so it may be worked out again once they have
spoken. This goes on until nothing is open: an answer may lead to the next question. What is asked, and what a
judge's memory holds in the end, are what they would be one by one.

`Ahead` asks about one episode while the others still play:

    1. an episode goes on  ── ask ahead ──> the model, in threads
    2. all episodes are over ── score ── ask ──> the answer that is under way, or there already

Scoring stays what it is, and finds its answers there. So scores, what is asked and how often do not depend on it.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

from judges.scores import Judge, JudgeScore, Reward

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

Submit = Callable[[Callable[[Any], Any], Any], "Future[Any]"]
"""Calls a function on an item in another thread."""

TextAndState = tuple[str, Mapping[str, Any]]
"""A text and the state dict that it is to be scored against."""

Job = tuple[Judge, Sequence[TextAndState]]
"""A judge and what it is to score."""


class MapFn(Protocol):
    """Calls a function on many items, several at a time; `agents.api.client.ChatClient.map` is one."""

    def __call__(self, function: Callable[[_Item], _Answer], items: Iterable[_Item], /) -> list[_Answer]:
        """Returns the results in the items' order."""
        ...


@runtime_checkable
class DrawingJudge(Protocol):
    """A judge that is asked the same several times and draws each reply, so that several may be under way."""

    def begin(self, *question: Any) -> tuple[Hashable, Callable[[], JudgeScore]]:
        """Returns what tells this reply from others, and what asks for it; which it is, the order of calls says."""
        ...


def one_by_one(function: Callable[[_Item], _Answer], items: Iterable[_Item], /) -> list[_Answer]:
    """Returns a function's results for many items, called one after the other."""
    return [function(item) for item in items]


class Deferred:
    """Stands in for a judge: says what the judge said, or defers the question and leaves it open.

    Args:
        ask_all: Takes the arguments of many questions and gives an answer to each, in order.
        unanswered: What is said of an open question; it must be what unavailable is to the reward.
        key_of: Tells questions apart, if their arguments cannot be hashed.
        is_sampled: Whether asking the same again may be answered otherwise, so that it has to be asked again.
        ask_one: Takes the arguments of one question and answers it, in any thread; None if none is to be asked ahead.
        ahead: Where answers are that were asked for ahead.
    """

    def __init__(
        self,
        ask_all: Callable[[list[tuple[Any, ...]]], Sequence[Any]],
        unanswered: Any,
        *,
        key_of: Callable[[tuple[Any, ...]], Hashable] = lambda question: question,
        is_sampled: bool = False,
        ask_one: Callable[[tuple[Any, ...]], Any] | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        self._ask_one, self._ahead = ask_one, ahead or Ahead()
        self._ask_all, self._unanswered, self._key_of, self._is_sampled = ask_all, unanswered, key_of, is_sampled
        self._answers: dict[Hashable, Any] = {}
        self._questions: dict[Hashable, tuple[Any, ...]] = {}
        self._times_asked: Counter[Hashable] = Counter()
        self.num_open = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Returns the answer, or the placeholder."""
        question = (*arguments, *named.values())
        key = self._key_of(question)
        if self._is_sampled:
            self._times_asked[key] += 1
            key = key, self._times_asked[key]
        if key in self._answers:
            return self._answers[key]
        self.num_open += 1
        self._questions[key] = question
        return self._unanswered

    def restart(self) -> None:
        """Counts repetitions of a sampled question from the first again."""
        self._times_asked.clear()

    def ask_deferred(self) -> bool:
        """Asks all that was deferred; returns whether that is anything."""
        asked, self._questions = self._questions, {}
        under_way = {key: self._ahead.take((id(self), key)) for key in asked}
        new = {key: question for key, question in asked.items() if under_way[key] is None}
        if new:
            self._answers |= dict(zip(new, self._ask_all(list(new.values())), strict=True))
        self._answers |= {key: answer.result() for key, answer in under_way.items() if answer is not None}
        return bool(asked)

    def ask_ahead(self) -> bool:
        """Begins to ask all that was deferred, where that may be done ahead; returns whether there is anything."""
        asked, self._questions = self._questions, {}
        if self._ask_one is not None:
            for key, question in asked.items():
                self._ahead.ask((id(self), key), self._ask_one, question)
        return bool(asked)

    def drop_deferred(self) -> None:
        """Forgets what was deferred: an answer of another judge may change what is asked."""
        self._questions = {}

    def clear(self) -> None:
        """Starts anew: the next batch asks for itself."""
        self._answers, self._questions, self.num_open = {}, {}, 0
        self.restart()


def defer(
    judge: Callable[..., JudgeScore], map_fn: MapFn, *, is_sampled: bool = False, ahead: Ahead | None = None
) -> Deferred:
    """Returns the stand-in of a judge; the repetitions of one question are asked one after the other, in their order.

    Args:
        judge: Takes a question's arguments. The replies that a `DrawingJudge` tells apart are asked for together.
        map_fn: How many questions are put to it together.
        is_sampled: Whether asking the same again may be answered otherwise. Then nothing is asked ahead.
        ahead: Where answers are that were asked for ahead.
    """

    def ask_all(questions: list[tuple[Any, ...]]) -> list[JudgeScore]:
        asking: dict[Hashable, list[tuple[int, Callable[[], JudgeScore]]]] = {}
        for place, question in enumerate(questions):
            drawn = judge.begin(*question) if isinstance(judge, DrawingJudge) else (question, partial(judge, *question))
            asking.setdefault(drawn[0], []).append((place, drawn[1]))
        answers = map_fn(lambda same: [(place, ask()) for place, ask in same], list(asking.values()))
        by_place = dict(itertools.chain.from_iterable(answers))
        return [by_place[place] for place in range(len(questions))]

    return Deferred(
        ask_all,
        JudgeScore.unavailable("not asked yet"),
        is_sampled=is_sampled,
        ask_one=None if is_sampled else lambda question: judge(*question),
        ahead=ahead,
    )


def ask_ahead(judges: Sequence[Deferred], reward_of: Callable[[], Any]) -> None:
    """Begins to ask what one reward asks first.

    Args:
        judges: The stand-ins; as in `rewards_with_deferred`, the questions of the first that has any are asked.
        reward_of: Works the reward out, by asking them.
    """
    for judge in judges:
        judge.restart()
    reward_of()
    has_asked = False
    for judge in judges:
        if has_asked:
            judge.drop_deferred()
        has_asked = has_asked or judge.ask_ahead()


def rewards_with_deferred(
    rewards_of: Callable[[list[Any]], list[Reward]],
    units: Sequence[list[Any]],
    judges: Sequence[Deferred],
    restore: Callable[[], None] = lambda: None,
) -> list[Reward]:
    """Returns rewards, having asked together what they ask.

    Args:
        rewards_of: Rewards the episodes of one unit, by asking `judges`.
        units: Episodes that are rewarded together; one that leaves nothing open is not worked out again.
        judges: The stand-ins; the questions of the first that has any are asked, before those that may hang on them.
        restore: Puts back what `rewards_of` remembers, before it is called again. Where anything raises, a judge or an
            interrupt, it is called once more and no question is kept, so that the batch may be rewarded anew.
    """
    try:
        return _rewards_with_deferred(rewards_of, units, judges, restore)
    except BaseException:
        restore()
        raise
    finally:
        for judge in judges:
            judge.clear()


def _rewards_with_deferred(
    rewards_of: Callable[[list[Any]], list[Reward]],
    units: Sequence[list[Any]],
    judges: Sequence[Deferred],
    restore: Callable[[], None],
) -> list[Reward]:
    """Returns the rewards once nothing is open; see `rewards_with_deferred`."""
    done: dict[int, list[Reward]] = {}
    while len(done) < len(units):
        restore()
        for judge in judges:
            judge.restart()
        for index, unit in enumerate(units):
            if index not in done:
                before = sum(judge.num_open for judge in judges)
                rewards = rewards_of(unit)
                if sum(judge.num_open for judge in judges) == before:
                    done[index] = rewards
        has_asked = False
        for judge in judges:
            if has_asked:
                judge.drop_deferred()
            has_asked = has_asked or judge.ask_deferred()
    return [reward for index in range(len(units)) for reward in done[index]]


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
