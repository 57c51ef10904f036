"""One writer at a time: a folder that is locked until its process lets go or is gone, however it went."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Self

from vlm_envs.records.json_lines import RunDataError

LOCK = ".lock"


class BusyFolderError(RunDataError, BlockingIOError):
    """Another process is writing to a folder."""


class FolderLock:
    """A folder that nobody else can lock; within `with`, or until `release`.

    Args:
        directory: The folder; it must be there.

    Raises:
        BusyFolderError: If somebody has it.
        OSError: If nothing can be written into it.
    """

    def __init__(self, directory: Path) -> None:
        self._file = (directory / LOCK).open("a+", encoding="ascii")
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
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        """Lets go; harmless to call twice."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
