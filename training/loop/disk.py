"""A full disk: told apart from other failures, and told of in one line that says what is saved and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from training.checkpoints.files import LATEST, cold_start_model, has_checkpoint, is_in_cold_start, num_iterations_done
from training.errors import DiskFullError, PeerError

_FULL_DISK_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_DISK_MESSAGES = ("No space left on device", "os error 28", "PytorchStreamWriter failed", "unexpected pos")
"""What safetensors and torch say of it, whose errors have no number."""
_FREE = "free some space, or move the folder"


def is_disk_full(error: BaseException) -> bool:
    """Returns whether something could not be written for lack of space, here: another process tells of its own."""
    if isinstance(error, PeerError):
        return False
    if isinstance(error, OSError) and error.errno in _FULL_DISK_ERRNOS:
        return True
    return any(each in str(error) for each in _FULL_DISK_MESSAGES)


@contextmanager
def full_disk_told(directory: Path) -> Iterator[None]:
    """Raises what says that a run's disk is full, if it is within the block, what is saved, and what to do.

    Args:
        directory: The run's.

    Raises:
        DiskFullError: In place of whatever could not be written.
    """
    try:
        yield
    except Exception as error:
        if not is_disk_full(error):
            raise
        raise DiskFullError(f"No space left to write to {directory.resolve()}. {_saved_in(directory)}") from error


def _saved_in(directory: Path) -> str:
    latest = directory / LATEST
    if has_checkpoint(latest):
        done = num_iterations_done(latest)
        as_of = "" if done is None else f", as of {done} iterations"
        return f"Its last checkpoint is whole{as_of}: {_FREE}, and go on with --resume."
    if is_in_cold_start(directory):
        return f"The last checkpoint of its cold start is whole: {_FREE}, and go on with --resume."
    if (learnt := cold_start_model(directory)) is not None:
        return f"Free some space and start again from what the cold start learnt: --model {learnt}."
    return "It has no checkpoint yet: free some space, or name another folder with --output, and start again."
