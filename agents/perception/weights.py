"""Loading of models, tokenizers, and image processors from local directories, with errors that name missing files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from vlm_envs.errors import EngineUnavailableError

TOKENIZER_FILES = ("tokenizer.json", "vocab.txt")
PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")


class WeightsUnavailableError(EngineUnavailableError):
    """A perception model's weights, or the package that reads them, are not on this machine."""


def folder_of(variable: str, model: str, *, without: str) -> Path:
    """Returns the folder that an environment variable names.

    Args:
        variable: The environment variable.
        model: The model that needs it, for the message.
        without: The alternative without weights, one sentence.

    Raises:
        WeightsUnavailableError: If the variable is not set.
    """
    folder = os.environ.get(variable)
    if not folder:
        raise WeightsUnavailableError(
            f"{model} needs weights on this machine; set {variable} to their folder. Nothing is downloaded. {without}"
        )
    return Path(folder)


def require_files(folder: Path, names: Iterable[str], remedy: str) -> None:
    """Raises unless a folder has all the files a model needs.

    Args:
        folder: The model's folder.
        names: Required files or folders in it.
        remedy: Where to get them, one sentence.

    Raises:
        WeightsUnavailableError: If any is missing.
    """
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise WeightsUnavailableError(f"No {', '.join(missing)} in {folder}. {remedy}")


def load_model(model_class: Any, directory: str | Path, *, model_type: str) -> Any:
    """Returns a transformers model in evaluation mode and in float32, whatever the type of its checkpoint.

    Args:
        model_class: Its class.
        directory: Directory with config.json and weights.
        model_type: Expected `model_type` of config.json.

    Raises:
        WeightsUnavailableError: If there is no such model, or some of its weights are missing, which transformers would
            silently initialize at random.
    """
    path = Path(directory)
    found = _model_type(path)
    if found != model_type:
        raise WeightsUnavailableError(f"Expected a model of type {model_type!r} in {path}; config.json has {found!r}.")
    try:
        model, info = model_class.from_pretrained(
            path, local_files_only=True, output_loading_info=True, dtype=torch.float32
        )
    except (OSError, SafetensorError, RuntimeError, ValueError) as error:
        raise WeightsUnavailableError(f"The weights in {path} are missing or damaged: {error}") from error
    if info["missing_keys"]:
        missing = sorted(info["missing_keys"])
        raise WeightsUnavailableError(
            f"The weights in {path} lack {len(missing)} tensors of a {model_type} model, such as {missing[0]}. Copy "
            "the whole published directory there."
        )
    return model.eval()


def load_part(part_class: Any, directory: str | Path, *, one_of: Sequence[str]) -> Any:
    """Returns a model's tokenizer or image processor.

    Args:
        part_class: Its class.
        directory: The model's directory.
        one_of: Files of which one must exist; without any, transformers creates a tokenizer with an empty vocabulary.

    Raises:
        WeightsUnavailableError: If its files are missing or cannot be read.
    """
    if not any((Path(directory) / name).is_file() for name in one_of):
        raise WeightsUnavailableError(
            f"Found no {' or '.join(one_of)} in {directory}; copy the whole published directory there."
        )
    try:
        return part_class.from_pretrained(directory, local_files_only=True)
    except (OSError, ValueError) as error:
        raise WeightsUnavailableError(f"{one_of[0]} in {directory} cannot be read: {error}") from error


def _model_type(path: Path) -> str:
    """Returns the `model_type` of a directory."""
    config = path / "config.json"
    if not config.is_file():
        raise WeightsUnavailableError(
            f"No weights in {path}: expected a directory with config.json, model.safetensors, and tokenizer or "
            "processor files, as `save_pretrained` writes them. Nothing is downloaded."
        )
    try:
        return str(json.loads(config.read_text(encoding="utf-8")).get("model_type"))
    except (ValueError, AttributeError) as error:
        raise WeightsUnavailableError(f"{config} is not a model configuration: {error}") from error
