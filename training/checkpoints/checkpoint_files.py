"""Where checkpoints are, how they are written atomically, and a run's reference policy. Does not import torch.

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
    """Returns whether there is a checkpoint, after bringing back one that a crash left moved aside."""
    _finish(directory)
    return (directory / STATE).is_file()


def has_model(directory: Path) -> bool:
    """Returns whether there is a model that says what it is, after bringing back one that a crash left moved aside."""
    _finish(directory)
    return (directory / PROVENANCE).is_file()


def is_in_cold_start(run: Path) -> bool:
    """Returns whether a run was ended in its cold start, with a checkpoint of that to go on from."""
    return not has_checkpoint(run / LATEST) and has_checkpoint(run / COLD_START_STATE)


def cold_start_model(run: Path) -> Path | None:
    """Returns where the model is that a run's cold start saved; None if it has not saved one."""
    directory = run / "cold_start"
    return directory if (directory / "config.json").is_file() else None


def stands(directory: Path) -> bool:
    """Returns whether there is a checkpoint, or one that waits aside; nothing is put right: others may be writing."""
    return any((each / STATE).is_file() for each in (directory, moved_aside(directory)))


def require_run_state(directory: Path) -> None:
    """Refuses to go on from a checkpoint that is not there.

    Raises:
        FileNotFoundError: If there is none.
    """
    if not has_checkpoint(directory):
        raise FileNotFoundError(
            f"No checkpoint at {directory}: expected a file {STATE}. A run writes its first one "
            "after the cold start, a fine-tuning after --checkpoint-every steps; start it again without --resume."
        )


def num_iterations_done(directory: Path) -> int | None:
    """Returns how many iterations a checkpoint is of, or None where only its state tells, which takes torch to read.

    Args:
        directory: A checkpoint directory; it may be missing, damaged, or of a time when this was not written down.
    """
    try:
        done = json.loads((directory / PROGRESS).read_text(encoding="utf-8"))["iteration"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return done if isinstance(done, int) else None


def model_directory(directory: str | Path) -> Path:
    """Returns where a model is; a relative path that does not exist here is looked for beside this package.

    There the recipes' own checkpoints are.
    """
    path = Path(directory)
    return _CHECKOUT / path if not path.exists() and (_CHECKOUT / path).exists() else path


def provenance_of(model: str | Path) -> dict[str, Any] | None:
    """Returns what is written down beside a model of what it was made from; None if that is nothing or damaged."""
    try:
        made_from = json.loads((model_directory(model) / PROVENANCE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return made_from if isinstance(made_from, dict) else None


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Gives a temporary directory and puts it in place of the target when the block succeeds."""
    temporary = opened_aside(target)
    with removed_if_unfinished(temporary):
        yield temporary
    put_in_place(target)


@contextmanager
def removed_if_unfinished(temporary: Path) -> Iterator[None]:
    """Removes a directory if the block that writes it fails: on a full disk it would take what room there is."""
    try:
        yield
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def aside(target: Path) -> Path:
    """Returns where a directory is written before it takes the target's place."""
    return target.with_name(f".{target.name}.tmp")


def opened_aside(target: Path) -> Path:
    """Returns an empty directory to be written, after what an earlier crash left is put right."""
    _finish(target)
    temporary = aside(target)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    return temporary


def put_in_place(target: Path) -> None:
    """Puts what was written aside in place of the target, once all of it would survive the loss of power."""
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
    """Opens a file to those whom its folder, made under the umask, is open to: safetensors lets in its owner alone."""
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
    """Returns where the old directory waits while the new one takes its place."""
    return target.with_name(f".{target.name}.old")


def _finish(target: Path) -> None:
    """Brings the old directory back if a crash came before the new one was in its place; else removes it."""
    old = moved_aside(target)
    if old.exists() and not target.exists():
        try:
            os.replace(old, target)
        except FileNotFoundError:  # another process of the run was sooner
            if not target.exists():
                raise
    shutil.rmtree(old, ignore_errors=True)


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
