"""Timing of requests: retries, even spacing of requests and tokens, a circuit breaker for silent endpoints."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Protocol

import tenacity

from agents.api.endpoint_config import LONGEST_WAIT_S, MAX_UNUSABLE, EndpointConfig
from agents.api.failures import TransientError

PROBE_S = 30.0
"""Seconds between questions to an endpoint that timed out."""


class Clock(Protocol):
    """The clock used for pacing; tests replace it."""

    def now_s(self) -> float:
        """Returns seconds since a fixed moment; never decreases."""
        ...

    async def sleep(self, duration_s: float) -> None:
        """Returns after `duration_s`."""
        ...


class SystemClock:
    """The real clock."""

    def now_s(self) -> float:
        """Returns seconds of the system's monotonic clock."""
        return time.monotonic()

    async def sleep(self, duration_s: float) -> None:
        """Sleeps."""
        if duration_s > 0:
            await asyncio.sleep(duration_s)


class Retries:
    """Decides when to resend a failed request.

    Args:
        config: Limits of retries.
        clock: Clock for all waits.
    """

    def __init__(self, config: EndpointConfig, clock: Clock) -> None:
        self._config, self._clock = config, clock
        longest_s = min(config.max_wait_s, LONGEST_WAIT_S)
        self._full_wait_s = tenacity.wait_exponential(multiplier=config.first_wait_s, max=longest_s)

    def of_request(
        self, max_attempts: int | None, *, before_sleep: Callable[[tenacity.RetryCallState], None]
    ) -> tenacity.AsyncRetrying:
        """Returns a retrier that repeats one request until it succeeds or fails with a permanent error.

        Args:
            max_attempts: Most attempts; None for no limit.
            before_sleep: Called after each failure that is retried.
        """
        return tenacity.AsyncRetrying(
            stop=_Patience(max_attempts, self._config.max_retry_s, self._clock),
            retry=tenacity.retry_if_exception(self.may_help),
            wait=self._wait_s,
            before_sleep=before_sleep,
            sleep=self._clock.sleep,
            reraise=True,
        )

    def may_help(self, error: BaseException) -> bool:
        """Returns whether an error may resolve itself within the longest allowed wait."""
        return isinstance(error, TransientError) and (error.retry_after_s or 0.0) <= self._config.max_wait_s

    def _wait_s(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        retry_after_s = error.retry_after_s if isinstance(error, TransientError) else None
        # Jitter, so that many clients do not retry at the same time
        return max(self._full_wait_s(state) * random.uniform(0.5, 1.0), retry_after_s or 0.0)


class _Patience(tenacity.stop.stop_base):
    """Decides when to stop retrying one request.

    Args:
        max_attempts: Most attempts; None for no limit except `MAX_UNUSABLE` unusable replies.
        max_retry_s: Longest time from the first failure; None for no limit.
        clock: Clock for the time limit.
    """

    def __init__(self, max_attempts: int | None, max_retry_s: float | None, clock: Clock) -> None:
        self._max_attempts, self._max_retry_s, self._clock = max_attempts, max_retry_s, clock
        self._num_unusable = 0
        self._failed_s: float | None = None

    def __call__(self, state: tenacity.RetryCallState) -> bool:
        """Returns whether the attempt that just failed was the last."""
        if self._max_attempts is not None and state.attempt_number >= self._max_attempts:
            return True
        error = state.outcome.exception() if state.outcome is not None else None
        self._num_unusable += not (isinstance(error, TransientError) and error.is_outage)
        if self._max_attempts is None and self._num_unusable >= MAX_UNUSABLE:
            return True
        if self._failed_s is None:
            self._failed_s = self._clock.now_s()
        return self._max_retry_s is not None and self._clock.now_s() - self._failed_s >= self._max_retry_s


class RateLimiter:
    """Spaces usage evenly: N per minute are at least 60 / N seconds apart.

    Even spacing keeps every minute within the limit; a counter that resets every minute would allow twice the number
    around the reset.

    Args:
        per_minute: Requests, or tokens; None for no limit. `hold` works regardless.
        clock: Clock for all waits.
    """

    def __init__(self, per_minute: float | None, clock: Clock) -> None:
        self._interval_s = 60.0 / per_minute if per_minute else 0.0
        self._clock = clock
        self._next_start_s = clock.now_s()
        self._turn = asyncio.Lock()

    async def acquire(self, amount: float = 1.0) -> None:
        """Waits until one more request may start.

        Args:
            amount: Expected usage.
        """
        async with self._turn:  # a canceled waiter does not delay the others
            while (wait_s := self._next_start_s - self._clock.now_s()) > 0:
                await self._clock.sleep(wait_s)
            self._next_start_s = max(self._next_start_s, self._clock.now_s()) + amount * self._interval_s

    def correct(self, amount: float) -> None:
        """Adjusts for a request that used more or less than expected."""
        self._next_start_s += amount * self._interval_s

    def hold(self, duration_s: float) -> None:
        """Starts nothing for a while: a wait that an endpoint requests applies to all requests."""
        self._next_start_s = max(self._next_start_s, self._clock.now_s() + duration_s)


class Silence:
    """Tracks whether an endpoint times out.

    Args:
        clock: Clock for all waits.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_probe_s: float | None = None
        self._answered_s = float("-inf")

    @property
    def lasts(self) -> bool:
        """Whether the endpoint has answered nothing in time since a question timed out."""
        return self._next_probe_s is not None

    def admits(self) -> bool:
        """Returns whether a question may be sent now; during a silence, one every `PROBE_S` seconds."""
        if self._next_probe_s is None:
            return True
        if self._clock.now_s() < self._next_probe_s:
            return False
        self._next_probe_s = self._clock.now_s() + PROBE_S
        return True

    def begin(self, asked_s: float) -> None:
        """Records a timeout in all attempts; ignored if other questions were answered in the meantime.

        Args:
            asked_s: Time of the question's first request, by the clock.
        """
        if self._answered_s < asked_s:
            self._next_probe_s = self._clock.now_s() + PROBE_S

    def end(self) -> None:
        """Records an answer."""
        self._next_probe_s, self._answered_s = None, self._clock.now_s()
