"""The state of a run on disk: everything needed to resume it exactly, and its best policy.

A checkpoint is one directory, complete or absent (see `training.checkpoints.checkpoint_files`):

    model/            a transformers checkpoint, with its training settings in provenance.json
    state.pt          everything else, except for the following files if several processes wrote it
    shards/           tensors of models and optimizers, each written by the process that has it
    processes/<n>.pt  state of each process: its sampling state
    progress.json     number of completed iterations
    reference.json    location of the reference policy, see `reference_of`

A checkpoint of several processes can be resumed with any number of processes, and vice versa:
`torch.distributed.checkpoint` writes and reads the shards. A nested state is split into named tensors and a skeleton
with their positions. The best policy, which solved most validation levels, is stored in the same way, with a file
next to its weights that identifies it.
"""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
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

from agents.hf.chat import ChatEncoder
from agents.hf.checkpoint import PROVENANCE, torch_device
from agents.hf.hf_agent import load_checkpoint
from training.checkpoints.checkpoint_files import (
    COLD_START_STATE,
    PROGRESS,
    REFERENCE,
    STATE,
    aside,
    has_checkpoint,
    has_model,
    model_directory,
    opened_aside,
    put_in_place,
    removed_if_unfinished,
    replacing,
    require_run_state,
)
from training.config.processes import num_processes
from training.config.run_config import RunConfig
from training.engines.engine import Engine
from training.engines.lora import has_adapters, merged_state
from training.errors import PeerError
from vlm_envs.records.json_lines import replace_file, to_json

SHARDS, PROCESSES = "shards", "processes"
LikeOf = Callable[[str], Tensor | None]
"""Maps a tensor name to a tensor with the target shape and sharding; None for an unsharded tensor."""

_PLACE = "__tensor__"
BEST = Path("best") / "model"
"""Path of the best policy within a run's folder."""


def save_model(directory: Path, model: Any, encoder: ChatEncoder, *, provenance: dict[str, Any] | None = None) -> None:
    """Atomically writes model, tokenizer, and image processor as `from_pretrained` reads them, replacing the target.

    `provenance`, the origin of the model, is written next to it.
    """
    with replacing(directory) as temporary:
        _write_model(temporary, model, encoder, provenance)


def save_provenance(directory: Path, provenance: dict[str, Any]) -> None:
    """Atomically writes the provenance of a model next to it, replacing an earlier one."""
    replace_file(directory / PROVENANCE, (json.dumps(to_json(provenance), indent=2) + "\n").encode())


def save_checkpoint(
    directory: Path,
    state: dict[str, Any],
    model: Any,
    encoder: ChatEncoder,
    *,
    provenance: dict[str, Any] | None = None,
) -> None:
    """Atomically writes a checkpoint, replacing an earlier one; its model is an ordinary checkpoint.

    `provenance`, the origin of the model, is written next to it.
    """
    with replacing(directory) as temporary:
        _write_state(temporary, state, model, encoder, provenance)


def save_together(
    directory: Path,
    engine: Engine,
    state: dict[str, Any],
    own: dict[str, Any],
    model: Any,
    encoder: ChatEncoder,
    *,
    provenance: dict[str, Any] | None = None,
) -> None:
    """Atomically writes a checkpoint of several processes, replacing an earlier one.

    Args:
        directory: Directory on a file system shared by all processes.
        engine: The processes.
        state: Shared state; under `"learner"`, each process has its shard of every tensor.
        own: State of this process.
        model: The unsharded model.
        encoder: Its chat format.
        provenance: Origin of the model.
    """
    engine.on_main(lambda: opened_aside(directory) and None)
    temporary = aside(directory)
    skeleton, tensors = split(state["learner"])

    def finish() -> None:
        whole = {**state, "learner": skeleton, "num_processes": engine.num_processes}
        _write_state(temporary, whole, model, encoder, provenance)
        put_in_place(directory)

    with removed_if_unfinished(temporary) if engine.rank == 0 else nullcontext():
        write_tensors(temporary / SHARDS, tensors, engine)
        path = temporary / PROCESSES / f"{engine.rank}.pt"
        path.parent.mkdir(exist_ok=True)
        torch.save(own, path)
        engine.gather([None])  # all have written
        engine.on_main(finish)


def _write_state(
    temporary: Path, state: dict[str, Any], model: Any, encoder: ChatEncoder, provenance: dict[str, Any] | None
) -> None:
    _write_model(temporary / "model", model, encoder, provenance)
    torch.save(state, temporary / STATE)
    if state.get("reference") is not None:
        replace_file(temporary / REFERENCE, (json.dumps(state["reference"]) + "\n").encode())
    if "iteration" in state:
        replace_file(temporary / PROGRESS, (json.dumps({"iteration": state["iteration"]}) + "\n").encode())


def copied(state: Any) -> Any:
    """Returns a state with tensors copied to host memory, unaffected by later changes of the models.

    Args:
        state: Nested dictionaries, lists, and tuples, as from `state_dict`.
    """
    if isinstance(state, torch.Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        return {key: copied(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(map(copied, state))
    return state


def load_checkpoint_state(
    directory: Path, *, engine: Engine | None = None, like: LikeOf | None = None
) -> dict[str, Any]:
    """Returns the state of a checkpoint for this process, regardless of the number of processes that wrote it.

    Args:
        directory: The checkpoint.
        engine: The processes that read it together, if there are several.
        like: Maps the name of a learner's tensor to a tensor with the target shape and placement; None to read
            unsharded tensors.

    Returns: The state, with the part of this process; None in its place if the process did not exist before.

    Raises:
        FileNotFoundError: If it does not exist.
        ValueError: If it is damaged.
    """
    require_run_state(directory)
    state = _read(directory / STATE, mmap=True)
    if "num_processes" in state:
        learner = read_tensors(directory / SHARDS, state["learner"], engine, like)
        rank = engine.rank if engine is not None else 0
        path = directory / PROCESSES / f"{rank}.pt"
        state |= {"learner": learner, **(_read(path) if path.is_file() else {"agent": None, "torch_rng": None})}
        del state["num_processes"]
    elif engine is not None and engine.num_processes > 1:
        skeleton, tensors = split(state["learner"])
        shared = {name: placed(tensor, like(name) if like else None) for name, tensor in tensors.items()}
        state["learner"] = joined(skeleton, shared)
        if engine.rank > 0:
            state |= {"agent": None, "torch_rng": None}
    return state


def save_cold_start_state(run: Path, state: dict[str, Any]) -> None:
    """Atomically writes the state of a run's cold start, replacing an earlier one."""
    with replacing(run / COLD_START_STATE) as temporary:
        torch.save(state, temporary / STATE)


def load_cold_start_state(run: Path) -> dict[str, Any] | None:
    """Returns the state of a run's cold start; None if it has no checkpoint.

    Raises:
        ValueError: If the checkpoint is damaged.
    """
    directory = run / COLD_START_STATE
    return _read(directory / STATE) if has_checkpoint(directory) else None


def iterations_done(directory: Path) -> int:
    """Returns the number of iterations of a checkpoint.

    Raises:
        FileNotFoundError: If it does not exist.
        ValueError: If it is damaged.
    """
    require_run_state(directory)
    return int(_read(directory / STATE, mmap=True)["iteration"])


def _read(path: Path, *, mmap: bool = False) -> dict[str, Any]:
    """Reads a state; with `mmap`, tensors are loaded on access, without memory for the whole file."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except (RuntimeError, EOFError, pickle.UnpicklingError, UnicodeDecodeError) as error:
        raise ValueError(f"The checkpoint {path} is damaged: {error}") from error
    return state


def _write_model(directory: Path, model: Any, encoder: ChatEncoder, provenance: dict[str, Any] | None) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(directory, state_dict=merged_state(model) if has_adapters(model) else None)
    encoder.save_processor(directory)
    if provenance is not None:
        save_provenance(directory, provenance)


def split(state: Any) -> tuple[Any, dict[str, Tensor]]:
    """Splits a nested state into a skeleton with names in place of tensors, and the tensors by name."""
    tensors: dict[str, Tensor] = {}

    def skeleton(value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            tensors[path] = value
            return {_PLACE: path}
        if isinstance(value, dict):
            return {key: skeleton(item, f"{path}/{key}" if path else str(key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(skeleton(item, f"{path}/{index}") for index, item in enumerate(value))
        return value

    return skeleton(state, ""), tensors


def joined(skeleton: Any, tensors: dict[str, Tensor]) -> Any:
    """Returns the nested state from the parts returned by `split`."""
    if isinstance(skeleton, dict):
        if _PLACE in skeleton:
            return tensors[skeleton[_PLACE]]
        return {key: joined(item, tensors) for key, item in skeleton.items()}
    if isinstance(skeleton, list | tuple):
        return type(skeleton)(joined(item, tensors) for item in skeleton)
    return skeleton


def placed(whole: Tensor, like: Tensor | None) -> Tensor:
    """Returns a tensor that every process has, sharded like another one."""
    if not isinstance(like, DTensor):
        return whole
    shared = whole.to(like.device)
    return distribute_tensor(shared, like.device_mesh, like.placements, src_data_rank=None)


def write_tensors(directory: Path, tensors: dict[str, Tensor], engine: Engine) -> None:
    """Writes the shards of all processes; unsharded tensors are written once.

    Raises:
        OSError: If a file cannot be written, in the main process.
        RuntimeError: If torch cannot write one, in the main process.
        PeerError: In both cases, in the other processes.
    """
    detached = {name: tensor.detach() for name, tensor in tensors.items()}
    try:
        save(detached, checkpoint_id=directory, process_group=engine.group)
    except CheckpointException as error:  # a BaseException, raised in every process
        raise _cause(error, engine.rank) from error


def _cause(error: CheckpointException, rank: int) -> Exception:
    """Returns the error to raise in this process for a failed write."""
    failed, (cause, _) = next(iter(error.failures.items()))
    message = f"process {failed} could not write its part of the checkpoint: {cause}"
    if rank > 0:
        return PeerError(message)
    return OSError(cause.errno, message) if isinstance(cause, OSError) else RuntimeError(message)


def read_tensors(directory: Path, skeleton: Any, engine: Engine | None, like: LikeOf | None) -> Any:
    """Returns the state of a skeleton with its saved tensors, sharded for this process.

    Raises:
        ValueError: If they cannot be read.
    """
    try:
        entries = FileSystemReader(directory).read_metadata().state_dict_metadata
        tensors = {
            name: _empty(entry, like(name) if like is not None else None)
            for name, entry in entries.items()
            if isinstance(entry, TensorStorageMetadata)
        }
        group = None if engine is None else engine.group
        with warnings.catch_warnings():  # reading in a single process is intended
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            load(tensors, checkpoint_id=directory, process_group=group, no_dist=group is None)
    except (CheckpointException, OSError, RuntimeError, EOFError) as error:
        raise ValueError(f"The checkpoint {directory} is damaged: {error}") from error
    return joined(skeleton, tensors)


def _empty(entry: TensorStorageMetadata, like: Tensor | None) -> Tensor:
    """Returns an empty tensor for a saved one, on the CPU unless it is sharded."""
    if isinstance(like, DTensor):
        return torch.empty_like(like, dtype=entry.properties.dtype)
    return torch.empty(entry.size, dtype=entry.properties.dtype)


@dataclass(frozen=True, kw_only=True)
class BestPolicy:
    """Record of a run's best policy.

    Attributes:
        iteration: Number of iterations it was trained for.
        validation_success: Fraction of solved validation levels, averaged over worlds.
        num_val_episodes: Number of validation levels per world.
    """

    iteration: int
    validation_success: float
    num_val_episodes: int

    @property
    def title(self) -> str:
        """Description for reports."""
        return f"best on validation levels, of iteration {self.iteration} ({self.validation_success:.3f})"

    def yields_to(self, other: BestPolicy) -> bool:
        """Returns whether another policy replaces it: one with more success, or with another number of levels."""
        return self.num_val_episodes != other.num_val_episodes or other.validation_success > self.validation_success


def best_policy(directory: Path) -> BestPolicy | None:
    """Returns the record of a run's best policy; None if missing or damaged."""
    if not has_model(directory / BEST):
        return None
    try:
        recorded = json.loads((directory / BEST / PROVENANCE).read_text(encoding="utf-8"))
        return BestPolicy(**{name: recorded[name] for name in BestPolicy.__dataclass_fields__})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def load_best(directory: Path, *, dtype: torch.dtype) -> Any:
    """Returns a run's best policy in host memory, without changing torch's random state."""
    with torch.random.fork_rng(devices=[]):
        model, _ = load_checkpoint(directory / BEST, dtype=dtype)
    return model


def save_best(
    directory: Path, best: BestPolicy, model: Any, encoder: ChatEncoder, learnt_with: Mapping[str, Any]
) -> None:
    """Atomically writes a run's best policy, replacing the previous one.

    Args:
        directory: Directory of the run.
        best: Record of the policy.
        model: Its model.
        encoder: Its chat format.
        learnt_with: Provenance, which is also written next to it.
    """
    save_model(directory / BEST, model, encoder, provenance={**learnt_with, **asdict(best)})


def load_for_training(directory: str | Path, config: RunConfig) -> tuple[Any, ChatEncoder]:
    """Returns a checkpoint's model, on the run's device and in its data type, and its chat format.

    Several processes store float32 weights regardless of the compute type, because their shards serve as masters. A
    relative path that does not exist is resolved against the checkout, where the recipes' own checkpoints are.

    Raises:
        FileNotFoundError: If the checkpoint does not exist.
    """
    dtype = getattr(torch, "float32" if num_processes() > 1 else config.dtype)
    model, encoder = load_checkpoint(model_directory(directory), dtype=dtype, attention=config.memory.attention)
    encoder.limit_pixels(config.sampling.max_image_pixels)
    return model.to(torch_device(config.device)), encoder
