"""How far a board is: a line for each agent while it plays, on terminals one that is written over."""

from __future__ import annotations

import threading
import time
from typing import Self, TextIO

from benchmarks.models.run import Progress

_INTERVAL_S = 0.5
_QUIET_INTERVAL_S = 30.0


class ProgressLine:
    """Shows progress on a stream; anything but a terminal gets a line now and then.

    Args:
        stream: Where to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._lock = threading.Lock()
        self._latest: dict[str, Progress] = {}
        self._shown_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def show(self, progress: Progress) -> None:
        """Takes note, and shows it if the last time is long enough ago."""
        with self._lock:
            self._latest[progress.agent] = progress
            is_over = progress.num_done >= progress.num_wanted
            now = time.monotonic()
            if now - self._shown_at < (_INTERVAL_S if self._is_terminal else _QUIET_INTERVAL_S) and not is_over:
                return
            self._shown_at = now
            if self._is_terminal:
                told = "  |  ".join(_told(each) for each in self._latest.values() if each.num_done < each.num_wanted)
                self._stream.write(f"\r\x1b[K{told}")
            else:
                self._stream.write(f"{_told(progress)}\n")
            self._stream.flush()

    def clear(self) -> None:
        """Takes the line away."""
        if self._is_terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _told(progress: Progress) -> str:
    success = f" success {progress.num_successes / progress.num_done:.2f}" if progress.num_done else ""
    errors = f" errors {progress.num_errors}" if progress.num_errors else ""
    tokens = f" {progress.tokens:,} tokens" if progress.tokens else ""
    usd = f" {progress.usd:.2f} USD" if progress.usd else ""
    eta = f" {progress.eta_s / 60:.0f} min left" if progress.eta_s is not None and progress.eta_s >= 60 else ""
    where = f"{progress.agent} {progress.world} {progress.num_done}/{progress.num_wanted}"
    return f"{where}{success}{errors}{tokens}{usd}{eta}"
