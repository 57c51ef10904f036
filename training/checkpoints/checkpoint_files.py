"""Locations of checkpoints, atomic writes, and a run's reference policy; does not import torch.

A checkpoint is one directory, written under a temporary name and renamed when complete, so that a crash leaves either
the old one or the new one. The old one is moved out of the way first; a crash between the two renames is repaired by
the next load or save. The reference policy never changes: its path and a hash are kept, and no copy of its weights.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agents.hf.checkpoint import PROVENANCE
from vlm_envs.errors import ConfigError

COLD_START_STATE = "cold_start_state"
LATEST = "latest"
PROGRESS = "progress.json"
STATE = "state.pt"

_CHECKOUT = Path(__file__).resolve().parents[2]
REFERENCE = "reference.json"
_WEIGHTS = (".safetensors", ".bin")


def has_checkpoint(directory: Path) -> bool:
    """Returns whether a checkpoint exists, after restoring one that a crash left moved aside."""
    _finish(directory)
    return (directory / STATE).is_file()


def has_model(directory: Path) -> bool:
    """Returns whether a model with provenance exists, after restoring one that a crash left moved aside."""
    _finish(directory)
    return (directory / PROVENANCE).is_file()


def is_in_cold_start(run: Path) -> bool:
    """Returns whether a run ended in its cold start, with a checkpoint from which it can resume."""
    return not has_checkpoint(run / LATEST) and has_checkpoint(run / COLD_START_STATE)


def cold_start_model(run: Path) -> Path | None:
    """Returns the directory of the model that a run's cold start saved; None if there is none."""
    directory = run / "cold_start"
    return directory if (directory / "config.json").is_file() else None


def stands(directory: Path) -> bool:
    """Returns whether a checkpoint exists, possibly moved aside; repairs nothing, because others may be writing."""
    return any((path / STATE).is_file() for path in (directory, moved_aside(directory)))


def require_run_state(directory: Path) -> None:
    """Checks that a checkpoint to resume from exists.

    Raises:
        FileNotFoundError: If it does not exist.
    """
    if not has_checkpoint(directory):
        raise FileNotFoundError(
            f"No checkpoint at {directory}: expected a file {STATE}. A run writes its first one "
            "after the cold start, a fine-tuning after --checkpoint-every steps; start it again without --resume."
        )


def num_iterations_done(directory: Path) -> int | None:
    """Returns the number of iterations of a checkpoint without importing torch; None if it is not recorded.

    Args:
        directory: A checkpoint directory; it may be missing, damaged, or from before this was recorded.
    """
    try:
        done = json.loads((directory / PROGRESS).read_text(encoding="utf-8"))["iteration"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return done if isinstance(done, int) else None


def model_directory(directory: str | Path) -> Path:
    """Returns the directory of a model; a relative path that does not exist is resolved against the checkout.

    The recipes' own checkpoints are found this way.
    """
    path = Path(directory)
    return _CHECKOUT / path if not path.exists() and (_CHECKOUT / path).exists() else path


def provenance_of(model: str | Path) -> dict[str, Any] | None:
    """Returns the provenance recorded next to a model; None if missing or damaged."""
    try:
        made_from = json.loads((model_directory(model) / PROVENANCE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return made_from if isinstance(made_from, dict) else None


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yields a temporary directory and replaces the target with it if the block succeeds."""
    temporary = opened_aside(target)
    with removed_if_unfinished(temporary):
        yield temporary
    put_in_place(target)


@contextmanager
def removed_if_unfinished(temporary: Path) -> Iterator[None]:
    """Removes a directory if the block that writes it fails, to free space on a full disk."""
    try:
        yield
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def aside(target: Path) -> Path:
    """Returns the temporary path of a directory before it replaces the target."""
    return target.with_name(f".{target.name}.tmp")


def opened_aside(target: Path) -> Path:
    """Returns an empty temporary directory, after repairing leftovers of a crash."""
    _finish(target)
    temporary = aside(target)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    return temporary


def put_in_place(target: Path) -> None:
    """Replaces the target with its temporary directory, after syncing all files to disk."""
    temporary = aside(target)
    for folder, _, names in os.walk(temporary):
        paths = [Path(folder) / name for name in names]
        for path in paths:
            _follow_umask(path)
        for path in (*paths, Path(folder)):
            _sync(path)
    if target.exists():
        os.replace(target, moved_aside(target))
    os.replace(temporary, target)
    _sync(target.parent)
    shutil.rmtree(moved_aside(target), ignore_errors=True)


def _follow_umask(path: Path) -> None:
    """Gives a file the permissions of its folder, because safetensors ignores the umask."""
    mode, allowed = path.stat().st_mode, path.parent.stat().st_mode & 0o666
    if mode | allowed != mode:
        path.chmod(stat.S_IMODE(mode) | allowed)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def moved_aside(target: Path) -> Path:
    """Returns the path of the old directory while it is being replaced."""
    return target.with_name(f".{target.name}.old")


def _finish(target: Path) -> None:
    """Restores the old directory if a crash happened before the new one was in place; otherwise removes it."""
    old = moved_aside(target)
    if old.exists() and not target.exists():
        try:
            os.replace(old, target)
        except FileNotFoundError:  # another process of the run was faster
            if not target.exists():
                raise
    shutil.rmtree(old, ignore_errors=True)


def reference_of(model: Path, run: Path) -> dict[str, str]:
    """Returns the record of a reference: its path, relative if inside the run's directory, and a hash of its weights.

    Args:
        model: Directory of the checkpoint.
        run: Directory of the run.
    """
    path, home = model.resolve(), run.resolve()
    recorded = path.relative_to(home) if path.is_relative_to(home) else path
    return {"path": str(recorded), "sha256": weights_hash(path)}


def require_reference(run: Path, *, what: str = "The reference policy of --ppo.kl-coef") -> Path | None:
    """Returns the reference of a resumed run; None for a run without one, or with its own copy.

    Args:
        run: Directory of the run.
        what: Role of the reference, for messages.

    Raises:
        ConfigError: If it is missing or its weights have changed.
    """
    kept = kept_reference(run)
    if kept is None:
        return None
    model = run.resolve() / kept["path"]
    is_gone = not (model / "config.json").is_file()
    if is_gone or weights_hash(model) != kept["sha256"]:
        raise ConfigError(
            f"{what} is the checkpoint {model}, which "
            f"{'is gone' if is_gone else 'has other weights now'}. Restore it, or start another run from the trained "
            f"model: --model {run / LATEST / 'model'}."
        )
    return model


def kept_reference(run: Path) -> dict[str, str] | None:
    """Returns the record of the reference in a run's checkpoint; None for a run without one, or with its own copy."""
    path = run / LATEST / REFERENCE
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def weights_hash(model: Path) -> str:
    """Returns a hash of a checkpoint's weights."""
    digest = hashlib.sha256()
    for path in sorted(path for path in model.iterdir() if path.suffix in _WEIGHTS):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
