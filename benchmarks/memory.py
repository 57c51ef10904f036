"""How near a plan's memory is to what updates take on this machine, for models from scratch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from agents.hf.device import require_device
from benchmarks.memory_cases import CASES, GPU_CASES, MemoryCase
from training.engines.optimizer import FUSED_ON
from training.plan.config import PlanConfig
from training.plan.passes import ModelPasses
from training.plan.plan import update_phases
from training.plan.shapes import model_without_memory
from vlm_envs.errors import require_choice

MAX_ERROR = 0.15

_ALLOCATOR = {  # every tensor of some size by itself, given back when it is freed: what is resident is what is in use
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "MALLOC_TOP_PAD_": "0",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True, kw_only=True)
class MemoryResult:
    """A plan beside a measurement.

    Attributes:
        case: What was updated.
        num_parameters: Weights of its policy.
        phase: In which the plan has most.
        planned: Bytes of it.
        measured: Bytes that updates took.
        tokens_per_s: Tokens a second of an update.
    """

    case: str
    num_parameters: int
    phase: str
    planned: float
    measured: float
    tokens_per_s: float

    @property
    def error(self) -> float:
        """By how much the plan is off, as a share of what was measured; below 0 where it has less."""
        return self.planned / self.measured - 1


def checked_cases(names: Sequence[str], device: str) -> list[str]:
    """Returns the cases of these names, all of a device's for none.

    Args:
        names: Of cases.
        device: `"cpu"` or `"cuda"`.

    Raises:
        ConfigError: If there is no such case, or no such device.
    """
    require_device(device)
    return [require_choice("--only", name, CASES | GPU_CASES) for name in names] or list(
        GPU_CASES if device == "cuda" else CASES
    )


def compared(name: str, device: str = "cpu") -> MemoryResult:
    """Returns a case's plan beside its measurement, which is made in a process of its own.

    Raises:
        subprocess.CalledProcessError: If that process failed.
    """
    phase, planned, num_parameters = planned_bytes((CASES | GPU_CASES)[name], is_fused=device in FUSED_ON)
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory_run", name, device],
        env=os.environ | (_ALLOCATOR if device == "cpu" else {}),
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(ran.stdout.splitlines()[-1])
    return MemoryResult(
        case=name,
        num_parameters=num_parameters,
        phase=phase,
        planned=planned,
        measured=found["bytes"],
        tokens_per_s=found["tokens_per_s"],
    )


def planned_bytes(case: MemoryCase, *, is_fused: bool = False) -> tuple[str, float, int]:
    """Returns the phase in which a case's plan has most, its bytes, and the policy's parameters, from config.json.

    Args:
        case: What is updated.
        is_fused: Whether the optimiser's step is one kernel, as on a GPU.
    """
    config = case.run_config()
    with tempfile.TemporaryDirectory() as directory:
        case.model_config().save_pretrained(directory)
        model = model_without_memory(Path(directory), getattr(torch, config.dtype))
    passes = ModelPasses(model, config, case.row())
    phases = update_phases(config, PlanConfig(reserved=0), passes, case.micro_batch_rows, is_fused=is_fused)
    most = max(phases, key=lambda phase: phase.total)
    return most.name, most.total, passes.policy_shape.num_parameters


def table(results: list[MemoryResult]) -> list[str]:
    """Returns results as lines."""
    mib = 2**20
    return [
        f"{'case':18} {'parameters':>13} {'planned MiB':>12} {'measured MiB':>13} {'error':>7} {'tokens/s':>9}  "
        "most in",
        *(
            f"{each.case:18} {each.num_parameters:13,} {each.planned / mib:12,.1f} {each.measured / mib:13,.1f} "
            f"{each.error:+7.1%} {each.tokens_per_s:9,.0f}  {each.phase}"
            for each in results
        ),
    ]
