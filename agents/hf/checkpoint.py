"""Checkpoint directories: whether they hold a model, what it was trained with, and which device it fits; no torch."""

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
"""Types of models that can be spoken to: those of `agents.hf.model_families`, here without torch."""

PROVENANCE = "provenance.json"
"""What a model was made from, beside it; it decides nothing."""

_WEIGHTS = (".safetensors", ".bin")

_DECIDING = (*_WEIGHTS, ".json", ".jinja", ".txt", ".model")
"""Files of a checkpoint that decide what it says."""

_STARTS = Path(__file__).resolve().parents[2] / "training" / "recipes" / "checkpoints"
"""Where the starts are that recipes ship."""

OF_CHECKPOINTS = ("hf", "hf-told", "hf-blind", "vllm")
"""Agents that are made from a checkpoint."""

FORMAT_ARGUMENTS = ("prompt_format", "representation")
"""World arguments that determine how responses are written."""


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


@dataclass(frozen=True, kw_only=True)
class LearntWorld:
    """A world that a checkpoint has learnt.

    Attributes:
        env_id: Its registered id, with or without the module that registers it in front.
        kwargs: The arguments it was made with.
    """

    env_id: str
    kwargs: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its id without a module in front."""
        return self.env_id.rpartition(":")[2]


@dataclass(frozen=True, kw_only=True)
class Learnt:
    """What a checkpoint has learnt with.

    Attributes:
        worlds: In the order in which they were written down; an id may occur several times. Empty if that is not known.
        sampling: Fields of `SamplingConfig`, as far as they are known.
    """

    worlds: tuple[LearntWorld, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)


def shipped_start(recipe: str) -> Path:
    """Returns the directory of the start that a recipe ships.

    Raises:
        ConfigError: If there is none; it names the closest one.
    """
    known = sorted(path.parent.name for path in _STARTS.glob("*/config.json"))
    if recipe not in known:
        raise ConfigError(
            f"No start ships for a recipe {recipe!r}.{did_you_mean(recipe, known)} There are: {', '.join(known)}."
        )
    return _STARTS / recipe


def model_in(directory: str | Path) -> Path:
    """Returns where the model is that a directory is named for: of a run that of its latest checkpoint, else itself.

    Raises:
        ConfigError: If it is a run of stages, each of which has a model.
    """
    path = Path(directory)
    latest = Path("latest", "model")
    stages = sorted(str(each.parent) for each in path.glob("*/latest")) if (path / STAGES).is_file() else []
    if stages:
        raise ConfigError(f"{path} is a run of stages. Name one of them: {', '.join(stages)}.")
    return path / latest if (path / latest / "config.json").is_file() else path


def with_model_in(agent: str) -> str:
    """Returns an agent's name with a run's directory replaced by that of its model, as in `hf:runs/NAME/latest/model`.

    Raises:
        ConfigError: If it is a run of stages, each of which has a model.
    """
    kind, _, part = agent.partition(":")
    return f"{kind}:{model_in(part)}" if kind in OF_CHECKPOINTS and part else agent


def learnt_with(model: Path) -> Learnt:
    """Returns what a model has learnt with; nothing where no file says so.

    That is the `provenance.json` beside it, or of what it started from; else the `config.json` of the run it is in.

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
    """Returns what a file says; None if that is nothing."""
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
            LearntWorld(env_id=str(each["env_id"]), kwargs=dict(each.get("kwargs", {}))) for each in record["worlds"]
        )
        sampling = dict(record.get("sampling", {}))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"Expected `worlds`, each with an `env_id` and `kwargs`, and `sampling` in {file}; got something else "
            f"({type(error).__name__}: {error}). Repair it, or move it away and name the world and its arguments."
        ) from error
    known = SamplingConfig.__dataclass_fields__
    return Learnt(worlds=worlds, sampling={name: value for name, value in sampling.items() if name in known})


def require_device(device: str) -> None:
    """Refuses a device that is not there.

    Args:
        device: `"auto"`, or a name that torch knows.

    Raises:
        ConfigError: If nothing can be put there.
    """
    if device in ("auto", "cpu"):
        return
    import torch  # Only now, and nothing built on it

    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(
            f"--device {device}: torch {torch.__version__} sees no CUDA GPU here. Use --device cpu, or --device auto, "
            "which takes a GPU where there is one."
        )
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"--device {device} cannot be used: {reason} Use --device cpu, cuda or auto.") from error


def torch_device(device: str) -> torch.device:
    """Returns torch's device of a name that `require_device` takes; of `"auto"`, the GPU if there is one.

    If it is a GPU, this process's attention goes without cuDNN from here on: it plans anew for each shape, and
    conversations are a token longer in each step. Torch's other kernels take any shape.
    """
    import torch

    require_device(device)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda"):
        torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device(device)
