"""Checkpoints: everything a run needs to go on as if it had never stopped.

A checkpoint is one directory, there as a whole or not at all (see `training.checkpoints.files`). `model/` inside it is
an ordinary transformers checkpoint.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import torch

from agents.hf.chat import ChatEncoder
from training.checkpoints.files import PROGRESS, PROVENANCE, STATE, replacing, require_run_state
from training.engines.lora import has_adapters, merged_state
from vlm_envs.records.json_lines import replace_file


def save_model(directory: Path, model: Any, encoder: ChatEncoder, *, provenance: dict[str, Any] | None = None) -> None:
    """Writes model, tokenizer and image processor as `from_pretrained` reads them, in place of what was there.

    All or nothing; `provenance`, what the model was made from, is written beside it.
    """
    with replacing(directory) as temporary:
        _write_model(temporary, model, encoder)
        if provenance is not None:
            save_provenance(temporary, provenance)


def save_provenance(directory: Path, provenance: dict[str, Any]) -> None:
    """Writes beside a model what it was made from, in place of what was written before, all or nothing."""
    replace_file(directory / PROVENANCE, (json.dumps(provenance, indent=2) + "\n").encode())


def save_checkpoint(directory: Path, state: dict[str, Any], model: Any, encoder: ChatEncoder) -> None:
    """Writes a checkpoint in place of an earlier one, all or nothing; others can load the model in it."""
    with replacing(directory) as temporary:
        _write_model(temporary / "model", model, encoder)
        torch.save(state, temporary / STATE)
        if "iteration" in state:
            replace_file(temporary / PROGRESS, (json.dumps({"iteration": state["iteration"]}) + "\n").encode())


def copied(state: Any) -> Any:
    """Returns a state whose tensors are copies in the host's memory, safe from what happens to the models.

    Args:
        state: Nested dictionaries, lists and tuples, as `state_dict` gives them. What stands under `"reference"` never
            changes and is not copied.
    """
    if isinstance(state, torch.Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        return {key: value if key == "reference" else copied(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(map(copied, state))
    return state


def load_checkpoint_state(directory: Path) -> dict[str, Any]:
    """Returns the state of a checkpoint.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is damaged.
    """
    path = directory / STATE
    require_run_state(directory)
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise ValueError(f"The checkpoint {path} is damaged: {error}") from error
    return state


def _write_model(directory: Path, model: Any, encoder: ChatEncoder) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(directory, state_dict=merged_state(model) if has_adapters(model) else None)
    encoder.save_processor(directory)
