"""A clock that no test has to wait for."""

import threading


class FakeClock:
    """Time passes only by sleeping, and is then over at once."""

    def __init__(self):
        self.slept = []
        self._now_s = 1000.0
        self._lock = threading.Lock()

    def now_s(self):
        with self._lock:
            return self._now_s

    def sleep(self, duration_s):
        with self._lock:
            self.slept.append(duration_s)
            self._now_s += max(0.0, duration_s)
