"""`python -m benchmarks trainer`: our trainer beside a peer's on equal work, in processes that take turns."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from benchmarks.speed import machine
from benchmarks.trainers.measured import Measured, Medians
from benchmarks.trainers.work import Work
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.validation import fields_named, require_at_least, require_choice

MODES = ("in_step", "in_step_threads", "async", "async_threads", "beside_update", "beside_update_threads")
"""Ours: turns in step, each episode on its own, or in step beside the update before."""
MAX_DIFFERENCE = 1e-4
"""Of log-probabilities of one frozen trajectory."""
PACKAGES = ("trl", "datasets", "torchvision")
TIMEOUT_S = 1800.0
"""Of one process."""


class UnequalWorkError(VLMEnvsError):
    """The two trainers do not see the same trajectory alike, so that their times say nothing."""


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """Compare whole training iterations with a peer's on equal work, GRPO on FrozenLake with the shipped tiny model.

    Both sides have the same weights, levels, group size, turns and tokens a turn, pictures, optimiser, micro-batches
    and threads; no reference and no critic. Each process is fresh and its first iteration is not counted. The defaults
    take about half an hour; `--quick` two minutes.

    Attributes:
        peer: With whom.
        modes: Which of ours: in_step, async, or beside_update, which is one update off-policy and takes a thread of
            torch more where there is but one; with `_threads` behind it, each world has a thread. By default in_step
            and async, with threads where worlds take their time.
        num_groups: Start states per iteration.
        group_size: Siblings per start state.
        turns: Of each episode.
        tokens: Of each response, all sampled: the end of a turn never is.
        world_ms: How long worlds take to answer; each of these is a case.
        judge_ms: How long a judge takes for an episode; likewise.
        judge_parallel: Questions to the judge that may be under way at a time, on both sides.
        micro_batch_size: Rows per forward and backward pass, on both sides.
        num_threads: CPU threads of torch.
        num_iterations: Counted ones of each process.
        repeats: Processes of each side.
        model: The checkpoint: a Qwen3-VL, as its chat template is written.
        quick: Whether to make a smoke run; its numbers mean little.
        json: Also write everything that was measured to this file.
    """

    peer: Literal["trl"] = "trl"
    modes: tuple[str, ...] = ()
    num_groups: int = 32
    group_size: int = 4
    turns: int = 3
    tokens: int = 50
    world_ms: tuple[float, ...] = (0.0, 50.0)
    judge_ms: tuple[float, ...] = (0.0, 200.0)
    judge_parallel: int = 8
    micro_batch_size: int = 8
    num_threads: int = 1
    num_iterations: int = 2
    repeats: int = 3
    model: str = Work.model
    quick: bool = False
    json: Path | None = None

    def __post_init__(self) -> None:
        require_at_least(self, 1, "repeats")
        for mode in self.modes:
            require_choice("--modes", mode, MODES)
        with fields_named({Work: {each.name: f"--{each.name.replace('_', '-')}" for each in fields(Work)}}):
            self.cases()  # each checks itself

    def cases(self) -> list[Work]:
        """Returns the work of each case."""
        work = Work(
            num_groups=self.num_groups,
            group_size=self.group_size,
            turns=self.turns,
            tokens=self.tokens,
            judge_parallel=self.judge_parallel,
            micro_batch_size=self.micro_batch_size,
            num_iterations=self.num_iterations,
            num_threads=self.num_threads,
            model=self.model,
        )
        return [replace(work, world_ms=w, judge_ms=j) for w, j in itertools.product(self.world_ms, self.judge_ms)]

    def modes_for(self, work: Work) -> tuple[str, ...]:
        """Returns which of ours are measured on a case."""
        return self.modes or (("in_step_threads", "async_threads") if work.world_ms else ("in_step", "async"))

    def as_quick(self) -> TrainerOptions:
        """Returns a smoke run."""
        smaller: dict[str, Any] = {"num_groups": 2, "group_size": 2, "micro_batch_size": 2, "tokens": 8}
        return replace(self, **smaller, world_ms=(0.0, 5.0), judge_ms=(0.0,), num_iterations=1, repeats=1)


@dataclass(kw_only=True)
class CaseResult:
    """What a case was measured at.

    Attributes:
        work: What was done.
        runs: Processes by the trainer's name.
    """

    work: Work
    runs: dict[str, list[Measured]] = field(default_factory=dict)

    @property
    def medians(self) -> dict[str, Medians]:
        """Medians by the trainer's name."""
        return {name: Medians.of(runs) for name, runs in self.runs.items()}


Runner = Callable[[str, Work], dict[str, Any]]
"""Runs a peer, a mode of ours or the check of likeness in a process of its own; see `benchmarks.trainers.run_one`."""


def require_peer(peer: str) -> None:
    """Raises `ConfigError` if a peer cannot be imported."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"The peer {peer!r} needs {', '.join(missing)}, which are not installed here. They belong into an "
            "environment of their own: make .venv-peers/installed, then .venv-peers/bin/python -m benchmarks trainer."
        )


def in_own_process(what: str, work: Work) -> dict[str, Any]:
    """Returns what a process of `benchmarks.trainers.run_one` prints.

    Raises:
        ConfigError: If it fails, and what it said last is told; or if it takes longer than `TIMEOUT_S`.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.trainers.run_one", what, work.to_json()],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "OMP_NUM_THREADS": str(work.num_threads)},
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            f"The process of {what!r} took longer than {TIMEOUT_S / 60:g} minutes and was ended. Ask for less work: "
            "--num-groups, --num-iterations."
        ) from error
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise ConfigError(f"The process of {what!r} ended with exit code {done.returncode}. It said: {said}")
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def require_same(peer: str, likeness: Mapping[str, Any]) -> None:
    """Raises `UnequalWorkError` if a frozen trajectory has other log-probabilities in the peer's trainer."""
    difference = likeness["max_difference"]
    if not difference <= MAX_DIFFERENCE:
        raise UnequalWorkError(
            f"The same trajectory has log-probabilities that differ by {difference:.1e} between ours and {peer}'s "
            f"trainer; more than {MAX_DIFFERENCE:g} is other work, and nothing is measured."
        )


def compare(
    options: TrainerOptions, results: Sequence[CaseResult], run: Runner = in_own_process
) -> Iterator[tuple[str, CaseResult]]:
    """Measures all cases, process by process in turns, so that a machine that slows down slows all of them.

    Args:
        options: What is asked for.
        results: One for each of its cases, to which the processes are added.
        run: Runs a process.

    Yields:
        After each process, the trainer's name and the case.
    """
    for repeat in range(options.repeats):
        for result in results:
            names = [options.peer, *options.modes_for(result.work)]
            for name in names if repeat % 2 == 0 else reversed(names):
                measured = Measured.from_dict(run(name, result.work))
                result.runs.setdefault(name, []).append(measured)
                yield name, result


def report(options: TrainerOptions, likeness: Mapping[str, Any], results: Sequence[CaseResult]) -> dict[str, Any]:
    """Returns everything as plain data."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES if importlib.util.find_spec(name)}
    cases = [
        {
            "work": asdict(result.work),
            "medians": {name: asdict(medians) for name, medians in result.medians.items()},
            "runs": {name: [run.to_dict() for run in runs] for name, runs in result.runs.items()},
        }
        for result in results
    ]
    return {
        "machine": machine(),
        "peer": {"name": options.peer, "versions": versions},
        "same": likeness,
        "cases": cases,
    }
