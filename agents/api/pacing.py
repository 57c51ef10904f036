"""When the next request may start: even spacing of requests and tokens, and a circuit breaker for silent endpoints."""

from __future__ import annotations

import threading
import time
from typing import Protocol

PROBE_S = 30.0
"""Seconds between questions to an endpoint that was silent."""


class Clock(Protocol):
    """Time as far as pacing needs it; tests bring their own."""

    def now_s(self) -> float:
        """Returns seconds since some fixed moment; never goes back."""
        ...

    def sleep(self, duration_s: float) -> None:
        """Returns after `duration_s`, or sooner if there is nothing to wait for any more."""
        ...


class InterruptibleClock:
    """The real clock; once `interrupted` is set nothing sleeps any longer."""

    def __init__(self, interrupted: threading.Event) -> None:
        self._interrupted = interrupted

    def now_s(self) -> float:
        """Returns seconds of the system's monotonic clock."""
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        """Sleeps, unless interrupted."""
        if duration_s > 0:
            self._interrupted.wait(duration_s)


class RateLimiter:
    """Spaces what a client uses evenly, over all threads: N a minute come at least 60 / N seconds apart.

    Even spacing keeps any minute within the limit, where a counter that empties every minute would let twice the
    number pass around its turn.

    Args:
        per_minute: Requests, or tokens; None for no limit. `hold` works all the same.
        clock: The time.
    """

    def __init__(self, per_minute: float | None, clock: Clock) -> None:
        self._interval_s = 60.0 / per_minute if per_minute else 0.0
        self._clock = clock
        self._lock = threading.Lock()
        self._next_start_s = clock.now_s()

    def acquire(self, amount: float = 1.0) -> None:
        """Returns when one more request may start.

        Args:
            amount: How much it will use, as far as that is known.
        """
        with self._lock:
            now_s = self._clock.now_s()
            start_s = max(now_s, self._next_start_s)
            self._next_start_s = start_s + amount * self._interval_s
        self._clock.sleep(start_s - now_s)

    def correct(self, amount: float) -> None:
        """Takes into account that a request used so much more, or less, than it was let in with."""
        with self._lock:
            self._next_start_s += amount * self._interval_s

    def hold(self, duration_s: float) -> None:
        """Starts nothing for a while: what an endpoint asks of one request it means for all."""
        with self._lock:
            self._next_start_s = max(self._next_start_s, self._clock.now_s() + duration_s)


class Silence:
    """Whether an endpoint answers in time, as far as is known. Safe for threads.

    Args:
        clock: What time is measured by.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._next_probe_s: float | None = None
        self._answered_s = float("-inf")

    @property
    def lasts(self) -> bool:
        """Whether nobody was answered in time since somebody waited in vain."""
        return self._next_probe_s is not None

    def admits(self) -> bool:
        """Returns whether a question may be asked now: any, but while it lasts one every `PROBE_S` seconds."""
        with self._lock:
            if self._next_probe_s is None:
                return True
            if self._clock.now_s() < self._next_probe_s:
                return False
            self._next_probe_s = self._clock.now_s() + PROBE_S
            return True

    def begin(self, asked_s: float) -> None:
        """Takes note that somebody waited in vain, however often; it is no silence if others were answered meanwhile.

        Args:
            asked_s: When the question was asked first, by the clock.
        """
        with self._lock:
            if self._answered_s < asked_s:
                self._next_probe_s = self._clock.now_s() + PROBE_S

    def end(self) -> None:
        """Takes note of an answer."""
        with self._lock:
            self._next_probe_s, self._answered_s = None, self._clock.now_s()
