"""Which directories hold a model that can be spoken to; found out without loading it, or what loads it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

MODEL_TYPES = ("qwen2_5_vl", "qwen3_vl", "internvl", "smolvlm", "gemma3")
"""Types of models that can be spoken to: those of `agents.hf.families.registry`, here without torch."""

PROVENANCE = "provenance.json"
"""What a model was made from, beside it; it decides nothing."""

_WEIGHTS = (".safetensors", ".bin")

_DECIDING = (*_WEIGHTS, ".json", ".jinja", ".txt", ".model")
"""Files of a checkpoint that decide what it says."""


def require_checkpoint(directory: str | Path) -> Path:
    """Returns a checkpoint's directory, if one is there and of a model that we can speak to.

    Args:
        directory: Local directory with model, tokenizer and image processor, as `save_pretrained` writes it.

    Raises:
        FileNotFoundError: If there is no checkpoint there.
        ValueError: If it is of no family that is known.
    """
    path = Path(directory)
    if not (path / "config.json").is_file():
        raise FileNotFoundError(
            f"No checkpoint at {path}: expected a directory with config.json, weights, tokenizer and "
            "preprocessor_config.json, as `save_pretrained` writes it."
        )
    try:
        model_type = json.loads((path / "config.json").read_text(encoding="utf-8")).get("model_type")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{path / 'config.json'} is not a model configuration: {error}") from error
    if model_type not in MODEL_TYPES:
        raise ValueError(
            f"Expected a checkpoint of model_type {', '.join(MODEL_TYPES[:-1])} or {MODEL_TYPES[-1]} at {path}; got "
            f"{model_type!r}. The model of a run is in its directory latest/model."
        )
    return path


def require_weights(directory: Path) -> None:
    """Refuses a checkpoint that has settings alone.

    Raises:
        FileNotFoundError: If no weights are there.
    """
    if not any(path.suffix in _WEIGHTS for path in directory.iterdir()):
        raise FileNotFoundError(
            f"No weights at {directory}: expected {' or '.join(f'*{each}' for each in _WEIGHTS)} beside config.json."
        )


def weights_digest(directory: str | Path) -> str:
    """Returns a hash of a checkpoint's weights and settings, which changes once it is trained on.

    What it was made from does not count: equal weights are one model, whichever run they are of.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(directory).iterdir()):
        if path.suffix in _DECIDING and path.name != PROVENANCE:
            digest.update(path.name.encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
