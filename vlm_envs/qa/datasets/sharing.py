"""One copy of a data set for all worlds of a process: a training run has hundreds of worlds on one folder."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any, TypeVar

SourceT = TypeVar("SourceT")

_TABLES = (".json", ".jsonl", ".tsv", ".csv", ".parquet")
_loaded: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def shared(kind: str, folder: str | Path, load: Callable[[], SourceT], *options: Hashable) -> SourceT:
    """Returns the source of a kind and a folder that somebody in this process holds already, or a newly loaded one.

    Sources never change, so they can be shared. Nothing is kept once nobody holds it, and a folder whose tables were
    written anew is read anew. `options` are what else the source depends on.
    """
    key = (kind, str(folder), options, tuple(_tables(Path(os.path.expanduser(folder)))))
    with _lock:
        source: SourceT | None = _loaded.get(key)
        if source is None:
            source = load()
            _loaded[key] = source
        return source


def _tables(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Yields name, size and time of change of every table in a folder and its own folders."""
    for pattern in ("*", "*/*"):
        for path in sorted(folder.resolve().glob(pattern)):
            if path.suffix.lower() in _TABLES and path.is_file():
                found = path.stat()
                yield str(path), found.st_size, found.st_mtime_ns
