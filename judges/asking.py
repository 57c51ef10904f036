"""Awaits judges together and asks each distinct question once.

gather          runs one coroutine per episode, with all their questions in flight together
BatchedModel    answers the questions of these coroutines with one call (one forward pass)
QuestionCache   asks each distinct question of a batch once, even before scoring needs the answer
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from judges.scores import Judge, JudgeScore

_Result = TypeVar("_Result")
_Answer = TypeVar("_Answer")

TextAndState = tuple[str, Mapping[str, Any]]
"""A text and the state dict that it is scored against."""

Job = tuple[Judge, Sequence[TextAndState]]
"""A judge and the texts for it to score."""

Ask = Callable[[], Coroutine[Any, Any, Any]]


async def resolved(value: Awaitable[_Result] | _Result) -> _Result:
    """Returns a value, awaited if it is awaitable, such as the result of a function that may be `async`."""
    return await value if inspect.isawaitable(value) else value


async def gather(
    coroutines: Iterable[Coroutine[Any, Any, _Result]], *, num_parallel: int | None = None
) -> list[_Result]:
    """Returns the results of coroutines, awaited together, in order.

    Args:
        coroutines: The coroutines. If one raises, the others are canceled.
        num_parallel: How many run at a time; None for all.
    """
    waiting = list(coroutines)
    group, slots = _Group(), asyncio.Semaphore(num_parallel or max(1, len(waiting)))
    tasks = [asyncio.ensure_future(group.run(index, coroutine, slots)) for index, coroutine in enumerate(waiting)]
    group.running |= set(range(min(len(waiting), num_parallel or len(waiting))))
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        for coroutine in waiting:
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                coroutine.close()


class _Group:
    """Coroutines that run together, and their open questions to batched models."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self._num_open: Counter[int] = Counter()
        self._open: dict[BatchedModel[Any], list[tuple[int, tuple[Any, ...], asyncio.Future[Any]]]] = {}

    async def run(self, index: int, coroutine: Coroutine[Any, Any, _Result], slots: asyncio.Semaphore) -> _Result:
        _MEMBER.set((self, index))
        try:
            async with slots:
                self.running.add(index)
                return await coroutine
        finally:
            self.running.discard(index)
            self._answer_soon()

    async def ask(self, index: int, model: BatchedModel[_Answer], question: tuple[Any, ...]) -> _Answer:
        answer: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._open.setdefault(model, []).append((index, question, answer))
        self._num_open[index] += 1
        self._answer_soon()
        return await answer

    def _answer_soon(self) -> None:
        if self._open:
            # After the tasks that are ready now, because they may ask as well
            asyncio.get_running_loop().call_soon(self._answer_if_all_wait)

    def _answer_if_all_wait(self) -> None:
        """Answers the questions to one model if no coroutine can continue without an answer."""
        if not self._open or not all(self._num_open[index] for index in self.running):
            return
        # The first member's model, with questions ordered by member, so that batches do not depend on scheduling
        model = min(self._open, key=lambda model: min(index for index, _, _ in self._open[model]))
        asked = sorted(self._open.pop(model), key=lambda question: question[0])
        for index, _, _ in asked:
            self._num_open[index] -= 1
        asked = [question for question in asked if not question[2].done()]  # skips those of canceled members
        try:
            answers = list(model.answer_all([question for _, question, _ in asked]))
            if len(answers) != len(asked):
                raise ValueError(f"A batched model gave {len(answers)} answers to {len(asked)} questions")
        except BaseException as error:
            # No future can hold a StopIteration
            reason = RuntimeError(f"A batched model raised {error!r}") if isinstance(error, StopIteration) else error
            for _, _, answer in asked:
                answer.set_exception(reason)
            return
        for (_, _, answer), given in zip(asked, answers, strict=True):
            answer.set_result(given)


_MEMBER: ContextVar[tuple[_Group, int] | None] = ContextVar("_MEMBER", default=None)


class BatchedModel(Generic[_Answer]):
    """A function that answers many questions at once, awaited for one question at a time.

    Coroutines that `gather` runs have their questions answered by one call as soon as each of them has asked or ended.

    Args:
        answer_all: Takes the argument tuples of many questions and returns an answer to each, in order.
    """

    def __init__(self, answer_all: Callable[[list[tuple[Any, ...]]], Sequence[_Answer]]) -> None:
        self.answer_all = answer_all

    async def __call__(self, *question: Any) -> _Answer:
        """Returns the answer to one question."""
        member = _MEMBER.get()
        if member is None:
            return self.answer_all([question])[0]
        group, index = member
        return await group.ask(index, self, question)


class QuestionClient(Protocol):
    """A model that is asked questions; `agents.api.client.ChatClient` is one."""

    async def ask(self, messages: Any, read: Any, *, temperature: float | None = None, sample: int = 0) -> Any:
        """Returns `read` of the reply to one question, or why there is none."""
        ...


Begin = Callable[[Coroutine[Any, Any, Any]], "Future[Any]"]
"""Starts a coroutine on the event loop of another thread."""


class QuestionCache:
    """Asks a model each distinct question of a batch once; a `QuestionClient`. Safe for threads.

    Args:
        client: The model.
        begin: Where questions are asked, such as `ChatClient.begin`, so that they may be asked before their batch is
            scored; None for the event loop that asks first.
    """

    def __init__(self, client: QuestionClient, begin: Begin | None = None) -> None:
        self._client, self._begin, self._lock = client, begin, threading.Lock()
        self._asked: dict[Hashable, Future[Any] | asyncio.Future[Any]] = {}

    async def ask(self, messages: Any, read: Any, *, temperature: float | None = None, sample: int = 0) -> Any:
        """Returns what `client.ask` returns; equal arguments (`read` apart) share one question."""
        key = (tuple(messages), temperature, sample)
        return await self.once(key, lambda: self._client.ask(messages, read, temperature=temperature, sample=sample))

    async def once(self, key: Hashable, ask: Ask) -> Any:
        """Returns the result of `ask()`, which is called only for the first of equal keys.

        `ask` must not wait for a `BatchedModel`, which in turn would wait for the other callers of this result.
        """
        with self._lock:
            if key not in self._asked:
                self._asked[key] = asyncio.ensure_future(ask()) if self._begin is None else self._begin(ask())
            answer = self._asked[key]
        # Shielded: a caller that stops waiting must not cancel the answer for the others
        return await asyncio.shield(answer if isinstance(answer, asyncio.Future) else asyncio.wrap_future(answer))

    def clear(self) -> None:
        """Forgets the batch and cancels questions that are still in flight."""
        with self._lock:
            asked, self._asked = self._asked, {}
        for answer in asked.values():
            answer.cancel()


@runtime_checkable
class BatchJudge(Judge, Protocol):
    """A judge that scores many texts together faster than one at a time."""

    def score_many(self, claims: Sequence[TextAndState]) -> list[JudgeScore] | Awaitable[list[JudgeScore]]:
        """Returns the score of each claim, in order, equal to that of `score`; may be `async`."""
        ...


async def score_claims(jobs: Sequence[Job]) -> list[list[JudgeScore]]:
    """Returns the scores of each job, in order; asynchronous judges are awaited together."""
    return await gather(_scored(judge, claims) for judge, claims in jobs)


async def _scored(judge: Judge, claims: Sequence[TextAndState]) -> list[JudgeScore]:
    if isinstance(judge, BatchJudge):
        return await resolved(judge.score_many(claims))
    if inspect.iscoroutinefunction(judge.score):
        return await gather(judge.score(text, state) for text, state in claims)
    return [await resolved(judge.score(text, state)) for text, state in claims]
