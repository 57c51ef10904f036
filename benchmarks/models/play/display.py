"""Progress for whoever waits: a line for each agent and one for all, written over on terminals, kept in logs."""

from __future__ import annotations

import shutil
import threading
import time
from typing import Self, TextIO

from benchmarks.models.play.progress import RunProgress, Total

_INTERVAL_S = 0.5
_LOG_INTERVAL_S = 30.0


class ProgressDisplay:
    """Shows progress on a stream. Safe for threads.

    Args:
        stream: Where to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._lock = threading.Lock()
        self._shown_at = float("-inf")
        self._num_lines = 0
        self._last: list[str] = []
        self._is_paused = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def show(self, progress: RunProgress) -> None:
        """Shows it if the last time is long enough ago, or everything is over."""
        with self._lock:
            now = time.monotonic()
            waited = now - self._shown_at >= (_INTERVAL_S if self._is_terminal else _LOG_INTERVAL_S)
            totals = progress.agents()
            is_over = not any(total.num_missing for total in totals)
            if self._is_paused or not (waited or is_over):
                return
            shown = totals if self._is_terminal else [total for total in totals if total.num_missing or is_over]
            lines = [told(total) for total in shown]
            lines += [told(progress.all(), is_sum=True)] if len(totals) > 1 else []
            if lines == self._last:
                return
            self._shown_at, self._last = now, lines
            self._write(lines)

    def pause(self, *, is_paused: bool) -> None:
        """Keeps silent, as while a person plays at the same terminal; or begins again."""
        self.clear()
        self._is_paused = is_paused

    def clear(self) -> None:
        """Takes the lines away."""
        with self._lock:
            if self._is_terminal:
                self._stream.write(self._up() or "\r\x1b[J")
                self._stream.flush()
                self._num_lines = 0

    def _write(self, lines: list[str]) -> None:
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(self._up() + "".join(f"{line[:width]}\n" for line in lines))
            self._num_lines = len(lines)
        else:
            self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()

    def _up(self) -> str:
        """Returns what takes the cursor to where the lines began, and clears from there."""
        return f"\x1b[{self._num_lines}F\x1b[J" if self._num_lines else ""


def told(total: Total, *, is_sum: bool = False) -> str:
    """Returns how far somebody is, in a line: no tokens where nobody counts them, no cost where it is not known.

    Args:
        total: How far.
        is_sum: Whether it is of several agents, whose successes have no common meaning.
    """
    parts = [f"{total.label}: {total.num_done}/{total.num_wanted}"]
    if total.num_done and not is_sum:
        parts.append(f"success {total.num_successes / total.num_done:.2f}")
    if total.num_errors:
        parts.append(f"{total.num_errors} error{'s' * (total.num_errors > 1)}")
    if total.tokens:
        parts.append(f"{total.tokens:,} tokens")
    if total.usd:
        parts.append(f"{total.usd:.2f} USD")
    if total.num_missing and total.eta_s is not None:
        parts.append(f"{duration(total.eta_s)} left")
    if total.preparing:
        parts.append(total.preparing)
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Returns a time for people: `"42 s"`, `"12 min"`, `"3.5 h"`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
