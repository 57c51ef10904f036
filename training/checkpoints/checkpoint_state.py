"""The state of a run on disk: everything needed to resume it exactly, and its best policy.

A checkpoint is one directory, complete or absent (see `training.checkpoints.checkpoint_files`):

    model/            an ordinary transformers checkpoint, and in its provenance.json what it has learnt with
    state.pt          everything else, except what follows where several processes wrote it
    shards/           tensors of models and optimizers, each written by the process that has it
    processes/<n>.pt  what is each process's own: where its sampling stands
    progress.json     how many iterations were done
    reference.json    where the reference policy is, see `reference_of`

A checkpoint of several processes can be resumed with any other number of processes, and the other way round:
`torch.distributed.checkpoint` writes and reads the shards. A nested state is split into its tensors, by name, and a
skeleton that says where each belongs. The best policy, the one that solved most validation levels, is kept in the same
way, with a file next to its weights that says which one it is.
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
"""For the name of a tensor, one of the same shape, as it is shared out here; None for one that is whole everywhere."""

_PLACE = "__tensor__"
BEST = Path("best") / "model"
"""Where it is within a run's folder."""


def save_model(directory: Path, model: Any, encoder: ChatEncoder, *, provenance: dict[str, Any] | None = None) -> None:
    """Writes model, tokenizer and image processor as `from_pretrained` reads them, in place of what was there.

    All or nothing; `provenance`, what the model was made from, is written beside it.
    """
    with replacing(directory) as temporary:
        _write_model(temporary, model, encoder, provenance)


def save_provenance(directory: Path, provenance: dict[str, Any]) -> None:
    """Writes beside a model what it was made from, in place of what was written before, all or nothing."""
    replace_file(directory / PROVENANCE, (json.dumps(to_json(provenance), indent=2) + "\n").encode())


def save_checkpoint(
    directory: Path,
    state: dict[str, Any],
    model: Any,
    encoder: ChatEncoder,
    *,
    provenance: dict[str, Any] | None = None,
) -> None:
    """Writes a checkpoint in place of an earlier one, all or nothing; others can load the model in it.

    `provenance`, what the model was made from, is written beside it.
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
    """Writes a checkpoint by all processes, in place of an earlier one, all or nothing.

    Args:
        directory: Where all of them find it.
        engine: The processes.
        state: What they share; under `"learner"` each has its part of every tensor.
        own: What this process alone has.
        model: Whole, as others can load it.
        encoder: Its chat format.
        provenance: What it was made from.
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
    """Returns a state whose tensors are copies in the host's memory, safe from what happens to the models.

    Args:
        state: Nested dictionaries, lists and tuples, as `state_dict` gives them.
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
    """Returns the state of a checkpoint, whoever wrote it, as this process needs it.

    Args:
        directory: The checkpoint.
        engine: The processes that read it together, where there are several.
        like: For the name of one of the learner's tensors, which one here it has the shape and placement of; None
            reads whole tensors.

    Returns:
        The state. Of several processes each has what was its own; a process that was not there has None.

    Raises:
        FileNotFoundError: If there is none.
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
    """Writes where a run's cold start stands, in place of an earlier state, all or nothing."""
    with replacing(run / COLD_START_STATE) as temporary:
        torch.save(state, temporary / STATE)


def load_cold_start_state(run: Path) -> dict[str, Any] | None:
    """Returns where a run's cold start stands; None if it has not come to a checkpoint.

    Raises:
        ValueError: If the checkpoint is damaged.
    """
    directory = run / COLD_START_STATE
    return _read(directory / STATE) if has_checkpoint(directory) else None


def iterations_done(directory: Path) -> int:
    """Returns how many iterations a checkpoint is of.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is damaged.
    """
    require_run_state(directory)
    return int(_read(directory / STATE, mmap=True)["iteration"])


def _read(path: Path, *, mmap: bool = False) -> dict[str, Any]:
    """Reads a state, or with `mmap` lays it out to be read where it is asked for, without room for all of it."""
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


@dataclass(frozen=True, kw_only=True)
class BestPolicy:
    """Which policy it is.

    Attributes:
        iteration: Iterations it was trained for.
        validation_success: Fraction of validation levels it solved, the mean over worlds.
        num_val_episodes: On how many levels of each.
    """

    iteration: int
    validation_success: float
    num_val_episodes: int

    @property
    def title(self) -> str:
        """What it is, in words."""
        return f"best on validation levels, of iteration {self.iteration} ({self.validation_success:.3f})"

    def yields_to(self, other: BestPolicy) -> bool:
        """Returns whether another takes its place: one that solved more, or that was measured on other levels."""
        return self.num_val_episodes != other.num_val_episodes or other.validation_success > self.validation_success


def best_policy(directory: Path) -> BestPolicy | None:
    """Returns which policy of a run is kept as its best; None if there is none, or what is there says nothing."""
    if not has_model(directory / BEST):
        return None
    try:
        known = json.loads((directory / BEST / PROVENANCE).read_text(encoding="utf-8"))
        return BestPolicy(**{name: known[name] for name in BestPolicy.__dataclass_fields__})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def load_best(directory: Path, *, dtype: torch.dtype) -> Any:
    """Returns a run's best policy, in the host's memory; what is drawn behind it is as if nothing had been loaded."""
    with torch.random.fork_rng(devices=[]):
        model, _ = load_checkpoint(directory / BEST, dtype=dtype)
    return model


def save_best(
    directory: Path, best: BestPolicy, model: Any, encoder: ChatEncoder, learnt_with: Mapping[str, Any]
) -> None:
    """Writes a policy in place of the one that was a run's best, all or nothing.

    Args:
        directory: The run's.
        best: Which policy it is.
        model: Its model.
        encoder: Its chat format.
        learnt_with: What it has learnt with, which is written beside it, too.
    """
    save_model(directory / BEST, model, encoder, provenance={**learnt_with, **asdict(best)})


def load_for_training(directory: str | Path, config: RunConfig) -> tuple[Any, ChatEncoder]:
    """Returns a checkpoint's model, on the run's device and in its type, and its chat format.

    Several processes keep float32 weights, whatever type they compute with: parts of them stand for masters.
    A relative path that does not exist here is looked for beside this package, where the recipes' own checkpoints are.

    Raises:
        FileNotFoundError: If there is no checkpoint.
    """
    dtype = getattr(torch, "float32" if num_processes() > 1 else config.dtype)
    model, encoder = load_checkpoint(model_directory(directory), dtype=dtype, attention=config.memory.attention)
    encoder.limit_pixels(config.sampling.max_image_pixels)
    return model.to(torch_device(config.device)), encoder
