"""A clock that no test has to wait for."""


class FakeClock:
    """Time passes only by sleeping, and is then over at once."""

    def __init__(self):
        self.slept = []
        self._now_s = 1000.0

    def now_s(self):
        return self._now_s

    async def sleep(self, duration_s):
        self.slept.append(duration_s)
        self.pass_by(duration_s)

    def pass_by(self, duration_s):
        self._now_s += max(0.0, duration_s)
