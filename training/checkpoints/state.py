"""Checkpoints: everything a run needs to go on as if it had never stopped.

A checkpoint is one directory, there as a whole or not at all (see `training.checkpoints.files`):

    model/            an ordinary transformers checkpoint, and in its provenance.json what it has learnt with
    state.pt          everything else, but for what follows where several processes wrote it
    shards/           tensors of models and optimisers, each written by who has it
    processes/<n>.pt  what is each process's own: where its sampling stands
    progress.json     how many iterations were done
    reference.json    where the reference policy is, see `training.checkpoints.reference`

One that several processes wrote can be gone on from by any other number, one alone included, and the other way round.
"""

from __future__ import annotations

import json
import pickle
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from agents.hf.chat import ChatEncoder
from agents.hf.checkpoint import PROVENANCE
from training.checkpoints.files import (
    COLD_START_STATE,
    PROGRESS,
    STATE,
    aside,
    has_checkpoint,
    opened_aside,
    put_in_place,
    removed_if_unfinished,
    replacing,
    require_run_state,
)
from training.checkpoints.reference import REFERENCE
from training.checkpoints.shards import LikeOf, joined, placed, read_tensors, split, write_tensors
from training.engines.engine import Engine
from training.engines.lora import has_adapters, merged_state
from vlm_envs.records.json_lines import replace_file, to_json

SHARDS, PROCESSES = "shards", "processes"


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
