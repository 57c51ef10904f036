"""`python -m benchmarks trainer`: compares our trainer with a peer's on equal work, in alternating processes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks.speed.speed_benchmarks import machine
from vlm_envs.errors import ConfigError
from vlm_envs.splits import split_seeds
from vlm_envs.validation import require, require_at_least, require_choice

FIRST_SEED = 100_000_000
"""First seed of the levels, as for a run with seed 0 (`training.loop.collect`); each iteration has other levels."""

SAME = "same"
TRL = "trl"
"""Tasks of a comparison process, apart from the modes of our side."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """Iterations of GRPO with fixed group size, number of turns, and response length, and one optimizer step each.

    Attributes:
        num_groups: Start states per iteration.
        group_size: Episodes per start state, at least 2.
        turns: Turns per episode.
        tokens: Tokens per response.
        world_ms: Delay added to each step of a world.
        judge_ms: Delay of a judge per episode.
        judge_parallel: Concurrent questions to the judge.
        micro_batch_size: Rows per forward and backward pass; divides the number of episodes.
        learning_rate: Learning rate of AdamW.
        num_iterations: Measured iterations, after one more that warms up.
        num_threads: CPU threads of torch.
        model: The checkpoint, as a directory or the name of a shipped one.
    """

    num_groups: int = 32
    group_size: int = 4
    turns: int = 3
    tokens: int = 50
    world_ms: float = 0.0
    judge_ms: float = 0.0
    judge_parallel: int = 8
    micro_batch_size: int = 8
    learning_rate: float = 1e-4
    num_iterations: int = 3
    num_threads: int = 1
    model: str = "training/recipes/checkpoints/frozenlake_tiny"

    @property
    def num_episodes(self) -> int:
        """Episodes per iteration."""
        return self.num_groups * self.group_size

    def levels(self, iteration: int) -> list[int]:
        """Returns the seed of each group of an iteration."""
        return list(split_seeds("train", self.num_groups, start=FIRST_SEED + iteration * self.num_groups))

    @property
    def world_kwargs(self) -> dict[str, Any]:
        """Arguments of the world (`benchmarks.trainers.late_world.LateLake`), the same on both sides."""
        settings = {"prompt_format": "grounding_worldmodeling", "representation": "structured", "prompt_example": False}
        return {**settings, "max_turns": self.turns, "answer_ms": self.world_ms}


PARTS = ("prefill", "decode", "encode", "worlds", "judges", "passes", "update", "rest")
"""Parts of an iteration: model passes over prompts; sampling of tokens; conversion of observations to tokens and
patches; waiting for worlds and for judges; passes between rollout and update; gradients and optimizer step; rest."""
ROLLOUT = ("prefill", "decode", "encode", "worlds")


@dataclass(frozen=True, kw_only=True)
class Lap:
    """The times and counts of one iteration.

    Attributes:
        seconds: Seconds by part.
        counts: Tokens and images processed by the model; see `benchmarks.trainers.our_trainer.ModelCounts`.
    """

    seconds: Mapping[str, float]
    counts: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The iterations of one process.

    Attributes:
        laps: The iterations.
        peak_mib: Peak resident memory of the process.
    """

    laps: Sequence[Lap]
    peak_mib: float

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Measured:
        """Rebuilds a result from the plain data of `asdict`."""
        return cls(laps=[Lap(**lap) for lap in data["laps"]], peak_mib=data["peak_mib"])


@dataclass(frozen=True, kw_only=True)
class Medians:
    """Medians over all processes of one trainer in one case.

    Attributes:
        iteration_s: Median duration of an iteration, in seconds.
        parts_s: Median durations by part, which need not add up to `iteration_s`.
        counts: Median counts by name.
        peak_mib: Median over processes.
    """

    iteration_s: float
    parts_s: Mapping[str, float]
    counts: Mapping[str, float]
    peak_mib: float

    @classmethod
    def of(cls, runs: Sequence[Measured]) -> Medians:
        """Returns the medians over all iterations."""
        laps = [lap for run in runs for lap in run.laps]
        counts = sorted({name for lap in laps for name in lap.counts})
        return cls(
            iteration_s=statistics.median(sum(lap.seconds.values()) for lap in laps),
            parts_s={part: statistics.median(lap.seconds.get(part, 0.0) for lap in laps) for part in PARTS},
            counts={name: statistics.median(lap.counts.get(name, 0) for lap in laps) for name in counts},
            peak_mib=statistics.median(run.peak_mib for run in runs),
        )

    @property
    def rollout_s(self) -> float:
        """Seconds of the rollout, including worlds."""
        return sum(self.parts_s[part] for part in ROLLOUT)


def peak_mib() -> float:
    """Returns the peak resident memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Mode(NamedTuple):
    """A rollout mode of our trainer.

    Attributes:
        rollout: See `RunConfig`.
        workers: See `WorldSpec`.
        staleness: See `RunConfig`.
    """

    rollout: Literal["barrier", "async"]
    workers: str
    staleness: int = 0


MODES = {
    "in_step": Mode("barrier", "serial"),
    "in_step_threads": Mode("barrier", "thread"),
    "async": Mode("async", "serial"),
    "async_threads": Mode("async", "thread"),
    "beside_update": Mode("barrier", "serial", staleness=1),
    "beside_update_threads": Mode("barrier", "thread", staleness=1),
}
"""Modes by name; with threads, each world has one; with staleness, the next batch is sampled during the update."""

MAX_DIFFERENCE = 1e-4
"""Maximum difference of log-probabilities of one frozen trajectory."""
PACKAGES = ("trl", "datasets", "torchvision")
TIMEOUT_S = 1800.0
"""Time limit of one process."""
_QUICK = {"num_groups": 2, "group_size": 2, "micro_batch_size": 2, "tokens": 8, "num_iterations": 1}


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """Compare training iterations with a peer's on equal work: GRPO on FrozenLake with the shipped tiny model.

    Both sides have equal weights, levels, group sizes, turns and tokens per turn, images, optimizers, micro-batches,
    and threads, and no reference or critic. Each process is fresh, and its first iteration is not counted. The defaults
    take about half an hour; `--quick` takes two minutes.

    Attributes:
        peer: The peer to compare with.
        modes: Our modes: in_step, async, or beside_update, which is one update off-policy and uses one more torch
            thread if there is only one; with the suffix `_threads`, each world has a thread. By default in_step and
            async, with threads for worlds that have a delay.
        world_ms: Delays of worlds; each is a separate case.
        judge_ms: Delays of a judge per episode; each is a separate case.
        num_threads: CPU threads of torch.
        num_iterations: Measured iterations of each process.
        repeats: Processes per side.
        quick: Run a smoke test whose numbers mean little.
        json: Also write all measurements to this file.
    """

    peer: Literal["trl"] = "trl"
    modes: tuple[str, ...] = ()
    world_ms: tuple[float, ...] = (0.0, 50.0)
    judge_ms: tuple[float, ...] = (0.0, 200.0)
    num_threads: int = 1
    num_iterations: int = 2
    repeats: int = 3
    quick: bool = False
    json: Path | None = None

    def __post_init__(self) -> None:
        require_at_least(self, 1, "num_threads", "num_iterations", "repeats")
        for mode in self.modes:
            require_choice("--modes", mode, MODES)
        for delays in (self.world_ms, self.judge_ms):
            require(min(delays, default=0.0) >= 0, f"Delays must be at least 0 ms; got {delays}.")

    def cases(self) -> list[Work]:
        """Returns the work of each case; a smoke test's is small."""
        size: dict[str, Any] = _QUICK if self.quick else {"num_iterations": self.num_iterations}
        delays = itertools.product(self.world_ms, self.judge_ms)
        return [Work(world_ms=w, judge_ms=j, num_threads=self.num_threads, **size) for w, j in delays]

    def modes_for(self, work: Work) -> tuple[str, ...]:
        """Returns our modes to measure in a case."""
        return self.modes or (("in_step_threads", "async_threads") if work.world_ms else ("in_step", "async"))


@dataclass(kw_only=True)
class CaseResult:
    """The measurements of a case.

    Attributes:
        work: The work of the case.
        runs: Processes by trainer name.
    """

    work: Work
    runs: dict[str, list[Measured]] = field(default_factory=dict)

    @property
    def medians(self) -> dict[str, Medians]:
        """Medians by trainer name."""
        return {name: Medians.of(runs) for name, runs in self.runs.items()}


Runner = Callable[[str, Work], dict[str, Any]]
"""Runs a peer, one of our modes, or the comparison of log-probabilities in a subprocess (`peer_process`)."""


def require_peer(peer: str) -> None:
    """Raises `ConfigError` if a peer cannot be imported."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"The peer {peer!r} needs {', '.join(missing)}, which are not installed here. They need a separate "
            "environment: make .venv-peers/installed, then .venv-peers/bin/python -m benchmarks trainer."
        )


def in_own_process(what: str, work: Work) -> dict[str, Any]:
    """Returns the output of a `benchmarks.trainers.peer_process` subprocess.

    Raises:
        ConfigError: If it fails, with its last message, or takes longer than `TIMEOUT_S`.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.trainers.peer_process", what, json.dumps(asdict(work))],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "OMP_NUM_THREADS": str(work.num_threads)},
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            f"The process of {what!r} took longer than {TIMEOUT_S / 60:g} minutes and was killed. Reduce the work with "
            "--num-iterations."
        ) from error
    if done.returncode != 0:
        last_line = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise ConfigError(f"The process of {what!r} ended with exit code {done.returncode}: {last_line}")
    output: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return output


def require_same(peer: str, likeness: Mapping[str, Any]) -> None:
    """Raises `ConfigError` if a frozen trajectory has other log-probabilities in the peer's trainer."""
    difference = likeness["max_difference"]
    require(
        difference <= MAX_DIFFERENCE,
        f"The log-probabilities of one trajectory differ by {difference:.1e} between our trainer and {peer}'s; above "
        f"{MAX_DIFFERENCE:g} the work is not equal, so nothing is measured.",
    )


def compare(
    options: TrainerOptions, results: Sequence[CaseResult], run: Runner = in_own_process
) -> Iterator[tuple[str, CaseResult]]:
    """Measures all cases in alternating processes, so that a machine that slows down affects all of them.

    Args:
        options: The options.
        results: One per case; processes are added to them.
        run: Runs a process.

    Yields:
        The trainer's name and the case after each process.
    """
    for repeat in range(options.repeats):
        for result in results:
            names = [options.peer, *options.modes_for(result.work)]
            for name in names if repeat % 2 == 0 else reversed(names):
                measured = Measured.from_dict(run(name, result.work))
                result.runs.setdefault(name, []).append(measured)
                yield name, result


def report(options: TrainerOptions, likeness: Mapping[str, Any], results: Sequence[CaseResult]) -> dict[str, Any]:
    """Returns all measurements as plain data."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES if importlib.util.find_spec(name)}
    cases = [
        {
            "work": asdict(result.work),
            "medians": {name: asdict(medians) for name, medians in result.medians.items()},
            "runs": {name: [asdict(run) for run in runs] for name, runs in result.runs.items()},
        }
        for result in results
    ]
    return {
        "machine": machine(),
        "peer": {"name": options.peer, "versions": versions},
        "same": likeness,
        "cases": cases,
    }


def run_trainer(options: TrainerOptions) -> None:
    """Runs the comparison, reports each process on stderr, and prints the table.

    Raises:
        ConfigError: If the peer is not installed, a process fails, or the trainers disagree on the same trajectory's
            log-probabilities.
    """
    require_peer(options.peer)
    if options.quick:
        options = replace(options, world_ms=(0.0, 5.0), judge_ms=(0.0,), repeats=1)
    likeness = in_own_process(SAME, options.cases()[0])
    print(
        f"Same trajectories in both: log-probabilities of {likeness['num_tokens']:,} tokens differ by at most "
        f"{likeness['max_difference']:.1e}."
    )
    require_same(options.peer, likeness)
    results = [CaseResult(work=work) for work in options.cases()]
    for name, result in compare(options, results):
        case = f"worlds {result.work.world_ms:g} ms, judge {result.work.judge_ms:g} ms"
        print(f"{case}: {name} takes {result.medians[name].iteration_s:.2f} s per iteration", file=sys.stderr)
    print(*lines(results, options.peer), sep="\n")
    if options.json is not None:
        measurements = report(options, likeness, results)
        options.json.write_text(json.dumps(measurements, indent=2) + "\n", encoding="utf-8")


HEADINGS = (
    *("worlds", "judge", "trainer", "s an iteration", "ratio", "rollout", *PARTS),
    *("steps/s", "tokens/s", "pictures encoded", "prefill tokens", "peak MiB"),
)


def lines(results: Sequence[CaseResult], peer: str) -> list[str]:
    """Returns the lines of a Markdown table, padded so that it is readable as text."""
    rows: list[tuple[str, ...]] = [HEADINGS]
    for result in results:
        medians = result.medians
        theirs = medians[peer].iteration_s if peer in medians else None
        rows += [_cells(result.work, name, median, theirs) for name, median in medians.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [f"| {' | '.join(map(str.rjust, row, widths))} |" for row in rows]
    rule = "|".join("-" * (width + 1) + ":" for width in widths)
    return [padded[0], f"|{rule}|", *padded[1:]]


def _cells(work: Work, name: str, medians: Medians, peer_s: float | None) -> tuple[str, ...]:
    """Returns a line's cells in the order of `HEADINGS`."""
    num_steps = work.num_episodes * work.turns
    counts = medians.counts
    num_images = counts.get("sampled_images", 0) + counts.get("trained_images", 0)
    return (
        f"{work.world_ms:g} ms",
        f"{work.judge_ms:g} ms",
        name,
        f"{medians.iteration_s:.2f}",
        "" if peer_s is None else f"{peer_s / medians.iteration_s:.2f}x",
        f"{medians.rollout_s:.2f}",
        *(f"{medians.parts_s[part]:.2f}" for part in PARTS),
        f"{num_steps / medians.iteration_s:.1f}",
        f"{num_steps * work.tokens / medians.iteration_s:,.0f}",
        f"{num_images:,.0f}",
        f"{counts.get('prefill_tokens', 0):,.0f}",
        f"{medians.peak_mib:,.0f}",
    )
