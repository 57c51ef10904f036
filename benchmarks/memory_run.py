"""The most memory that updates of one case take, measured in a process of their own: `python -m benchmarks.memory_run`.

What is measured is what the system gave to the process: the most resident memory of the updates, less what was there
before the model was made. So that this is no library's code, read in when it first runs, a small model is updated
before.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import sys
from pathlib import Path

import torch
from transformers import Qwen3VLForConditionalGeneration

from benchmarks.memory_cases import CASES, MemoryCase
from training.update.learner import Learner
from training.update.update_losses import assigned_credit

WARM_UP = MemoryCase(width=64, num_layers=2, num_heads=2, num_rows=4, num_turns=2)
NUM_UPDATES = 2
"""The first makes the optimisers' states; in the second they are there all along."""

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def measured_bytes(case: MemoryCase) -> int:
    """Returns the most resident memory of a case's updates beyond what was resident before, in bytes. Linux only."""
    _update(WARM_UP, case.dtype)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = _resident_bytes("VmRSS")
    _CLEAR.write_text("5")  # forgets the most so far
    _update(case, case.dtype)
    return _resident_bytes("VmHWM") - before


def _update(case: MemoryCase, dtype: str) -> None:
    """Makes a model with all that belongs to it, and updates it."""
    config = case.run_config()
    with torch.device("cpu"):
        model = Qwen3VLForConditionalGeneration._from_config(case.model_config(), dtype=getattr(torch, dtype))
    batch = case.batch()
    learner = Learner(model.eval(), list(batch.suppressed_ids), config)
    for iteration in range(NUM_UPDATES):
        outputs = learner.model_outputs(batch)
        credit = assigned_credit(config.algorithm, batch, outputs)
        learner.update(batch, outputs, credit, iteration=iteration)


def _resident_bytes(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    torch.manual_seed(0)
    print(json.dumps({"bytes": measured_bytes(CASES[sys.argv[1]])}))
