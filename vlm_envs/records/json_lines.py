"""Files of JSON objects, one per line: appended to line by line, replaced as a whole, readable even after a crash."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

Record = dict[str, Any]

TEMPORARY = ".tmp"
"""Suffix of the name of a file that is not complete yet; a killed process may leave one behind."""


class RunDataError(Exception):
    """Base class of errors about run directories."""


class MissingRunDataError(RunDataError, FileNotFoundError):
    """A run directory lacks the requested data."""


class BrokenRunDataError(RunDataError, ValueError):
    """A file of a run cannot be read."""


class RunExistsError(RunDataError, FileExistsError):
    """A new run would be written into the directory of another one."""


def to_json(value: Any) -> Any:
    """Returns a value that consists of JSON types only; numbers that are not finite become None.

    Args:
        value: Nested mappings, sequences, sets, dataclasses, enums, paths, NumPy scalars and arrays, and
            scalars.

    Raises:
        TypeError: If it contains another type.
    """
    if isinstance(value, Enum):
        return to_json(value.value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (np.ndarray, np.generic)):
        return to_json(value.tolist())
    if isinstance(value, Path):
        return value.as_posix()
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(to_json, value), key=repr)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    raise TypeError(f"Run data must consist of JSON types; got {value!r} of type {type(value).__name__}.")


def line_of(record: Mapping[str, Any]) -> bytes:
    """Returns a record as a line of a file."""
    # ASCII only: unpaired surrogates, which sampled text can contain, have no UTF-8 form
    return (json.dumps(to_json(record), allow_nan=False, separators=(",", ":")) + "\n").encode("ascii")


def append_line(path: Path, record: Mapping[str, Any], *, sync: bool = False) -> None:
    """Appends a line to a file, completely or not at all unless the process is killed.

    Args:
        path: The file; created if it does not exist.
        record: The line.
        sync: Whether the line must also survive a power failure.
    """
    line = memoryview(line_of(record))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        size = file.tell()
        try:
            while line:
                line = line[file.write(line) :]
            if sync:
                os.fsync(file.fileno())
        except BaseException:  # a full disk, Ctrl-C: the next line must not be appended to half a line
            file.truncate(size)
            raise


def replace_file(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Writes a whole file such that no reader ever sees a part of it.

    Args:
        path: The file.
        content: Its new content.
        sync: Whether the file must also survive a power failure.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}{TEMPORARY}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def filter_lines(path: Path, keep: Callable[[Record], bool]) -> list[Record]:
    """Rewrites a file with the lines to keep and returns the others."""
    if not path.exists():
        return []
    lines = read_lines(path)
    replace_file(path, b"".join(line_of(line) for line in lines if keep(line)))
    return [line for line in lines if not keep(line)]


def read_lines(path: Path) -> list[Record]:
    """Reads a file of lines, without an incomplete last one; returns an empty list if the file does not exist."""
    if not path.exists():
        return []
    *lines, last = path.read_bytes().split(b"\n")
    records = [
        parse_object(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1) if line.strip()
    ]
    try:
        return [*records, parse_object(last, str(path))]
    except BrokenRunDataError:  # empty after the newline of a complete line, or truncated by a crash
        return records


def each_line(path: Path) -> Iterator[tuple[str, Record | BrokenRunDataError]]:
    """Yields the location of each line that is not blank, and its content, or the error if it is not valid."""
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                yield where, parse_object(line, where)
            except BrokenRunDataError as error:
                yield where, error


def parse_object(text: bytes, where: str) -> Record:
    """Reads one JSON object, UTF-8; `where` is its file and line, for messages.

    Raises:
        BrokenRunDataError: If it is anything else.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenRunDataError(f"Expected a JSON object in {where}: {error}. Remove or repair it.") from error
    if not isinstance(record, dict):
        raise BrokenRunDataError(f"Expected a JSON object in {where}; got {type(record).__name__}.")
    return record
