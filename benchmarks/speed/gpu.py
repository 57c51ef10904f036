"""`python -m benchmarks gpu`: measures the paper's run on this machine's GPU and compares it with its plan."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vlm_envs.errors import ConfigError
from vlm_envs.validation import require, require_choice

WORLDS = ("VLM/Sokoban-v0",)


@dataclass(frozen=True, kw_only=True)
class GpuOptions:
    """Train a randomly initialized model of the paper's size on this machine's GPU, and compare it with its plan.

    Writes a Qwen2.5-VL-3B with random weights and runs iterations of `vagen_full` with it, for LoRA and for all
    weights. Nothing is learned, but time and memory equal those of a real run. Responses have the maximum length.

    Attributes:
        only: Run only these cases; an unknown name lists all of them.
        num_iterations: Iterations per case; the first is a warm-up and not in medians if there are more. `full` writes
            46 GB before the first iteration and another 95 GB after each except the last.
        output: Folder for the checkpoint and runs; an existing checkpoint is reused.
        json: File for the results; None for gpu.json in `output`.
    """

    only: tuple[str, ...] = ()
    num_iterations: int = 2
    output: Path = Path("runs/gpu")
    json: Path | None = None


def run_gpu(options: GpuOptions) -> None:
    """Runs the cases in sequence, and prints and writes each result immediately.

    Raises:
        ConfigError: If there is no such case, no GPU, or a case was already run there.
    """
    import torch

    from benchmarks.speed.gpu_checkpoint import save_random_qwen2_5_vl

    names = list(dict.fromkeys(require_choice("--only", name, CASES) for name in options.only)) or list(CASES)
    if not torch.cuda.is_available():
        raise ConfigError(f"torch {torch.__version__} sees no CUDA GPU here: there is nothing to measure.")
    for name in names:
        there = options.output / name
        require(not there.exists(), f"{there} already exists: remove it, or choose another --output.")
    model, results = options.output.absolute() / "qwen2_5_vl_3b", []
    if not (model / "tokenizer.json").is_file():
        save_random_qwen2_5_vl(model, QWEN2_5_VL_3B, WORLDS)
    for name in names:
        results.append(measured(name, model, options.output.absolute(), num_iterations=options.num_iterations))
        path = options.json or options.output / "gpu.json"
        path.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
        print(*table(results), sep="\n", flush=True)


QWEN2_5_VL_3B: dict[str, Any] = json.loads(Path(__file__).with_name("qwen2_5_vl_3b.json").read_text(encoding="utf-8"))
"""Configuration of Qwen2.5-VL-3B-Instruct, the model of VAGEN's paper."""


ROOT = Path(__file__).parents[2]
GIB = 2**30

_ADAPTERS = ("--lora.rank", "32", "--ppo.learning-rate", "1e-5", "--checkpoint-every", "0")
_UNCOPIED = ("--checkpoint-every", "1")  # the host need not hold a copy of the run's state

CASES: dict[str, tuple[str, ...]] = {
    "critic": _ADAPTERS,
    "siblings": (*_ADAPTERS, "--algorithm", "grpo", "--num-groups", "16", "--group-size", "8"),
    "full": ("--memory.freeze-vision-tower", "--memory.offload-optimizer", "--memory.offload-reference", *_UNCOPIED),
}
"""Cases with their additions to VAGEN-Full: adapters with its critic or with groups of eight, or all weights of the
language models of policy and critic, with idle state in the host's memory."""

_SHORT = ("--num-eval-episodes", "0", "--eval-every", "0", "--record-every", "0")


@dataclass(frozen=True, kw_only=True)
class GpuResult:
    """Time and memory of a run's iterations on a GPU.

    Attributes:
        case: A key of `CASES`.
        device: The GPU's name.
        num_iterations: Number of iterations; medians exclude the first if there are more.
        planned_gib: Planned tensor memory by phase of an iteration, `rollout` and `update`.
        measured_gib: Measured peak tensor memory by phase.
        rollout_s: Seconds of a rollout.
        update_s: Seconds of the rest of an iteration.
        sampled_tokens_per_s: Sampled tokens per second of the rollout.
        metrics: All metrics of the last iteration.
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
    """Runs a case for some iterations in a subprocess and returns its time and memory.

    Args:
        case: A key of `CASES`.
        model: A checkpoint's directory.
        output: Folder for the run, in a new subfolder with the case's name.
        num_iterations: Number of iterations.
        more: Additional options of the run.

    Raises:
        subprocess.CalledProcessError: If the run or its plan fails.
    """
    words = ["vagen_full", "--model", str(model), *CASES[case], *more]
    run = [*_SHORT, "--num-iterations", str(num_iterations + 1), "--output", str(output), "--name", case]
    plan = ["plan", *words, "--num-gpus", "1", "--gpu-memory", str(_memory_gib()), "--json"]
    planned = subprocess.run(_command(plan), cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout
    lines = run_iterations(_command([*words, *run]), output / case / "metrics.jsonl", num_iterations)
    return result_of(case, json.loads(planned)["phases"], lines, _device())


def run_iterations(command: Sequence[str], metrics: Path, num_iterations: int) -> list[dict[str, Any]]:
    """Runs a training until it has logged some iterations, then kills it, as its checkpoint is not needed.

    Args:
        command: The training command, with more iterations than `num_iterations`.
        metrics: Path of its log, which must not exist yet.
        num_iterations: Number of iterations to wait for.

    Returns:
        The logged metrics of each iteration.

    Raises:
        subprocess.CalledProcessError: If the training ends early.
    """
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            while len(lines := _iterations(metrics)) < num_iterations:
                if process.poll() is not None:
                    raise subprocess.CalledProcessError(process.returncode, command)
                time.sleep(0.5)
        finally:
            process.kill()
    return lines[:num_iterations]


def _iterations(metrics: Path) -> list[dict[str, Any]]:
    """Returns the complete lines of iterations in a log that is being written."""
    text = metrics.read_text() if metrics.is_file() else ""
    lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return [line for line in lines if line["phase"] == "rl"]


def result_of(
    case: str, phases: Mapping[str, Mapping[str, float]], iterations: Sequence[Mapping[str, Any]], device: str
) -> GpuResult:
    """Combines a plan and a run's metrics into a result."""
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
    """Returns the planned tensor memory during rollout and update, in GiB."""
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
    for result in results:
        memory = [
            f"{result.planned_gib[name]:.1f} and {result.measured_gib[name]:.1f} GiB" for name in ("rollout", "update")
        ]
        lines.append(
            f"| {result.case} | {' | '.join(memory)} | {result.rollout_s:.0f} s | {result.sampled_tokens_per_s:,.0f} | "
            f"{result.update_s:.0f} s |"
        )
    return lines


def _command(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "training", *words]


def _memory_gib() -> float:
    import torch

    return float(torch.cuda.get_device_properties(0).total_memory) / GIB


def _device() -> str:
    import torch

    return str(torch.cuda.get_device_name(0))
