"""Weights as vLLM's `reload_weights` needs them: all of them under all of their names.

A head that is tied to the embedding is written out, too: vLLM 0.32 leaves one that is not told of as it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

WEIGHTS = "model.safetensors"


def parts(weights: Mapping[str, Tensor], max_bytes: int) -> Iterator[dict[str, Tensor]]:
    """Yields weights in the host's memory, no two of which share any, in parts of about as many bytes at most."""
    part: dict[str, Tensor] = {}
    for name, value in weights.items():
        part_bytes = sum(each.nbytes for each in part.values())
        if part and part_bytes + value.nbytes > max_bytes:
            yield part
            part = {}
        part[name] = _alone(value, part)
    yield part


def write_weights(directory: Path, weights: Mapping[str, Tensor]) -> None:
    """Writes a checkpoint's weights in place of those that are there, all or nothing."""
    temporary = directory / f".{WEIGHTS}"
    tensors: dict[str, Tensor] = {}
    for name, value in weights.items():
        tensors[name] = _alone(value, tensors)
    save_file(tensors, temporary, metadata={"format": "pt"})
    os.replace(temporary, directory / WEIGHTS)


def _alone(value: Tensor, others: Mapping[str, Tensor]) -> Tensor:
    """Returns a weight that shares no memory with others, which safetensors refuses."""
    value = value.detach().cpu().contiguous()
    shares = any(each.data_ptr() == value.data_ptr() for each in others.values())
    return value.clone() if shares else value
