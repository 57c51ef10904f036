"""Client of a model behind an endpoint: limits, retries, and costs; questions with parsed and cached replies.

question ── cache ──> limits ── endpoint ──> reply ── read ──> verdict
                        ^          │                   │
                        └─ wait ───┘ (transient)       └─ ask once more (unreadable) ─> unavailable

Readable replies are stored on disk, each under a hash of its request.

    <cache_dir>/3f/3fa9….json    {"key": "3fa9…", "reply": "<answer>YES</answer>"}

Several processes may share a folder: entries are written atomically, and entries written twice are equally valid.
Unreadable entries count as missing and are replaced by the next reply.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

import tenacity

from agents.api.conversation import Completion, Message, TokenCounts, estimated_tokens, sendable
from agents.api.endpoint_config import LONGEST_WAIT_S, EndpointConfig
from agents.api.failures import (
    EndpointError,
    LimitError,
    PermanentError,
    SilentError,
    TransientError,
    Unavailable,
    UnreadableReplyError,
)
from agents.api.prices import PriceTable, Usage
from agents.api.retries import Clock, RateLimiter, Retries, Silence, SystemClock
from agents.event_loop import LoopThread, run_blocking, shared_loop
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import replace_file

_LOG = logging.getLogger(__name__)
_CACHE_LOG = logging.getLogger(f"{__name__}.cache")
"""A separate logger, so that silencing the client does not silence it."""

_MAX_QUOTED_CHARS = 2_000

NUM_UNREPORTED = 4
"""Failed attempts of one request before the wait for the endpoint is logged."""

_CLOSED = "the client was closed"
_CLOSING_S = 1.0
"""How long coroutines may take to end after their requests have failed because the client was closed, in seconds."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Verdict = TypeVar("_Verdict")

_VERSION = 2
_MAX_ENTRY_BYTES = 4 * 2**20


class ModelClient:
    """A model behind an endpoint, used within limits; create one per process.

    Its coroutines may be awaited on any event loop; they run on the client's own loop, in a thread.

    Args:
        config: The endpoint and its limits.
        clock: Clock for all waits; the system's by default.

    Raises:
        ConfigError: If the key is not set, or the price table is not valid.
        EngineUnavailableError: If the provider's package is not installed.
    """

    def __init__(self, config: EndpointConfig, *, clock: Clock | None = None) -> None:
        # Imported late: official packages take seconds to import
        from agents.api.transport import Endpoint

        self.config = config
        self.price = PriceTable.load(config.prices).of(config.model)
        self._runner = LoopThread("model-endpoint")
        self._clock = clock or SystemClock()
        self._requests = RateLimiter(config.requests_per_minute, self._clock)
        self._tokens = RateLimiter(config.tokens_per_minute, self._clock)
        self._retries = Retries(config, self._clock)
        self._reported_s = float("-inf")
        self._first = asyncio.Lock()
        self._slots = asyncio.Semaphore(config.max_parallel)
        self._given_up: dict[asyncio.Task[Any], str] = {}  # reason by task with a request; empty until then
        self._usage = Usage()
        self._endpoint = Endpoint(config)
        # Reports unsupported settings now, not in the middle of an episode
        self.request((Message(role="user", parts=("",)),))

    def __enter__(self) -> Self:
        """Returns the client; the `with` block closes its connections at the end."""
        return self

    def __exit__(self, *error: object) -> None:
        """Closes the connections."""
        self.close()

    @property
    def usage(self) -> Usage:
        """Usage so far."""
        return replace(self._usage, is_priced=self.price is not None)

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
        return self._runner.is_stopped

    def close(self) -> None:
        """Fails all running requests and closes the connections."""
        self._runner.stop(self._end())

    async def _end(self) -> None:
        self._give_up(_CLOSED)
        await self._runner.cancel_others(grace_s=_CLOSING_S)
        await self._endpoint.close()

    async def complete(
        self, messages: Sequence[Message], config: EndpointConfig | None = None, *, max_attempts: int | None = None
    ) -> Completion:
        """Returns the model's answer, after at most `max_attempts` requests.

        Args:
            messages: The conversation.
            config: Sampling settings; None for the configured ones.
            max_attempts: Most requests; None for the configured number.

        Raises:
            EndpointError: If every attempt fails: `PermanentError` if retrying would not help, including `LimitError`
                if the request exceeds a limit of the model, such as its number of images.
        """
        return await self._on_own_loop(self._complete, messages, config, max_attempts)

    async def _complete(
        self, messages: Sequence[Message], config: EndpointConfig | None, max_attempts: int | None
    ) -> Completion:
        if fault := self._endpoint.provider.limits.fault(messages):
            raise LimitError(fault, "context")
        request = self.request(messages, config)
        return await self._send(request, max_attempts or self.config.max_attempts)

    def request(self, messages: Sequence[Message], config: EndpointConfig | None = None) -> dict[str, Any]:
        """Returns a request in the format of the provider's package; `config` is None for the configured settings."""
        messages = tuple(map(sendable, messages))
        return self._endpoint.provider.request(messages, config or self.config)

    def hidden(self, text: str) -> str:
        """Returns a text without the key, the values of headers, and the words in these values."""
        return self._endpoint.hidden(text)

    def estimated(self, messages: Sequence[Message], reply: Completion) -> TokenCounts:
        """Estimates the tokens of an uncounted reply: the mean of counted replies, or from its length without any."""
        usage = self.usage
        if not usage.num_counted:
            return estimated_tokens(messages, reply)
        means = (usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens)
        prompt, completion, reasoning = (round(total / usage.num_counted) for total in means)
        return TokenCounts(prompt=prompt, completion=completion, reasoning=reasoning, uncounted=1)

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Returns a coroutine's result, for callers without an event loop; it runs on the client's loop.

        An interruption such as Ctrl-C cancels it and all running requests, without waiting for them.
        """
        if self._runner.is_stopped:  # a closed client fails each request
            return run_blocking(coroutine)
        try:
            return self._runner.run(coroutine)
        except Exception:
            raise
        except BaseException:
            self._runner.call(lambda: self._give_up("it was given up"))
            raise

    def begin(self, coroutine: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        """Starts a coroutine on the client's loop; canceling the future cancels it.

        If the client is closed, it runs on the shared loop, where its requests fail.
        """
        return (shared_loop() if self.is_closed else self._runner).submit(coroutine)

    def map(self, function: Callable[[_Item], Awaitable[_Result]], items: Iterable[_Item]) -> list[_Result]:
        """Returns the results of a coroutine function for many items in order, all awaited together.

        An error, or an interruption, cancels the others.
        """
        return self.run(_gathered(function, items))

    async def _on_own_loop(self, function: Callable[..., Coroutine[Any, Any, _Result]], *arguments: Any) -> _Result:
        """Awaits a coroutine function on the client's loop; raises `PermanentError` if the client was closed."""
        if self._runner.is_current:
            return await function(*arguments)
        try:
            future = self._runner.submit(function(*arguments))
        except CancelledError:
            raise PermanentError(_CLOSED) from None
        return await asyncio.wrap_future(future)

    async def _send(self, request: Mapping[str, Any], max_attempts: int | None) -> Completion:
        """Returns a reply, after retries, with the tokens of all attempts.

        Raises:
            EndpointError: If retrying fails, also with the tokens of all attempts.
        """
        wasted: list[TokenCounts] = []
        retrying = self._retries.of_request(max_attempts, before_sleep=self._report)
        try:
            with self._may_be_given_up():
                reply: Completion = await retrying(self._attempt, request, wasted)
        except EndpointError as error:
            error.tokens = sum(wasted, TokenCounts()) if wasted else None
            raise
        return reply if reply.tokens is None else replace(reply, tokens=sum(wasted, reply.tokens))

    def _give_up(self, reason: str) -> None:
        """Fails all running requests."""
        for task in [task for task, given_up in self._given_up.items() if not given_up]:
            self._given_up[task] = reason
            task.cancel()

    @contextmanager
    def _may_be_given_up(self) -> Iterator[None]:
        """Turns the cancellation by `_give_up`, but no other one, into `PermanentError`."""
        if self._runner.is_stopped:
            raise PermanentError(_CLOSED)
        task = asyncio.current_task()
        assert task is not None, "coroutines of asyncio run in tasks"
        self._given_up[task] = ""
        try:
            yield
        except asyncio.CancelledError:
            if self._given_up[task] and not task.uncancel():
                raise PermanentError(self._given_up[task]) from None
            raise
        finally:
            del self._given_up[task]

    async def _attempt(self, request: Mapping[str, Any], wasted: list[TokenCounts]) -> Completion:
        async with self._slots, self._alone_at_first():
            expected = self._expected_tokens()
            await self._requests.acquire()
            await self._tokens.acquire(expected)
            self._add(num_requests=1)
            try:
                reply = await self._endpoint.send(request)
            except asyncio.CancelledError:
                self._add(num_failed_requests=1)
                raise
            except EndpointError as error:
                self._add(num_failed_requests=1)
                if error.tokens is not None:
                    wasted.append(error.tokens)
                    self._count(error.tokens, expected)
                if isinstance(error, TransientError) and error.retry_after_s:
                    if self._retries.may_help(error):
                        self._requests.hold(error.retry_after_s)
                    else:
                        waits = f"asked to wait {error.retry_after_s:,.0f} s; max_wait_s is {self.config.max_wait_s:g}"
                        error.args = (f"{error} ({waits})",)
                raise
            self._count(reply.tokens, expected)
        return reply

    @asynccontextmanager
    async def _alone_at_first(self) -> AsyncIterator[None]:
        """Starts requests one by one until a reply has shown its number of tokens, if tokens are limited."""
        async with AsyncExitStack() as alone:
            if self.config.tokens_per_minute is not None and not self._has_counts():
                await alone.enter_async_context(self._first)
                if self._has_counts():
                    await alone.aclose()
            yield

    def _has_counts(self) -> bool:
        return self._usage.num_counted + self._usage.num_uncounted > 0

    def _expected_tokens(self) -> float:
        """Returns the mean number of tokens per reply so far, including its prompt."""
        usage = self._usage
        return (usage.prompt_tokens + usage.completion_tokens) / max(1, usage.num_counted)

    def _report(self, state: tenacity.RetryCallState) -> None:
        """Logs why an endpoint is being retried, at most once a minute, if retrying may take minutes."""
        max_retry_s, now_s = self.config.max_retry_s, self._clock.now_s()
        if max_retry_s is None or now_s - self._reported_s < LONGEST_WAIT_S or state.attempt_number < NUM_UNREPORTED:
            return
        self._reported_s = now_s
        error = state.outcome.exception() if state.outcome is not None else None
        _LOG.warning("%s failed; retrying for up to %g s: %s", self.config.model, max_retry_s, error)

    def _add(self, **counts: float) -> None:
        self._usage = self._usage.plus(**counts)

    def _count(self, tokens: TokenCounts | None, expected_tokens: float) -> None:
        if tokens is None:
            self._add(num_uncounted=1)
            return
        self._tokens.correct(tokens.prompt + tokens.completion - expected_tokens)
        self._add(
            num_counted=1,
            prompt_tokens=tokens.prompt,
            completion_tokens=tokens.completion,
            reasoning_tokens=tokens.reasoning,
            counted_usd=0.0 if self.price is None else self.price.usd(tokens),
        )


async def _gathered(function: Callable[[_Item], Awaitable[_Result]], items: Iterable[_Item]) -> list[_Result]:
    tasks: list[asyncio.Future[_Result]] = []
    try:
        for item in items:
            tasks.append(asyncio.ensure_future(function(item)))
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


class ChatClient(ModelClient):
    """A model that answers questions with parsed replies; a failed question is `Unavailable` and nothing is raised.

    At most `max_parallel` questions run at once; others wait. If a question times out in every configured attempt, the
    endpoint counts as silent: until it answers again, only one question is sent from time to time, once, and all others
    are unavailable immediately.

    Args:
        config: The endpoint and its limits.
        clock: Clock for all waits; the system's by default.

    Raises:
        ConfigError: Like `ModelClient`, or if the cache folder cannot be used.
        EngineUnavailableError: Like `ModelClient`.
    """

    def __init__(self, config: EndpointConfig, *, clock: Clock | None = None) -> None:
        super().__init__(config, clock=clock)
        self._cache = None if config.cache_dir is None else ReplyCache(config.cache_dir)
        self._silence = Silence(self._clock)
        self._questions = asyncio.Semaphore(config.max_parallel)
        self._asking: dict[str, asyncio.Event] = {}  # set when the question with this key is finished

    async def ask(
        self,
        messages: Sequence[Message],
        read: Callable[[str], _Verdict],
        *,
        temperature: float | None = None,
        sample: int = 0,
    ) -> _Verdict | Unavailable:
        """Returns the parsed reply to a question.

        If a reply cannot be parsed, it is sent back once with the reason, for a second reply. Only readable replies are
        cached. With a cache, equal questions are asked one after another, so that they share one reply.

        Args:
            messages: The conversation, as returned by `PromptTemplate.fill`.
            read: Parses the reply, or raises `UnreadableReplyError`.
            temperature: Overrides the configured one.
            sample: Index among several replies to the same question; each is cached separately.

        Returns:
            The result of `read`, or the reason why there is none.
        """
        config = self.config if temperature is None else replace(self.config, temperature=temperature)
        try:
            return await self._on_own_loop(self._ask, messages, read, config, sample)
        except PermanentError as error:
            self._add(num_questions=1)
            return self._unavailable(str(error))

    async def _ask(
        self, messages: Sequence[Message], read: Callable[[str], _Verdict], config: EndpointConfig, sample: int
    ) -> _Verdict | Unavailable:
        self._add(num_questions=1)
        if self._cache is None:
            async with self._questions:
                return await self._ask_endpoint(messages, read, config)
        key = ""
        while True:
            async with self._questions:
                key = key or cache_key(self.request(messages, config), sample)
                first = self._asking.get(key)
                if first is None:
                    over = self._asking[key] = asyncio.Event()
                    try:
                        return await self._ask_once(messages, read, config, key, self._cache)
                    finally:
                        del self._asking[key]
                        over.set()
            await first.wait()

    async def _ask_once(
        self,
        messages: Sequence[Message],
        read: Callable[[str], _Verdict],
        config: EndpointConfig,
        key: str,
        cache: ReplyCache,
    ) -> _Verdict | Unavailable:
        """Returns the verdict of the cached reply, or requests a reply and caches it."""
        cached = cache.get(key)
        if cached is not None:
            try:
                verdict = read(cached)
            except UnreadableReplyError:
                _LOG.info("A cached reply is no longer readable and is requested again")
            else:
                self._add(num_cached=1)
                return verdict
        return await self._ask_endpoint(messages, read, config, lambda reply: cache.put(key, reply))

    async def _ask_endpoint(
        self,
        messages: Sequence[Message],
        read: Callable[[str], _Verdict],
        config: EndpointConfig,
        keep: Callable[[str], None] = lambda reply: None,
    ) -> _Verdict | Unavailable:
        conversation = list(messages)
        reason = ""
        for _ in range(2):
            if not self._silence.admits():
                return self._unavailable("it has not answered others in time")
            asked_s = self._clock.now_s()
            try:
                reply = await self._complete(conversation, config, 1 if self._silence.lasts else None)
            except EndpointError as error:
                if isinstance(error, SilentError):
                    self._silence.begin(asked_s)
                return self._unavailable(str(error))
            self._silence.end()
            try:
                verdict = read(reply.text)
            except UnreadableReplyError as error:
                self._add(num_unreadable=1)
                reason = str(error)
                conversation = [*messages, *second_request(reply.text, reason)]
                continue
            keep(reply.text)
            return verdict
        return self._unavailable(f"unreadable twice: {reason}")

    def _unavailable(self, reason: str) -> Unavailable:
        self._add(num_unavailable=1)
        _LOG.warning("A question to %s had no verdict: %s", self.config.model, reason)
        return Unavailable(f"judge {self.config.model}: {reason}")


def second_request(reply: str, reason: str) -> list[Message]:
    """Returns the messages that follow an unreadable reply: the reply itself, and a request to repeat it."""
    question = (
        f"Your reply could not be read: {reason}. Give your final answer once more, in exactly the form that was asked "
        "for, and nothing after it."
    )
    return [
        Message(role="assistant", parts=(reply[:_MAX_QUOTED_CHARS] or "(no text)",)),
        Message(role="user", parts=(question,)),
    ]


def cache_key(request: Mapping[str, Any], sample: int = 0) -> str:
    """Returns the SHA-256 of everything that determines a reply.

    The endpoint's address is not included, because the same model moves between machines; two models that answer
    differently need different names or folders.

    Args:
        request: In the format of the provider's `request`: model, conversation including images, and sampling.
        sample: Index among several replies to the same question.

    Returns:
        64 hexadecimal digits.
    """
    asked = {"version": _VERSION, "request": request, "sample": sample}
    text = json.dumps(asked, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class ReplyCache:
    """Replies stored in a folder.

    Raises:
        ConfigError: If the folder cannot be created or is not a folder.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"Cannot use {str(folder)!r} as cache_dir: {error}. Name a folder.") from error
        self._folder = folder

    def get(self, key: str) -> str | None:
        """Returns the reply stored under a key, or None if there is no readable one."""
        try:
            with self._path(key).open("rb") as file:
                content = file.read(_MAX_ENTRY_BYTES + 1)
            entry = json.loads(content) if len(content) <= _MAX_ENTRY_BYTES else None
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(entry, dict) or entry.get("key") != key:
            return None
        reply = entry.get("reply")
        return reply if isinstance(reply, str) else None

    def put(self, key: str, reply: str) -> None:
        """Stores a reply; a write error is only logged, because the current reply is still valid."""
        path = self._path(key)
        try:
            path.parent.mkdir(exist_ok=True)
            replace_file(path, json.dumps({"key": key, "reply": reply}).encode())
        except OSError as error:
            _CACHE_LOG.warning("A judge's reply was not cached in %s: %s", self._folder, error)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"
