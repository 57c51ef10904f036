"""What keeps many questions from waiting, one after another, for an endpoint that answers nobody."""

from __future__ import annotations

import threading

from agents.api.pacing import Clock

PROBE_S = 30.0
"""Seconds between questions to an endpoint that was silent."""


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
