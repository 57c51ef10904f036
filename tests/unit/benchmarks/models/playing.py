"""Boards that tests play: commands in processes of their own, which can be killed, and agents that go wrong."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from agents.agent import Response
from agents.oracle import OracleAgent
from benchmarks.models.board.board import Board, EpisodeKey
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.play.contestants import Contestant
from benchmarks.models.play.playing import BoardRun, RunPlan

LAKE = "VLM/FrozenLake-v0"
SOKOBAN = "VLM/Sokoban-v0"
ALONE = "--no-references"

_WAIT_S = 60.0
_CONTEXT = multiprocessing.get_context("forkserver")


def plan(**changes: Any) -> RunPlan:
    """Returns a plan of a few levels of FrozenLake."""
    return RunPlan(**{"worlds": [WorldSpec.parse(LAKE)], "episodes": 4, **changes})


def contestant(agent: Any, label: str = "somebody", **changes: Any) -> Contestant:
    """Returns an agent as one who plays."""
    return Contestant(**{"label": label, "identity": {"name": label}, "agent": agent, "num_parallel": 2, **changes})


def play(out: Path, agents: Sequence[Contestant], **changes: Any) -> BoardRun:
    """Returns a run that is over."""
    run = BoardRun(plan(**changes), agents, out)
    run.run()
    return run


def lines_of(out: Path) -> list[dict[str, Any]]:
    """Returns what stands on a board, line by line."""
    return [json.loads(line) for line in (out / "episodes.jsonl").read_bytes().split(b"\n") if line]


_OF_THE_CLOCK = ("wall_s", "seconds", "digest", "turn_digests", "after")


def without_times(line: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a line without what depends on when and how fast it was played."""
    told = {name: value for name, value in line.items() if name not in _OF_THE_CLOCK}
    turns = [{**turn, "usage": {**turn["usage"], "seconds": 0}} for turn in line.get("turns", ())]
    return {**told, "turns": turns}


def played(out: Path) -> dict[EpisodeKey, dict[str, Any]]:
    """Returns the episodes of a board by their names, without what depends on the clock."""
    return {EpisodeKey.of(episode): without_times(episode) for episode in Board(out).episodes()}


class Failing(OracleAgent):
    """An oracle whose provider fails on some levels until it is repaired.

    Args:
        fails: Told how many responses came before, whether the next one fails.
    """

    def __init__(self, fails: Callable[[int], bool]) -> None:
        super().__init__()
        self.fails, self.num_asked = fails, 0

    def respond(self, rows: Sequence[int], observations: Sequence[Any]) -> list[Response]:
        """Returns responses, and failures among them."""
        responses = super().respond(rows, observations)
        for index in range(len(responses)):
            if self.fails(self.num_asked):
                responses[index] = Response(text="", stop_reason="error", error="HTTP 500: out for lunch")
            self.num_asked += 1
        return responses


class Counting(OracleAgent):
    """An oracle that counts its responses, and takes time for each where it is told to."""

    def __init__(self, *, wait_s: float = 0.0) -> None:
        super().__init__()
        self.wait_s, self.num_asked = wait_s, 0

    def respond(self, rows: Sequence[int], observations: Sequence[Any]) -> list[Response]:
        """Returns responses."""
        self.num_asked += len(rows)
        time.sleep(self.wait_s)
        return super().respond(rows, observations)


class Stubborn:
    """An agent that never answers, and does not listen."""

    policy_version = -1

    def start(self, worlds: Any) -> None:
        """Does nothing."""

    def respond(self, rows: Sequence[int], observations: Sequence[Any]) -> list[Response]:
        """Never returns."""
        print("asleep", flush=True)
        while True:
            time.sleep(1.0)


def little_room() -> None:
    """Has the system take no more than so many bytes of any file from this process."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


class Command:
    """A command in a process of its own, whose words lie in files.

    Args:
        words: The command line after `python -m benchmarks`.
        directory: Where `stdout` and `stderr` are written to.
        environment: Set in the process.
        prepare: Called in the process before the command.
    """

    def __init__(
        self,
        words: Sequence[str],
        directory: Path,
        environment: Mapping[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.process: BaseProcess = _CONTEXT.Process(
            target=_run, args=(list(words), directory, dict(environment or {}), prepare)
        )
        self.process.start()

    @property
    def out(self) -> str:
        """What it printed."""
        return self._said("stdout")

    @property
    def err(self) -> str:
        """What it complained of."""
        return self._said("stderr")

    def _said(self, name: str) -> str:
        path = self.directory / name
        return path.read_text() if path.exists() else ""

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self) -> int | None:
        """Returns its exit status, the negative signal where one killed it."""
        self.process.join(_WAIT_S)
        assert self.process.exitcode is not None, "the command does not end"
        return self.process.exitcode


@contextmanager
def command(words: Sequence[str], directory: Path, **settings: Any) -> Iterator[Command]:
    """Yields a command that is under way, and sees to it that it ends."""
    started = Command(words, directory, **settings)
    try:
        yield started
    finally:
        if started.process.is_alive():
            started.process.kill()
        started.process.join(_WAIT_S)


def until(holds: Callable[[], bool]) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + _WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.005)


def _run(words: list[str], directory: Path, environment: dict[str, str], prepare: Callable[[], None] | None) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdout, sys.stderr = (os.fdopen(os.dup(number), "w", buffering=1) for number in (1, 2))
    # A suite in the background hands on that Ctrl-C is ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(environment)
    if prepare is not None:
        prepare()
    from benchmarks.__main__ import main

    sys.exit(main(words))
