"""One writer at a time: a folder is locked until its process releases it or ends, for any reason."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from vlm_envs.records.json_lines import RunDataError

LOCK = ".lock"


class BusyFolderError(RunDataError, BlockingIOError):
    """Another process is writing to a folder."""


class FolderLock:
    """A lock on a folder that excludes other processes.

    Args:
        directory: The folder.
        file: File that is locked instead; None for a file in the folder, which must exist.

    Raises:
        BusyFolderError: If another process holds the lock.
        OSError: If the folder is not writable.
    """

    def __init__(self, directory: Path, *, file: Path | None = None) -> None:
        self._path = directory / LOCK if file is None else file
        while True:
            self._file = self._path.open("a+", encoding="ascii")
            self._take(directory)
            if _is_at(self._file, self._path):
                break
            self._file.close()  # the previous holder deleted the file in the meantime
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def _take(self, directory: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.seek(0)
            whose = self._file.read().strip() or "unknown"
            self._file.close()
            raise BusyFolderError(
                f"Another command is writing to {directory} (process {whose}). Wait until it has finished, or name "
                "another folder."
            ) from error

    def release(self, *, leaves_file: bool = True) -> None:
        """Releases the lock; may be called repeatedly.

        Args:
            leaves_file: Whether the locked file is kept.
        """
        if not leaves_file and not self._file.closed:
            self._path.unlink(missing_ok=True)
        self._file.close()


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Excludes other writers from a folder that may not exist yet, by locking a file next to it.

    Folders created for that file are removed afterwards if they are empty.

    Raises:
        BusyFolderError: If another process is writing to the folder.
        OSError: If the parent folder is not writable.
    """
    made = [parent for parent in directory.parents if not parent.exists()]
    directory.parent.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(directory, file=directory.with_name(f".{directory.name}{LOCK}"))
    try:
        yield
    finally:
        lock.release(leaves_file=False)
        with suppress(OSError):
            for folder in made:
                folder.rmdir()


def _is_at(file: IO[str], path: Path) -> bool:
    """Returns whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
