"""When the next request may start: a minimum distance between requests, and waits between attempts."""

import random
import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Time as far as pacing needs it; tests bring their own."""

    def now_s(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...

    def sleep(self, duration_s: float) -> None:
        """Return after `duration_s`, or sooner if there is nothing to wait for any more."""
        ...


class InterruptibleClock:
    """The real clock; once `interrupted` is set nothing sleeps any longer."""

    def __init__(self, interrupted: threading.Event) -> None:
        """Sleep no longer than until `interrupted`."""
        self._interrupted = interrupted

    def now_s(self) -> float:
        """Seconds of the system's monotonic clock."""
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        """Sleep, unless interrupted."""
        if duration_s > 0:
            self._interrupted.wait(duration_s)


class RateLimiter:
    """Spaces requests evenly, over all threads: N a minute start at least 60 / N seconds apart.

    Even spacing keeps any minute within the limit, where a counter that empties every minute would let twice the
    number pass around its turn.
    """

    def __init__(self, requests_per_minute: float | None, clock: Clock) -> None:
        """Let the first request pass at once.

        Args:
            requests_per_minute: None for no limit; `hold` works all the same.
            clock: the time.
        """
        self._interval_s = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._clock = clock
        self._lock = threading.Lock()
        self._next_start_s = clock.now_s()

    def acquire(self) -> None:
        """Return when one more request may start."""
        with self._lock:
            now_s = self._clock.now_s()
            start_s = max(now_s, self._next_start_s)
            self._next_start_s = start_s + self._interval_s
        self._clock.sleep(start_s - now_s)

    def hold(self, duration_s: float) -> None:
        """Start nothing for a while: what an endpoint asks of one request it means for all."""
        with self._lock:
            self._next_start_s = max(self._next_start_s, self._clock.now_s() + duration_s)


class Backoff:
    """Waits that double from attempt to attempt, with jitter, so that many clients do not come back together."""

    def __init__(self, first_wait_s: float, max_wait_s: float, rng: random.Random | None = None) -> None:
        """Choose the bounds.

        Args:
            first_wait_s: longest wait after the first attempt.
            max_wait_s: longest wait after any.
            rng: source of the jitter; one of its own by default, unlike in any other process.
        """
        self._first_wait_s, self._max_wait_s = first_wait_s, max_wait_s
        self._rng = rng or random.Random()

    def wait_s(self, num_attempts: int, retry_after_s: float | None) -> float:
        """The wait after a number of failed attempts, at least as long as the endpoint asked for.

        Args:
            num_attempts: failed so far, at least 1.
            retry_after_s: what the endpoint asked for, if it did.

        Returns:
            Between half the full wait and the full one, in seconds, or `retry_after_s` if that is longer.
        """
        full_s = min(self._max_wait_s, self._first_wait_s * 2.0 ** min(num_attempts - 1, 60))
        return max(full_s * self._rng.uniform(0.5, 1.0), retry_after_s or 0.0)
