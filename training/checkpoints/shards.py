"""Tensors that several processes hold parts of, on disk; read again by any number of processes.

`torch.distributed.checkpoint` writes and reads them. A nested state is split into its tensors, by name, and a skeleton
that says where each belongs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor, distribute_tensor

from training.engines.engine import Engine
from training.errors import PeerError

LikeOf = Callable[[str], Tensor | None]
"""For the name of a tensor, one of the same shape, as it is shared out here; None for one that is whole everywhere."""

_PLACE = "__tensor__"


def split(state: Any) -> tuple[Any, dict[str, Tensor]]:
    """Returns a nested state with names in place of its tensors, and the tensors by these names."""
    tensors: dict[str, Tensor] = {}

    def skeleton(value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            tensors[path] = value
            return {_PLACE: path}
        if isinstance(value, dict):
            return {key: skeleton(each, f"{path}/{key}" if path else str(key)) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(skeleton(each, f"{path}/{index}") for index, each in enumerate(value))
        return value

    return skeleton(state, ""), tensors


def joined(skeleton: Any, tensors: dict[str, Tensor]) -> Any:
    """Returns the nested state of which `split` returned the parts."""
    if isinstance(skeleton, dict):
        if _PLACE in skeleton:
            return tensors[skeleton[_PLACE]]
        return {key: joined(each, tensors) for key, each in skeleton.items()}
    if isinstance(skeleton, list | tuple):
        return type(skeleton)(joined(each, tensors) for each in skeleton)
    return skeleton


def placed(whole: Tensor, like: Tensor | None) -> Tensor:
    """Returns a tensor that every process has, shared out as another one is."""
    if not isinstance(like, DTensor):
        return whole
    shared = whole.to(like.device)
    return distribute_tensor(shared, like.device_mesh, like.placements, src_data_rank=None)


def write_tensors(directory: Path, tensors: dict[str, Tensor], engine: Engine) -> None:
    """Writes what all processes have of some tensors; what they all have, one of them.

    Raises:
        OSError: If a file could not be written, in the main process.
        RuntimeError: If torch could not write one, in the main process.
        PeerError: Either way, in the others.
    """
    detached = {name: tensor.detach() for name, tensor in tensors.items()}
    try:
        save(detached, checkpoint_id=directory, process_group=engine.group)
    except CheckpointException as error:  # a BaseException, of which every process is told
        raise _cause(error, engine.rank) from error


def _cause(error: CheckpointException, rank: int) -> Exception:
    """Returns what kept a process from writing, as this process is to raise it."""
    failed, (cause, _) = next(iter(error.failures.items()))
    told = f"process {failed} could not write its part of the checkpoint: {cause}"
    if rank > 0:
        return PeerError(told)
    return OSError(cause.errno, told) if isinstance(cause, OSError) else RuntimeError(told)


def read_tensors(directory: Path, skeleton: Any, engine: Engine | None, like: LikeOf | None) -> Any:
    """Returns the state of a skeleton with the tensors that were written, shared out as this process needs them.

    Raises:
        ValueError: If they cannot be read.
    """
    try:
        known = FileSystemReader(directory).read_metadata().state_dict_metadata
        tensors = {
            name: _empty(entry, like(name) if like is not None else None)
            for name, entry in known.items()
            if isinstance(entry, TensorStorageMetadata)
        }
        group = None if engine is None else engine.group
        with warnings.catch_warnings():  # that one process reads alone is meant
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            load(tensors, checkpoint_id=directory, process_group=group, no_dist=group is None)
    except (CheckpointException, OSError, RuntimeError, EOFError) as error:
        raise ValueError(f"The checkpoint {directory} is damaged: {error}") from error
    return joined(skeleton, tensors)


def _empty(entry: TensorStorageMetadata, like: Tensor | None) -> Tensor:
    """Returns room for a tensor as it was written, on the CPU unless it is shared out."""
    if isinstance(like, DTensor):
        return torch.empty_like(like, dtype=entry.properties.dtype)
    return torch.empty(entry.size, dtype=entry.properties.dtype)
