"""One writer at a time: a folder that is locked until its process lets go or is gone, however it went."""

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
    """A folder that nobody else can lock.

    Args:
        directory: The folder.
        file: What is locked in its place; None for a file in it, for which it must be there.

    Raises:
        BusyFolderError: If somebody has it.
        OSError: If nothing can be written there.
    """

    def __init__(self, directory: Path, *, file: Path | None = None) -> None:
        self._path = directory / LOCK if file is None else file
        while True:
            self._file = self._path.open("a+", encoding="ascii")
            self._take(directory)
            if _is_at(self._file, self._path):
                break
            self._file.close()  # whoever had it took the file away meanwhile
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
                f"Another command is writing to {directory} (process {whose}). Wait until it is through, or name "
                "another folder."
            ) from error

    def release(self, *, leaves_file: bool = True) -> None:
        """Lets go; harmless to call twice.

        Args:
            leaves_file: Whether what was locked stays where it is.
        """
        if not leaves_file and not self._file.closed:
            self._path.unlink(missing_ok=True)
        self._file.close()


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Has nobody else write to a folder that may not be there yet; what is locked is a file beside it.

    Folders that were made for that file are gone afterwards if nothing else is in them.

    Raises:
        BusyFolderError: If somebody does.
        OSError: If nothing can be written there.
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
    """Returns whether an open file is still what is at a path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
