"""The speed benchmarks by name, and one run over some of them."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.measure import Row
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.requirements import install_command
from vlm_envs.validation import did_you_mean


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One registered benchmark.

    Attributes:
        summary: One line for `--help`.
        run: Measures; `quick=True` is a smoke run whose numbers mean little.
        needs: Distributions beyond the core's that it imports.
    """

    summary: str
    run: Callable[[bool], list[Row]]
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """What would have to be installed first."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)


@dataclass(frozen=True, kw_only=True)
class SpeedReport:
    """What a run measured.

    Attributes:
        rows: Rows by benchmark.
        skipped: Why a benchmark did not run, by its name.
    """

    rows: dict[str, list[Row]]
    skipped: dict[str, str]

    @property
    def passed(self) -> bool:
        """Whether every limit is met."""
        return all(row.passed is not False for rows in self.rows.values() for row in rows)

    def to_dict(self) -> dict[str, Any]:
        """Returns rows, verdicts and the machine as plain data."""
        measured = {
            name: [{**asdict(row), "ratio": row.ratio, "passed": row.passed} for row in rows]
            for name, rows in self.rows.items()
        }
        return {"machine": machine(), "benchmarks": measured, "skipped": self.skipped}


def _from(module: str, name: str) -> Callable[[bool], list[Row]]:
    """Returns a measurement that is imported only when it runs: listing benchmarks must not need torch."""

    def run(quick: bool) -> list[Row]:
        measure: Callable[..., list[Row]] = getattr(importlib.import_module(f"benchmarks.{module}"), name)
        return measure(quick=quick)

    return run


_MODEL = ("torch", "transformers", "scipy")
BENCHMARKS: dict[str, Benchmark] = {
    "gae": Benchmark(summary="advantage estimation", run=_from("model_speed", "gae_ms"), needs=_MODEL),
    "step": Benchmark(summary="whole steps of a world", run=_from("world_speed", "steps_per_s")),
    "batched": Benchmark(summary="grid worlds moved by numbers", run=_from("world_speed", "batched_steps_per_s")),
    "vector": Benchmark(summary="many worlds: serial, thread, process", run=_from("world_speed", "vector_steps_per_s")),
    "ray": Benchmark(
        summary="many worlds: serial, process, on Ray",
        run=_from("ray_speed", "spread_steps_per_s"),
        needs=("ray", "panda3d"),
    ),
    "navigation": Benchmark(
        summary="steps in a furnished home", run=_from("engine_speed", "navigation_steps_per_s"), needs=("panda3d",)
    ),
    "svg": Benchmark(summary="drawings scored", run=_from("engine_speed", "svg_turns_per_s"), needs=("cairosvg",)),
    "primitive": Benchmark(
        summary="actions of a robot arm", run=_from("engine_speed", "primitive_actions_per_s"), needs=("mani_skill",)
    ),
    "import": Benchmark(summary="the time of `import vlm_envs`", run=_from("world_speed", "import_time_s")),
    "judge": Benchmark(
        summary="turns the exact judge scores", run=_from("judge_speed", "turns_per_s"), needs=("scipy",)
    ),
    "sampling": Benchmark(
        summary="tokens sampled from the tiny model", run=_from("model_speed", "sampled_tokens_per_s"), needs=_MODEL
    ),
    "rollouts": Benchmark(
        summary="turns where no episode waits for another",
        run=_from("rollout_speed", "turns_per_s"),
        needs=_MODEL,
    ),
    "training": Benchmark(
        summary="tokens learnt from by the tiny model", run=_from("model_speed", "trained_tokens_per_s"), needs=_MODEL
    ),
}


def checked_names(names: Iterable[str]) -> list[str]:
    """Returns the names if all are known.

    Args:
        names: Names of benchmarks; none stands for all of them.

    Raises:
        ConfigError: If one is unknown.
    """
    chosen = list(names)
    for name in chosen:
        if name not in BENCHMARKS:
            raise ConfigError(
                f"Unknown benchmark {name!r}.{did_you_mean(name, BENCHMARKS)} Known: {', '.join(BENCHMARKS)}."
            )
    return chosen or list(BENCHMARKS)


def run_speed(
    names: Sequence[str], *, quick: bool = False, on_start: Callable[[str], None] = lambda name: None
) -> SpeedReport:
    """Runs benchmarks one after the other.

    Args:
        names: Which; see `checked_names`.
        quick: Smoke run.
        on_start: Called with each benchmark's name before it runs.

    Returns:
        Rows of those that ran, and reasons for those that could not.
    """
    rows: dict[str, list[Row]] = {}
    skipped: dict[str, str] = {}
    for name in names:
        benchmark = BENCHMARKS[name]
        if benchmark.missing:
            skipped[name] = f"needs {', '.join(benchmark.missing)}: {install_command('train,sim,ray')}"
            continue
        on_start(name)
        try:
            rows[name] = benchmark.run(quick)
        except EngineUnavailableError as error:
            skipped[name] = str(error)
    return SpeedReport(rows=rows, skipped=skipped)


def machine() -> dict[str, Any]:
    """Returns what a number depends on besides the code."""
    versions = {
        name: importlib.metadata.version(name)
        for name in ("gymnasium", "numpy", "torch", "transformers")
        if importlib.util.find_spec(name) is not None
    }
    return {
        "platform": platform.platform(),
        "processor": platform.machine(),
        "num_cpus": os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions,
    }
