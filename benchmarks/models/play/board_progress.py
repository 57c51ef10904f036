"""Progress of a board's run, and its display in a terminal."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Self, TextIO

from vlm_envs.statistics.success_rates import repeated_interval


@dataclass(kw_only=True)
class Pace:
    """Speed of an agent since it last started, or since `lazy` last searched.

    Attributes:
        began: Start time, in seconds of the monotonic clock.
        num_ended: Episodes that have ended since then.
    """

    began: float = 0.0
    num_ended: int = 0

    def restart(self) -> None:
        """Restarts the measurement."""
        self.began, self.num_ended = time.monotonic(), 0

    def left_s(self, num_missing: int, now: float) -> float | None:
        """Returns the estimated seconds for `num_missing` episodes; None before one has ended."""
        if not num_missing or not self.num_ended:
            return None if num_missing else 0.0
        return (now - self.began) / self.num_ended * num_missing


@dataclass(kw_only=True)
class Progress:
    """Progress of one agent in one world.

    Attributes:
        agent: Label of the agent.
        world: Label of the world.
        num_wanted: Planned episodes.
        num_done: Completed episodes.
        num_successes: Solved episodes.
        num_errors: Failed attempts in this run.
        num_failed_in_a_row: Failed attempts since the last completed episode.
        tokens: Tokens of all attempts on the board.
        usd: Cost of all attempts on the board; None once a price is unknown.
        has_left: Whether consecutive failures made the agent leave the world.
        is_over: Whether no further episode will be played in this run.
        outcomes: Whether each episode on the board was solved, by cluster, as in the board's row.
        pace: Speed of the agent, shared by all its worlds of this run.
        preparing: Status text before the agent's first episode here; empty once it plays.
    """

    agent: str
    world: str
    num_wanted: int
    num_done: int = 0
    num_successes: int = 0
    num_errors: int = 0
    num_failed_in_a_row: int = 0
    tokens: int = 0
    usd: float | None = 0.0
    has_left: bool = False
    is_over: bool = False
    outcomes: dict[Hashable, list[bool]] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)
    preparing: str = ""

    @property
    def num_missing(self) -> int:
        """Episodes left to play."""
        return 0 if self.is_over else max(0, self.num_wanted - self.num_done)

    @property
    def half_width(self) -> float:
        """Half-width of the success rate's confidence interval, as in the board's row."""
        clusters = self.outcomes.values()
        low, high = repeated_interval([sum(solved) for solved in clusters], [len(solved) for solved in clusters])
        return (high - low) / 2

    def add(self, *, solved: bool, failed: bool, tokens: int, usd: float | None, cluster: Hashable) -> None:
        """Counts an episode; episodes of one cluster are dependent."""
        self.preparing = ""
        self.tokens += tokens
        self.usd = None if usd is None or self.usd is None else self.usd + usd
        self.num_errors += failed
        self.num_failed_in_a_row = self.num_failed_in_a_row + 1 if failed else 0
        self.num_done += not failed
        self.num_successes += solved and not failed
        if not failed:
            self.outcomes.setdefault(cluster, []).append(solved)


_SUMMED = ("num_wanted", "num_done", "num_missing", "num_successes", "num_errors", "tokens")


@dataclass(kw_only=True)
class Total:
    """The sum of several `Progress` objects, with the same field names.

    Attributes:
        label: Label of the agent or of the sum.
        eta_s: Estimated seconds left at the pace of this run; None until an episode has ended.
    """

    label: str
    num_wanted: int
    num_done: int
    num_missing: int
    num_successes: int
    num_errors: int
    tokens: int
    usd: float | None
    eta_s: float | None
    preparing: str

    @classmethod
    def of(cls, label: str, parts: Sequence[Progress], eta_s: float | None) -> Total:
        """Returns the sum of `parts`."""
        sums = {name: sum(getattr(part, name) for part in parts) for name in _SUMMED}
        prices = [part.usd for part in parts if part.usd is not None]
        preparing = next((part.preparing for part in parts if part.preparing), "")
        usd = sum(prices) if len(prices) == len(parts) else None
        return cls(label=label, **sums, usd=usd, eta_s=eta_s, preparing=preparing)


@dataclass(kw_only=True)
class RunProgress:
    """Progress of a run.

    Attributes:
        parts: Progress of each agent in each world.
    """

    parts: list[Progress] = field(default_factory=list)

    def agents(self, now: float | None = None) -> list[Total]:
        """Returns the progress of each agent.

        Args:
            now: Seconds of the monotonic clock; None for the current time.
        """
        now = time.monotonic() if now is None else now
        by_agent: dict[str, list[Progress]] = {}
        for part in self.parts:
            by_agent.setdefault(part.agent, []).append(part)
        return [
            Total.of(label, parts, parts[0].pace.left_s(sum(part.num_missing for part in parts), now))
            for label, parts in by_agent.items()
        ]

    def all(self, now: float | None = None) -> Total:
        """Returns the total progress; agents play concurrently, so the slowest determines the time left."""
        waits = [total.eta_s for total in self.agents(now)]
        known = [wait for wait in waits if wait is not None]
        return Total.of("all agents", self.parts, max(known, default=0.0) if len(known) == len(waits) else None)


_INTERVAL_S = 0.5
_LOG_INTERVAL_S = 30.0


class ProgressDisplay:
    """Shows progress on a stream. Thread-safe.

    Args:
        stream: The output stream.
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
        """Shows progress if enough time has passed since the last update or everything is over."""
        with self._lock:
            now = time.monotonic()
            waited = now - self._shown_at >= (_INTERVAL_S if self._is_terminal else _LOG_INTERVAL_S)
            totals = progress.agents()
            is_over = not any(total.num_missing for total in totals)
            lines = [told(total) for total in totals]
            lines += [told(progress.all(), is_sum=True)] if len(totals) > 1 else []
            if self._is_paused or lines == self._last or not (waited or is_over):
                return
            self._shown_at, self._last = now, lines
            text = "".join(f"{line}\n" for line in lines)
            if self._is_terminal:
                width = shutil.get_terminal_size().columns - 1
                text = self._up() + "".join(f"{line[:width]}\n" for line in lines)
                self._num_lines = len(lines)
            self._stream.write(text)
            self._stream.flush()

    def pause(self, *, is_paused: bool) -> None:
        """Pauses the display, for example while a human plays at the same terminal, or resumes it."""
        self.clear()
        self._is_paused = is_paused

    def clear(self) -> None:
        """Erases the progress lines."""
        with self._lock:
            if self._is_terminal:
                self._stream.write(self._up() or "\r\x1b[J")
                self._stream.flush()
                self._num_lines = 0

    def _up(self) -> str:
        """Returns the escape sequence that moves the cursor to the first progress line and clears from there."""
        return f"\x1b[{self._num_lines}F\x1b[J" if self._num_lines else ""


def told(total: Total, *, is_sum: bool = False) -> str:
    """Returns progress as one line, without tokens and cost where they are unknown.

    Args:
        total: The progress.
        is_sum: Whether it covers several agents, whose success rates cannot be combined.
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
    """Returns a human-readable duration: `"42 s"`, `"12 min"`, `"3.5 h"`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
