"""Where a run's reference policy is, which never changes: its place and a hash are kept, and no copy of its weights."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from training.checkpoints.files import LATEST
from vlm_envs.errors import ConfigError

REFERENCE = "reference.json"
_WEIGHTS = (".safetensors", ".bin")


def reference_of(model: Path, run: Path) -> dict[str, str]:
    """Returns what is kept of a reference: its place, within the run's directory if it is there, and its weights' hash.

    Args:
        model: Directory of the checkpoint.
        run: Directory of the run.
    """
    path, home = model.resolve(), run.resolve()
    place = path.relative_to(home) if path.is_relative_to(home) else path
    return {"path": str(place), "sha256": weights_hash(path)}


def require_reference(run: Path, *, what: str = "The policy that --ppo.kl-coef holds this run to") -> Path | None:
    """Returns where the reference of a run that goes on is; None for a run without one, or that has a copy of it.

    Args:
        run: Directory of the run.
        what: What it is to the run, for messages.

    Raises:
        ConfigError: If it is gone or its weights have changed.
    """
    kept = kept_reference(run)
    if kept is None:
        return None
    model = run.resolve() / kept["path"]
    is_gone = not (model / "config.json").is_file()
    if is_gone or weights_hash(model) != kept["sha256"]:
        raise ConfigError(
            f"{what} is the checkpoint {model}, which "
            f"{'is gone' if is_gone else 'has other weights now'}. Put it back as it was, or start another run from "
            f"what was learnt: --model {run / LATEST / 'model'}."
        )
    return model


def kept_reference(run: Path) -> dict[str, str] | None:
    """Returns what a run's checkpoint keeps of its reference; None for a run without one, or that has a copy of it."""
    path = run / LATEST / REFERENCE
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def weights_hash(model: Path) -> str:
    """Returns a hash of a checkpoint's weights."""
    digest = hashlib.sha256()
    for path in sorted(each for each in model.iterdir() if each.suffix in _WEIGHTS):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
