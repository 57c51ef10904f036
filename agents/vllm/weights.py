"""Weights as checkpoints have them: each tensor once, in one file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

WEIGHTS = "model.safetensors"


def distinct(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns weights without those that share the memory of one before them, as tied ones do."""
    first: dict[tuple[int, tuple[int, ...]], str] = {}
    for name, value in weights.items():
        first.setdefault((value.data_ptr(), tuple(value.shape)), name)
    return {name: weights[name] for name in first.values()}


def write_weights(directory: Path, weights: Mapping[str, Tensor]) -> None:
    """Writes a checkpoint's weights in place of those that are there, all or nothing."""
    temporary = directory / f".{WEIGHTS}"
    tensors = {name: value.detach().cpu().contiguous() for name, value in distinct(weights).items()}
    save_file(tensors, temporary, metadata={"format": "pt"})
    os.replace(temporary, directory / WEIGHTS)
