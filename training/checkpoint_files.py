"""Where checkpoints are and how they get there, without torch, for which a mistake in the options must not wait.

A checkpoint is one directory, written under a temporary name and renamed when complete, so that a crash leaves either
the old one or the new one. The old one is moved out of the way first; a crash between the two renames is put right by
the next load or save.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

LATEST = "latest"
PROVENANCE = "provenance.json"
STATE = "state.pt"

_CHECKOUT = Path(__file__).resolve().parent.parent


def has_checkpoint(directory: Path) -> bool:
    """Returns whether there is a checkpoint, after bringing back one that a crash left moved aside."""
    _finish(directory)
    return (directory / STATE).is_file()


def model_directory(directory: str | Path) -> Path:
    """Returns where a model is; a relative path that does not exist here is looked for beside this package.

    There the recipes' own checkpoints are.

    Args:
        directory: What a configuration says.
    """
    path = Path(directory)
    return _CHECKOUT / path if not path.exists() and (_CHECKOUT / path).exists() else path


class replacing:
    """Gives a temporary directory and puts it in place of the target when the block succeeds."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._temporary = target.with_name(f".{target.name}.tmp")

    def __enter__(self) -> Path:
        _finish(self._target)
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir(parents=True)
        return self._temporary

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            return
        if self._target.exists():
            os.replace(self._target, _moved_aside(self._target))
        os.replace(self._temporary, self._target)
        shutil.rmtree(_moved_aside(self._target), ignore_errors=True)


def _moved_aside(target: Path) -> Path:
    """Returns where the old directory waits while the new one takes its place."""
    return target.with_name(f".{target.name}.old")


def _finish(target: Path) -> None:
    """Brings the old directory back if a crash came before the new one was in its place; else removes it."""
    old = _moved_aside(target)
    if old.exists() and not target.exists():
        os.replace(old, target)
    shutil.rmtree(old, ignore_errors=True)
