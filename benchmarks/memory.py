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

from benchmarks.memory_cases import CASES, MemoryCase
from training.memory_plan.model_counts import ModelPasses, model_without_memory
from training.memory_plan.plan_config import PlanConfig
from training.memory_plan.run_plan import update_phases
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
    """

    case: str
    num_parameters: int
    phase: str
    planned: float
    measured: float

    @property
    def error(self) -> float:
        """By how much the plan is off, as a share of what was measured; below 0 where it has less."""
        return self.planned / self.measured - 1


def checked_cases(names: Sequence[str]) -> list[str]:
    """Returns the cases of these names, all of them for none.

    Raises:
        ConfigError: If there is no such case.
    """
    return [require_choice("--only", name, CASES) for name in names] or list(CASES)


def compared(name: str) -> MemoryResult:
    """Returns a case's plan beside its measurement, which is made in a process of its own.

    Raises:
        subprocess.CalledProcessError: If that process failed.
    """
    phase, planned, num_parameters = planned_bytes(CASES[name])
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory_run", name],
        env=os.environ | _ALLOCATOR,
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    measured = float(json.loads(ran.stdout.splitlines()[-1])["bytes"])
    return MemoryResult(case=name, num_parameters=num_parameters, phase=phase, planned=planned, measured=measured)


def planned_bytes(case: MemoryCase) -> tuple[str, float, int]:
    """Returns the phase in which a case's plan has most, its bytes, and the policy's parameters, from config.json."""
    config = case.run_config()
    with tempfile.TemporaryDirectory() as directory:
        case.model_config().save_pretrained(directory)
        model = model_without_memory(Path(directory), getattr(torch, config.dtype))
    passes = ModelPasses(model, config, case.row())
    phases = update_phases(config, PlanConfig(reserved=0), passes, case.micro_batch_rows, is_fused=False)
    most = max(phases, key=lambda phase: phase.total)
    return most.name, most.total, passes.policy_shape.num_parameters


def table(results: list[MemoryResult]) -> list[str]:
    """Returns results as lines."""
    mib = 2**20
    return [
        f"{'case':18} {'parameters':>12} {'planned MiB':>12} {'measured MiB':>13} {'error':>7}  most in",
        *(
            f"{each.case:18} {each.num_parameters:12,} {each.planned / mib:12,.1f} {each.measured / mib:13,.1f} "
            f"{each.error:+7.1%}  {each.phase}"
            for each in results
        ),
    ]
