"""The speed benchmarks by name, and their results as a table."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vlm_envs.errors import EngineUnavailableError
from vlm_envs.requirements import install_command
from vlm_envs.terminal_tables import table
from vlm_envs.validation import require_choice


@dataclass(frozen=True)
class Row:
    """One measurement, optionally compared with a peer or a limit in the same unit.

    Attributes:
        name: Description of the measurement.
        median: Median over the repeats, in `unit`.
        unit: `"s"` or `"ms"` for durations; a rate ends in `"/s"`.
        compared_with: Description of `reference`; empty without a comparison.
        reference: The peer's median in the same run, or the limit; None without a comparison.
        is_limit: Whether `reference` must be met. A peer is only reported.
    """

    name: str
    median: float
    unit: str
    compared_with: str = ""
    reference: float | None = None
    is_limit: bool = False

    @classmethod
    def limited(cls, name: str, median: float, unit: str, limit: float) -> Row:
        """Returns a row that must meet a limit."""
        return cls(name, median, unit, "limit", limit, is_limit=True)

    @property
    def ratio(self) -> float | None:
        """How many times better than the reference: higher for rates, shorter for durations."""
        if self.reference is None:
            return None
        if self.unit.endswith("/s"):
            return self.median / self.reference
        return self.reference / self.median

    @property
    def passed(self) -> bool | None:
        """Whether the limit is met; None without a limit."""
        return self.ratio >= 1.0 if self.is_limit and self.ratio is not None else None


def median_times_s(calls: Sequence[Callable[[], object]], num_repeats: int) -> list[float]:
    """Times several calls for comparison.

    Each is called once to warm up. Then they alternate, so that a machine that slows down affects all of them.

    Args:
        calls: The calls to time.
        num_repeats: Timed repeats of each call, at least 1.

    Returns:
        The median duration of each call, in seconds.
    """
    for call in calls:
        call()
    times_s: list[list[float]] = [[] for _ in calls]
    for _ in range(num_repeats):
        for call, taken_s in zip(calls, times_s, strict=True):
            start_s = time.perf_counter()
            call()
            taken_s.append(time.perf_counter() - start_s)
    return [statistics.median(taken_s) for taken_s in times_s]


def per_second(amount: float, calls: Sequence[Callable[[], object]], num_repeats: int) -> list[float]:
    """Returns the median rate of each call, which processes `amount` items; see `median_times_s`."""
    return [amount / time_s for time_s in median_times_s(calls, num_repeats)]


Benchmark = Callable[[bool], list[Row]]
"""Runs a benchmark; with True, as a smoke test whose numbers mean little."""


@dataclass(frozen=True, kw_only=True)
class SpeedReport:
    """The results of a run.

    Attributes:
        rows: Rows by benchmark.
        skipped: Reasons for skipped benchmarks, by name.
    """

    rows: dict[str, list[Row]]
    skipped: dict[str, str]

    @property
    def passed(self) -> bool:
        """Whether every limit is met."""
        return all(row.passed is not False for rows in self.rows.values() for row in rows)

    def to_dict(self) -> dict[str, Any]:
        """Returns rows, verdicts, and the machine as plain data."""
        measured = {
            name: [{**asdict(row), "ratio": row.ratio, "passed": row.passed} for row in rows]
            for name, rows in self.rows.items()
        }
        return {"machine": machine(), "benchmarks": measured, "skipped": self.skipped}


def _from(module: str, name: str, *args: Any) -> Benchmark:
    """Returns a benchmark that is imported when it runs, so that listing benchmarks does not need torch."""

    def run(quick: bool) -> list[Row]:
        measure: Callable[..., list[Row]] = getattr(importlib.import_module(f"benchmarks.speed.{module}"), name)
        return measure(*args, quick=quick)

    return run


BENCHMARKS: dict[str, Benchmark] = {
    "gae": _from("advantages_speed", "gae_ms"),
    "step": _from("world_speed", "steps_per_s"),
    "batched": _from("world_speed", "batched_steps_per_s"),
    "vector": _from("world_speed", "vector_steps_per_s"),
    "ray": _from("world_speed", "spread_steps_per_s"),
    "navigation": _from("world_speed", "engine_turns_per_s", "VLM/Navigation-v0"),
    "svg": _from("world_speed", "engine_turns_per_s", "VLM/SVG-v0"),
    "primitive": _from("world_speed", "engine_turns_per_s", "VLM/PrimitiveSkill-v0"),
    "import": _from("world_speed", "import_time_s"),
    "judge": _from("world_speed", "judged_turns_per_s"),
    "rollouts": _from("model_speed", "rollout_turns_per_s"),
}


def checked_names(names: Iterable[str]) -> list[str]:
    """Validates benchmark names; returns all benchmarks if there are none.

    Raises:
        ConfigError: If a name is unknown.
    """
    return [require_choice("--only", name, BENCHMARKS) for name in names] or list(BENCHMARKS)


def run_speed(
    names: Sequence[str], *, quick: bool = False, on_start: Callable[[str], None] = lambda name: None
) -> SpeedReport:
    """Runs benchmarks in sequence.

    Args:
        names: Names of the benchmarks; see `checked_names`.
        quick: Whether to run a smoke test.
        on_start: Called with each benchmark's name before it runs.

    Returns:
        Rows of benchmarks that ran, and reasons for those that could not.
    """
    rows: dict[str, list[Row]] = {}
    skipped: dict[str, str] = {}
    for name in names:
        on_start(name)
        try:
            rows[name] = BENCHMARKS[name](quick)
        except ModuleNotFoundError as error:
            skipped[name] = f"needs {error.name}: {install_command('train,sim,ray')}"
        except EngineUnavailableError as error:
            skipped[name] = str(error)
    return SpeedReport(rows=rows, skipped=skipped)


def machine() -> dict[str, Any]:
    """Returns the platform and package versions that affect results."""
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


HEADINGS = ("benchmark", "measured", "median", "against", "ratio", "verdict")


def cells(benchmark: str, row: Row) -> tuple[str, ...]:
    """Returns a row's cells as text, in the order of `HEADINGS`."""
    reference = "" if row.reference is None else f" {_number(row.reference)}"
    return (
        benchmark,
        row.name,
        f"{_number(row.median)} {row.unit}",
        f"{row.compared_with}{reference}",
        "" if row.ratio is None else f"{row.ratio:.2f}x",
        {True: "ok", False: "MISSED", None: ""}[row.passed],
    )


def print_table(rows: Mapping[str, Sequence[Row]]) -> None:
    """Prints rows by benchmark; a ratio above 1 is better than the reference."""
    lines = [cells(benchmark, row) for benchmark, of_benchmark in rows.items() for row in of_benchmark]
    print("\n".join(table([HEADINGS, *lines])))


def _number(value: float) -> str:
    """Returns a number with three significant digits, or from 1,000 as an integer with separators."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
