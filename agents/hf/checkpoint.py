"""Checkpoint directories: whether they hold a model, how it was trained, and which device it can use; no torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.hf.sampling_config import SamplingConfig
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.records.json_lines import BrokenRunDataError, parse_object
from vlm_envs.records.run_data import STAGES
from vlm_envs.registration import creator_of, make
from vlm_envs.validation import did_you_mean

if TYPE_CHECKING:
    import torch


MODEL_TYPES = ("qwen2_5_vl", "qwen3_vl", "internvl", "smolvlm", "gemma3")
"""Supported model types: those of `agents.hf.model_families`, without importing torch."""

PROVENANCE = "provenance.json"
"""File in a model's directory that records its origin; it has no effect on its behavior."""

_WEIGHTS = (".safetensors", ".bin")

_DECIDING = (*_WEIGHTS, ".json", ".jinja", ".txt", ".model")
"""Files of a checkpoint that determine its responses."""

_STARTS = Path(__file__).resolve().parents[2] / "training" / "recipes" / "checkpoints"
"""Directory of the start checkpoints that recipes ship."""

OF_CHECKPOINTS = ("hf", "hf-told", "hf-blind", "vllm")
"""Agents that load a checkpoint."""

FORMAT_ARGUMENTS = ("prompt_format", "representation")
"""World arguments that determine how responses are written."""


def require_checkpoint(directory: str | Path) -> Path:
    """Returns a checkpoint's directory, if it exists and its model type is supported.

    Args:
        directory: Local directory with model, tokenizer, and image processor, as `save_pretrained` writes it.

    Raises:
        FileNotFoundError: If there is no checkpoint.
        ValueError: If its model type is not supported.
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
    """Refuses a checkpoint without weights.

    Raises:
        FileNotFoundError: If there are no weights.
    """
    if not any(path.suffix in _WEIGHTS for path in directory.iterdir()):
        expected = " or ".join(f"*{suffix}" for suffix in _WEIGHTS)
        raise FileNotFoundError(f"No weights at {directory}: expected {expected} next to config.json.")


def weights_digest(directory: str | Path) -> str:
    """Returns a hash of a checkpoint's weights and settings, which training changes.

    Its origin does not count: equal weights are one model, whichever run they are from.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(directory).iterdir()):
        if path.suffix in _DECIDING and path.name != PROVENANCE:
            digest.update(path.name.encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class LearntWorld:
    """A world that a checkpoint was trained on.

    Attributes:
        env_id: Its registered ID, with or without a prefix for the module that registers it.
        kwargs: Its arguments.
    """

    env_id: str
    kwargs: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its ID without the module prefix."""
        return self.env_id.rpartition(":")[2]


@dataclass(frozen=True, kw_only=True)
class Learnt:
    """The worlds and sampling settings that a checkpoint was trained with.

    Attributes:
        worlds: In recorded order; an ID may occur several times. Empty if not recorded.
        sampling: The recorded fields of `SamplingConfig`.
    """

    worlds: tuple[LearntWorld, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)


def shipped_start(recipe: str) -> Path:
    """Returns the directory of a recipe's start checkpoint.

    Raises:
        ConfigError: If there is none; the message suggests the closest name.
    """
    recipes = sorted(path.parent.name for path in _STARTS.glob("*/config.json"))
    if recipe not in recipes:
        raise ConfigError(
            f"The recipe {recipe!r} ships no start checkpoint.{did_you_mean(recipe, recipes)} Recipes that do: "
            f"{', '.join(recipes)}."
        )
    return _STARTS / recipe


def model_in(directory: str | Path) -> Path:
    """Returns the model's directory: `latest/model` for the directory of a run, otherwise the directory itself.

    Raises:
        ConfigError: If it is a staged run, in which each stage has a model.
    """
    path = Path(directory)
    latest = Path("latest", "model")
    stages = sorted(str(latest.parent) for latest in path.glob("*/latest")) if (path / STAGES).is_file() else []
    if stages:
        raise ConfigError(f"{path} is a staged run. Choose one of its stages: {', '.join(stages)}.")
    return path / latest if (path / latest / "config.json").is_file() else path


def with_model_in(agent: str) -> str:
    """Returns an agent's name with a run's directory replaced by its model's, such as `hf:runs/NAME/latest/model`.

    Raises:
        ConfigError: If it is a staged run, in which each stage has a model.
    """
    kind, _, part = agent.partition(":")
    return f"{kind}:{model_in(part)}" if kind in OF_CHECKPOINTS and part else agent


def learnt_with(model: Path) -> Learnt:
    """Returns the worlds and settings that a model was trained with; empty if no file records them.

    They are read from `provenance.json` in its directory, its own or its start's, or from `config.json` of its run.

    Args:
        model: Directory of the checkpoint.

    Raises:
        ConfigError: If such a file cannot be read.
    """
    path = model.resolve()
    files = [path / PROVENANCE]
    if path.name == "model" and path.parent.name in ("latest", "best"):
        files.append(path.parents[1] / "config.json")
    for file in filter(Path.is_file, files):
        if learnt := _learnt_in(file):
            return learnt
    return Learnt()


def format_differences(model: Path, env_id: str, kwargs: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Returns the `FORMAT_ARGUMENTS` in which a world differs from the one that a model was trained on.

    Args:
        model: Directory of the checkpoint.
        env_id: The world's registered id.
        kwargs: The world's arguments.

    Returns:
        For each differing argument, its values in training and in the world. Compares with the most similar world if
        the model was trained on several of this kind. Empty if nothing differs or the training is not on record.
    """
    try:
        own = _formats(env_id, kwargs)
        trained = [_formats(world.env_id, world.kwargs) for world in learnt_with(model).worlds if _is(world, env_id)]
    except (VLMEnvsError, LookupError, TypeError, OSError):
        return {}  # a training world cannot be made here; that must not stop the evaluation
    found = [{name: (then[name], own[name]) for name in own if then[name] != own[name]} for then in trained]
    return min(found, key=len, default={})


def _is(world: LearntWorld, env_id: str) -> bool:
    """Returns whether a world is the one registered under an id, or a variant of it."""
    return creator_of(world.env_id) is creator_of(env_id)


def _formats(env_id: str, kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Returns the values, defaults included, of those format arguments that a world has."""
    with closing(make(env_id, **kwargs, disable_env_checker=True)) as made:
        return {name: str(getattr(made.unwrapped, name)) for name in FORMAT_ARGUMENTS if hasattr(made.unwrapped, name)}


def _learnt_in(file: Path) -> Learnt | None:
    """Returns the record in a file; None if it has no worlds."""
    try:
        record = parse_object(file.read_bytes(), str(file))
    except BrokenRunDataError as error:
        raise ConfigError(str(error)) from error
    while "worlds" not in record and isinstance(record.get("started_from"), dict):
        record = record["started_from"]
    if "worlds" not in record:
        return None
    try:
        worlds = tuple(
            LearntWorld(env_id=str(world["env_id"]), kwargs=dict(world.get("kwargs", {}))) for world in record["worlds"]
        )
        sampling = dict(record.get("sampling", {}))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"Expected `worlds`, each with an `env_id` and `kwargs`, and `sampling` in {file}; got something else "
            f"({type(error).__name__}: {error}). Repair it, or move it away and set the world and its arguments."
        ) from error
    fields = SamplingConfig.__dataclass_fields__
    return Learnt(worlds=worlds, sampling={name: value for name, value in sampling.items() if name in fields})


def require_device(device: str) -> None:
    """Refuses a device that is not available.

    Args:
        device: `"auto"`, or torch's name of a device.

    Raises:
        ConfigError: If the device cannot be used.
    """
    if device in ("auto", "cpu"):
        return
    import torch  # imported late: this module works without torch

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(
            f"--device {device}: torch {torch.__version__} sees no CUDA GPU here. Use --device cpu, or --device auto, "
            "which uses a GPU if there is one."
        )
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"--device {device} cannot be used: {reason} Use --device cpu, cuda or auto.") from error


def torch_device(device: str) -> torch.device:
    """Returns the torch device for a name that `require_device` accepts; for `"auto"`, the GPU if there is one.

    On a GPU, this disables cuDNN attention in this process: it makes a new plan for each shape, and conversations grow
    by a token per step. Torch's other kernels accept any shape.
    """
    import torch

    require_device(device)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda"):
        torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device(device)
