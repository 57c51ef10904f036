"""The most memory that updates of one case take, measured in a process of their own: `python -m benchmarks.memory_run`.

On a CPU what is measured is what the system gave to the process: the most resident memory of the updates, less what was
there before the model was made. So that this is no library's code, read in when it first runs, a small model is updated
before. On a GPU it is the most that tensors took, by torch's own account.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import sys
import time
from pathlib import Path

import torch
from transformers import Qwen3VLForConditionalGeneration

from benchmarks.memory_cases import CASES, GPU_CASES, MemoryCase
from training.loop.update.credit import assigned_credit
from training.loop.update.learner import Learner

WARM_UP = MemoryCase(width=64, num_layers=2, num_heads=2, num_rows=4, num_turns=2)
NUM_UPDATES = 2
"""The first makes the optimisers' states; in the second they are there all along."""

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def measured(case: MemoryCase, device: torch.device) -> dict[str, float]:
    """Returns the most memory of a case's updates beyond what was taken before, and how fast the last one was.

    Args:
        case: What is updated.
        device: Where; a CPU's memory is measured on Linux only.

    Returns:
        `bytes`, and `tokens_per_s`: of all rows' tokens in the second update, with the passes before it.
    """
    if device.type == "cuda":
        _update(WARM_UP, case.dtype, device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        seconds = _update(case, case.dtype, device)
        taken = torch.cuda.max_memory_allocated(device) - before
    else:
        _update(WARM_UP, case.dtype, device)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        before = _resident_bytes("VmRSS")
        _CLEAR.write_text("5")  # forgets the most so far
        seconds = _update(case, case.dtype, device)
        taken = _resident_bytes("VmHWM") - before
    return {"bytes": taken, "tokens_per_s": case.num_rows * case.num_turns * case.num_turn_tokens / seconds}


def _update(case: MemoryCase, dtype: str, device: torch.device) -> float:
    """Makes a model with all that belongs to it, and updates it; returns seconds of the last update."""
    config = case.run_config()
    with device:
        model = Qwen3VLForConditionalGeneration._from_config(case.model_config(), dtype=getattr(torch, dtype))
    batch = case.batch()
    learner = Learner(model.eval(), list(batch.suppressed_ids), config)
    for iteration in range(NUM_UPDATES):
        started = time.monotonic()
        outputs = learner.model_outputs(batch)
        credit = assigned_credit(config.algorithm, batch, outputs)
        learner.update(batch, outputs, credit, iteration=iteration)
    return time.monotonic() - started


def _resident_bytes(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    torch.manual_seed(0)
    name, device = sys.argv[1:]
    print(json.dumps(measured((CASES | GPU_CASES)[name], torch.device(device))))
