"""Iterations of the paper's run with a model of random weights, beside what was planned for them."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GIB = 2**30

CASES: dict[str, tuple[str, ...]] = {
    "critic": (),
    "siblings": ("--algorithm", "grpo", "--num-groups", "16", "--group-size", "8"),
}
"""What is tried, and what it adds to VAGEN-Full with adapters: its critic, or eight siblings of each level instead."""

_RUN = ("vagen_full", "--lora.rank", "32", "--ppo.learning-rate", "1e-5")
_SHORT = ("--num-eval-episodes", "0", "--eval-every", "0", "--record-every", "0", "--checkpoint-every", "0")


@dataclass(frozen=True, kw_only=True)
class GpuResult:
    """What iterations of a run took of a GPU.

    Attributes:
        case: A key of `CASES`.
        device: The GPU's name.
        num_iterations: Iterations; medians are of those behind the first, where there are any.
        planned_gib: By phase of an iteration, `rollout` and `update`, what the plan has tensors take.
        measured_gib: The most that they took.
        rollout_s: Seconds of a rollout.
        update_s: Seconds of all else in an iteration.
        sampled_tokens_per_s: Tokens a second while playing.
        metrics: Of the last iteration, all of them.
    """

    case: str
    device: str
    num_iterations: int
    planned_gib: Mapping[str, float]
    measured_gib: Mapping[str, float]
    rollout_s: float
    update_s: float
    sampled_tokens_per_s: float
    metrics: Mapping[str, Any]


def measured(case: str, model: Path, output: Path, *, num_iterations: int, more: Sequence[str] = ()) -> GpuResult:
    """Runs a case for some iterations in a process of its own, and returns what it took.

    Args:
        case: A key of `CASES`.
        model: A checkpoint's directory.
        output: Where the run goes.
        num_iterations: How many.
        more: Further options of the run.

    Raises:
        subprocess.CalledProcessError: If the run or its plan failed.
    """
    words = [*_RUN, "--model", str(model), *CASES[case], *more]
    run = [*_SHORT, "--num-iterations", str(num_iterations), "--output", str(output), "--name", case]
    planned = _python("plan", *words, "--num-gpus", "1", "--gpu-memory", str(_memory_gib()), "--json", capture=True)
    _python(*words, *run)
    lines = [json.loads(line) for line in (output / case / "metrics.jsonl").read_text().splitlines()]
    return result_of(case, json.loads(planned)["phases"], [line for line in lines if line["phase"] == "rl"], _device())


def result_of(
    case: str, phases: Mapping[str, Mapping[str, float]], iterations: Sequence[Mapping[str, Any]], device: str
) -> GpuResult:
    """Returns a result of what a plan and a run's metrics say."""
    later = iterations[1:] or iterations

    def median(key: str) -> float:
        return float(statistics.median(line[key] for line in later))

    rollout_s = median("rollout_s")
    return GpuResult(
        case=case,
        device=device,
        num_iterations=len(iterations),
        planned_gib=planned_gib(phases),
        measured_gib={name: max(line[f"{name}_peak_gib"] for line in iterations) for name in ("rollout", "update")},
        rollout_s=rollout_s,
        update_s=median("iteration_s") - rollout_s,
        sampled_tokens_per_s=median("tokens_per_s"),
        metrics=dict(iterations[-1]),
    )


def planned_gib(phases: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Returns what a plan's phases have tensors take while playing and while learning, in GiB."""
    tensors = {name: (parts["total"] - parts.get("reserved", 0.0)) / GIB for name, parts in phases.items()}
    learning = [gib for name, gib in tensors.items() if name not in ("sample", "evaluate")]
    return {"rollout": tensors["sample"], "update": max(learning)}


def table(results: Sequence[GpuResult]) -> list[str]:
    """Returns results as lines of a Markdown table."""
    lines = [
        "| run | memory while playing, planned and measured | while learning, planned and measured | rollout | tokens "
        "a second | update |",
        "|---|---|---|---|---|---|",
    ]
    for each in results:
        memory = [
            f"{each.planned_gib[name]:.1f} and {each.measured_gib[name]:.1f} GiB" for name in ("rollout", "update")
        ]
        lines.append(
            f"| {each.case} | {' | '.join(memory)} | {each.rollout_s:.0f} s | {each.sampled_tokens_per_s:,.0f} | "
            f"{each.update_s:.0f} s |"
        )
    return lines


def _python(*words: str, capture: bool = False) -> str:
    """Runs `python -m training` with words; returns what it printed, where that is captured."""
    ran = subprocess.run(
        [sys.executable, "-m", "training", *words],
        cwd=ROOT,
        check=True,
        text=True,
        stdout=subprocess.PIPE if capture else None,
    )
    return ran.stdout or ""


def _memory_gib() -> float:
    import torch

    return float(torch.cuda.get_device_properties(0).total_memory) / GIB


def _device() -> str:
    import torch

    return str(torch.cuda.get_device_name(0))
