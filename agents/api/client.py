"""Asking a model behind an endpoint: cache, limits, retries, costs. It answers or is unavailable; nothing is raised.

question ── cache ──> limits ── endpoint ──> reply ── read ──> verdict
                        ^          │                   │
                        └─ wait ───┘ (transient)       └─ ask once more (unreadable) ─> unavailable
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

import tenacity

from agents.api.cache import ReplyCache, cache_key
from agents.api.config import EndpointConfig
from agents.api.failures import EndpointError, TransientError, Unavailable, UnreadableReplyError
from agents.api.messages import Message
from agents.api.pacing import Clock, InterruptibleClock, RateLimiter
from agents.api.usage import Usage, UsageMeter

if TYPE_CHECKING:
    from agents.api.transport import Completion

_LOG = logging.getLogger(__name__)
_MAX_QUOTED_CHARS = 2_000

_Item = TypeVar("_Item")
_Verdict = TypeVar("_Verdict")


class ChatClient:
    """A judge model behind an endpoint that speaks OpenAI's chat completions. Safe for threads; one per process.

    Args:
        config: The endpoint and the limits of its use.
        clock: What waits are measured by; the real one by default.

    Raises:
        ConfigError: The key is not set, or the cache folder cannot be used.
    """

    def __init__(self, config: EndpointConfig, *, clock: Clock | None = None) -> None:
        from agents.api.transport import Endpoint  # the official client takes seconds to import: only who asks waits

        self.config = config
        self._stopping = threading.Event()
        self._clock = clock or InterruptibleClock(self._stopping)
        self._limiter = RateLimiter(config.requests_per_minute, self._clock)
        self._full_wait_s = tenacity.wait_exponential(multiplier=config.first_wait_s, max=config.max_wait_s)
        self._slots = threading.BoundedSemaphore(config.max_parallel)
        self._cache = None if config.cache_dir is None else ReplyCache(config.cache_dir)
        self._meter = UsageMeter()
        self._endpoint = Endpoint(config)

    def __enter__(self) -> Self:
        """Returns the client as a context that closes the connections at its end."""
        return self

    def __exit__(self, *error: object) -> None:
        """Closes the connections."""
        self.close()

    @property
    def usage(self) -> Usage:
        """What was used up to now."""
        return self._meter.snapshot()

    def close(self) -> None:
        """Gives up waiting and closes the connections."""
        self._stopping.set()
        self._endpoint.close()

    def ask(
        self,
        messages: Sequence[Message],
        read: Callable[[str], _Verdict],
        *,
        temperature: float | None = None,
        sample: int = 0,
    ) -> _Verdict | Unavailable:
        """Returns what the reply to one question says.

        A reply that cannot be read is shown to the model once with the reason, and asked for again. Only readable
        replies are cached.

        Args:
            messages: The conversation, as `PromptTemplate.fill` makes it.
            read: Turns the reply into what was asked for, or raises `UnreadableReplyError`.
            temperature: In place of the configured one.
            sample: Which of several replies to the same question this is; each is cached by itself.

        Returns:
            What `read` returned, or why there is nothing.
        """
        sampling = {
            "temperature": self.config.temperature if temperature is None else temperature,
            "max_tokens": self.config.max_tokens,
        }
        self._meter.add(num_questions=1)
        key = cache_key(self.config.model, messages, {**sampling, "sample": sample})
        cached = None if self._cache is None else self._cache.get(key)
        if cached is not None:
            try:
                verdict = read(cached)
            except UnreadableReplyError:
                _LOG.info("A cached reply cannot be read any more and is asked for again")
            else:
                self._meter.add(num_cached=1)
                return verdict
        return self._ask_endpoint(messages, read, sampling, key)

    def map(self, function: Callable[[_Item], _Verdict], items: Iterable[_Item]) -> list[_Verdict]:
        """Returns a function's results for many items in their order, called `max_parallel` at a time."""
        with self.under_way(function, items) as results:
            return list(results)

    @contextmanager
    def under_way(self, function: Callable[[_Item], _Verdict], items: Iterable[_Item]) -> Iterator[Iterator[_Verdict]]:
        """Yields what `map` returns while it is under way, so that other clients may be asked meanwhile.

        Yields:
            The results in the items' order, each as soon as it is there. Where the context is left by an exception,
            what has not begun yet never does.
        """
        pool = ThreadPoolExecutor(self.config.max_parallel, thread_name_prefix="endpoint")
        try:
            yield pool.map(function, items)
        except BaseException:
            # Ctrl-C must not wait for every question of a batch to exhaust its attempts.
            self._stopping.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
            self._stopping.clear()

    def _ask_endpoint(
        self,
        messages: Sequence[Message],
        read: Callable[[str], _Verdict],
        sampling: Mapping[str, Any],
        key: str,
    ) -> _Verdict | Unavailable:
        conversation = list(messages)
        reason = ""
        for _ in range(2):
            try:
                reply = self._request({"model": self.config.model, "messages": conversation, **sampling})
            except EndpointError as error:
                return self._unavailable(str(error))
            try:
                verdict = read(reply.text)
            except UnreadableReplyError as error:
                self._meter.add(num_unreadable=1)
                reason = str(error)
                conversation = [*messages, *_second_request(reply.text, reason)]
                continue
            if self._cache is not None:
                self._cache.put(key, reply.text)
            return verdict
        return self._unavailable(f"unreadable twice: {reason}")

    def _unavailable(self, reason: str) -> Unavailable:
        self._meter.add(num_unavailable=1)
        _LOG.warning("A question to %s had no verdict: %s", self.config.model, reason)
        return Unavailable(f"judge {self.config.model}: {reason}")

    def _request(self, request: Mapping[str, Any]) -> Completion:
        """Returns a reply, sent for at most `max_attempts` times; raises `EndpointError` after that."""
        retrying = tenacity.Retrying(
            stop=tenacity.stop_any(
                tenacity.stop_after_attempt(self.config.max_attempts), tenacity.stop_when_event_set(self._stopping)
            ),
            retry=tenacity.retry_if_exception(self._may_pass),
            wait=self._wait_s,
            sleep=self._clock.sleep,
            reraise=True,
        )
        return retrying(self._attempt, request)

    def _attempt(self, request: Mapping[str, Any]) -> Completion:
        with self._slots:
            self._limiter.acquire()
            self._meter.add(num_requests=1)
            try:
                reply = self._endpoint.send(request)
            except EndpointError as error:
                self._meter.add(num_failed_requests=1)
                if isinstance(error, TransientError) and self._may_pass(error):
                    self._limiter.hold(error.retry_after_s or 0.0)
                raise
        self._count(reply)
        return reply

    def _may_pass(self, error: BaseException) -> bool:
        return isinstance(error, TransientError) and (error.retry_after_s or 0.0) <= self.config.max_wait_s

    def _wait_s(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        retry_after_s = error.retry_after_s if isinstance(error, TransientError) else None
        # Jitter, so that many clients do not come back together
        return max(self._full_wait_s(state) * random.uniform(0.5, 1.0), retry_after_s or 0.0)

    def _count(self, reply: Completion) -> None:
        prompt_tokens, completion_tokens = reply.prompt_tokens or 0, reply.completion_tokens or 0
        self._meter.add(
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            usd=self.config.usd(prompt_tokens, completion_tokens),
            num_uncounted=int(reply.prompt_tokens is None or reply.completion_tokens is None),
        )


def _second_request(reply: str, reason: str) -> list[Message]:
    return [
        {"role": "assistant", "content": reply[:_MAX_QUOTED_CHARS] or "(no text)"},
        {
            "role": "user",
            "content": f"Your reply could not be read: {reason}. Give your final answer once more, in exactly the form "
            "that was asked for, and nothing after it.",
        },
    ]
