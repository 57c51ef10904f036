"""The progress of a board's games, and how a terminal shows it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Self, TextIO

from vlm_envs.statistics.success_rates import repeated_interval


@dataclass(kw_only=True)
class Pace:
    """How fast an agent plays, measured over whole batches: the episodes of a batch may all end together.

    An agent's first batch is not measured, since it also loads the model, nor one before which `lazy` searches.
    """

    _batch_size: int = 1
    _began: float = 0.0
    _num_ended: int = 0
    _is_measured: bool = False
    _seconds: float = 0.0
    _num_episodes: int = 0

    def start(self, batch_size: int, now: float) -> None:
        """Begins the batches of a world."""
        self._batch_size, self._began, self._num_ended = batch_size, now, 0

    def prepare(self) -> None:
        """Leaves the present batch out, as the agent does something else before it plays."""
        self._is_measured = False

    def count(self, now: float) -> None:
        """Counts an episode that has ended."""
        self._num_ended += 1
        if self._num_ended == self._batch_size:
            self.finish(now)

    def finish(self, now: float) -> None:
        """Ends a batch."""
        if self._is_measured:
            self._seconds, self._num_episodes = self._seconds + now - self._began, self._num_episodes + self._num_ended
        self._is_measured = self._is_measured or self._num_ended > 0
        self._began, self._num_ended = now, 0

    def left_s(self, num_missing: int, now: float) -> float | None:
        """Returns the seconds that further episodes take; None before a batch was measured."""
        if not num_missing or not self._num_episodes:
            return None if num_missing else 0.0
        since = now - self._began if self._is_measured else 0.0
        return max(0.0, self._seconds / self._num_episodes * (num_missing + self._num_ended) - since)


@dataclass(kw_only=True)
class Progress:
    """How far one agent is in one world.

    Attributes:
        agent: What the board calls it.
        world: What the board calls it.
        num_wanted: Episodes that there shall be.
        num_done: Of these, there.
        num_successes: Of these, solved.
        num_errors: Tries that a failure ended, in this run.
        num_failed_in_a_row: Of these, since an episode last came to its end.
        tokens: Of all tries on the board.
        usd: Of all tries on the board; None once a price is not known.
        has_left: Whether failures in a row made the agent leave the world.
        is_over: Whether no more is going to be played in this run.
        outcomes: Whether each episode on the board was solved, by cluster, as the board's row counts them.
        pace: Of the agent, in all its worlds of this run.
        preparing: What the agent does before its first episode here, for people; empty once it plays.
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
        """Episodes that are still going to be played."""
        return 0 if self.is_over else max(0, self.num_wanted - self.num_done)

    @property
    def half_width(self) -> float:
        """Half the width of the success rate's interval, the same as that of the board's row."""
        clusters = self.outcomes.values()
        low, high = repeated_interval([sum(solved) for solved in clusters], [len(solved) for solved in clusters])
        return (high - low) / 2

    def add(self, *, solved: bool, failed: bool, tokens: int, usd: float | None, cluster: Hashable) -> None:
        """Counts an episode; those of one cluster depend on each other."""
        self.preparing = ""
        self.tokens += tokens
        self.usd = None if usd is None or self.usd is None else self.usd + usd
        self.num_errors += failed
        self.num_failed_in_a_row = self.num_failed_in_a_row + 1 if failed else 0
        self.num_done += not failed
        self.num_successes += solved and not failed
        if not failed:
            self.outcomes.setdefault(cluster, []).append(solved)


@dataclass(kw_only=True)
class Total:
    """Several of them, as one.

    Attributes:
        label: Whose.
        num_wanted: Episodes that there shall be.
        num_done: Of these, there.
        num_missing: Of the others, those that are still going to be played.
        num_successes: Solved.
        num_errors: Tries that a failure ended, in this run.
        tokens: Of all tries on the board.
        usd: Of all tries on the board; None once a price is not known.
        eta_s: Seconds until it is through, at the pace of this run; None until a batch after the first has ended.
        preparing: What an agent does before its next episode; empty if it plays.
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
    preparing: str = ""


@dataclass(kw_only=True)
class RunProgress:
    """How far a run is.

    Attributes:
        parts: Each agent in each world.
    """

    parts: list[Progress] = field(default_factory=list)

    def agents(self, now: float | None = None) -> list[Total]:
        """Returns how far each agent is.

        Args:
            now: Seconds of the monotonic clock; None for the present.
        """
        now = time.monotonic() if now is None else now
        labels = dict.fromkeys(part.agent for part in self.parts)
        by_agent = [(label, [part for part in self.parts if part.agent == label]) for label in labels]
        totals = [
            _total(label, parts, parts[0].pace.left_s(sum(part.num_missing for part in parts), now))
            for label, parts in by_agent
        ]
        for total, (_, parts) in zip(totals, by_agent, strict=True):
            total.preparing = next((part.preparing for part in parts if part.preparing), "")
        return totals

    def all(self, now: float | None = None) -> Total:
        """Returns how far all of them are; they play side by side, so that the slowest one's time counts."""
        waits = [total.eta_s for total in self.agents(now) if total.num_missing]
        known = [wait for wait in waits if wait is not None]
        return _total("all agents", self.parts, max(known, default=0.0) if len(known) == len(waits) else None)


def _total(label: str, parts: Iterable[Progress], eta_s: float | None) -> Total:
    parts = list(parts)
    prices = [part.usd for part in parts]
    return Total(
        label=label,
        num_wanted=sum(part.num_wanted for part in parts),
        num_done=sum(part.num_done for part in parts),
        num_missing=sum(part.num_missing for part in parts),
        num_successes=sum(part.num_successes for part in parts),
        num_errors=sum(part.num_errors for part in parts),
        tokens=sum(part.tokens for part in parts),
        usd=None if None in prices else sum(price for price in prices if price is not None),
        eta_s=eta_s,
    )


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
