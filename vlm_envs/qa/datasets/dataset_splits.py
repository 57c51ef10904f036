"""Splits of datasets: which content belongs to which split, what a split lacks, and sharing of loaded tables."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError
from vlm_envs.splits import seed_index, split_of

BY_FILES = ("vsr", "tallyqa", "gqa", "pixmo_count", "mp_docvqa")
"""Data sets with splits of their own, by their files; they refuse `is_benchmark`."""

BY_HASH = ("treevgr", "image_folder", "video_r1", "pdf_folder", "llava_critic", "judged", "pairs")
"""Data sets to train on, which are divided unless `is_benchmark=True` or `train_on_all=True` is given."""

OWN = ("image_folder", "pdf_folder", "judged", "pairs")
"""Layouts for data of one's own, of which there is no published copy."""


def content_split(content: str) -> str:
    """Returns the split of something named by its content, such as an image: 80 % train, 10 % val, 10 % test."""
    return split_of(content.encode("utf-8", "surrogatepass"))


def whole_split(
    dataset: str, published_as: bool | None, *, is_benchmark: bool | None = None, train_on_all: bool = False
) -> str | None:
    """Returns the split that all rows of a data set are of; None where they are divided, or its files say it.

    Args:
        dataset: Its name, for messages.
        published_as: Whether it was published to measure with; None for one whose files are its splits.
        is_benchmark: What a user says instead; None for nothing.
        train_on_all: Whether a user wants all of it to train on.

    Raises:
        ConfigError: If a user divides what has splits of its own, or says two things at once.
    """
    given = f"is_benchmark={is_benchmark}" if is_benchmark is not None else "train_on_all=True" if train_on_all else ""
    if given and published_as is None:
        name = given.partition("=")[0]
        raise ConfigError(f"{dataset!r} has splits of its own, by its files; got {given}. Leave {name} out.")
    if train_on_all and is_benchmark is not None:
        raise ConfigError(
            f"train_on_all=True puts all rows of {dataset!r} into 'train', and {given} says otherwise. Leave one of "
            "them out."
        )
    if train_on_all:
        return "train"
    return "test" if (published_as if is_benchmark is None else is_benchmark) else None


def remedy_of(dataset: Any, is_benchmark: bool | None = None, *, train_on_all: bool = False) -> str:
    """Returns what helps where a data set, None for a source without a name, has no level of a split.

    `is_benchmark`, whether all of it is `test`, is None where that is not known; data sets in `BY_FILES` ignore it.
    With `train_on_all` all of it is `train`.
    """
    if train_on_all:
        return (
            "With train_on_all=True all of its rows are 'train': evaluate on another data set (python -m benchmarks "
            "evaluate), or leave train_on_all out."
        )
    if dataset in BY_FILES:
        return f"{dataset!r} has splits of its own, by its files: put the file of that split into the folder."
    if dataset is None:
        return "Give a source that has some, or ask for another split."
    if is_benchmark is False or (is_benchmark is None and dataset in BY_HASH):
        start = "Its" if is_benchmark is False else "With is_benchmark=False, the default here, its"
        return (
            f"{start} rows are divided by a hash, and a split of few rows may be empty: add rows, or ask for a split "
            "that has some."
        )
    return "A benchmark is all 'test': evaluate on split='test', or give is_benchmark=False, which divides it."


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


_MAX_NAMED = 3


def unshown_items(world: Any, seeds: Iterable[int]) -> dict[int, str]:
    """Returns what is wrong with items whose picture or document is missing or broken; nothing of most.

    In the place of such an item a world shows the next one, which an evaluation would count twice. Each picture is
    decoded for this, as it is when it is shown.

    Args:
        world: A world without its wrappers. Of one whose split is not that of a data set's listed items, nothing is
            looked at.
        seeds: Reset seeds, of which each gives the item of its place in the split.

    Returns:
        What is wrong by seed, with file and row; empty where all can be shown.
    """
    count = world.num_levels
    source: Any = getattr(world.dynamics, "source", None)
    if not count or not hasattr(source, "ids"):
        return {}
    ids: Sequence[str] = source.ids(world.split)
    found: dict[int, str] = {}
    for seed in seeds:
        try:
            source.find(ids[seed_index(seed, world.split) % count])
        except BrokenRowError as error:
            found[seed] = str(error)
    return found


def told_left_out(which: str, faults: Iterable[str]) -> str:
    """Returns the line that counts items that are left out, and names the first of them.

    Args:
        which: Whose items they are.
        faults: What is wrong with each of at least one.
    """
    told = [f"{fault.rstrip('.')}." for fault in faults]
    return f"{which}: left out: {len(told)}, which cannot be shown. {named_first(told)}"


def named_first(messages: Sequence[str]) -> str:
    """Returns the first few of some messages, and how many there are more."""
    more = f" And {len(messages) - _MAX_NAMED} more." if len(messages) > _MAX_NAMED else ""
    return f"{' '.join(messages[:_MAX_NAMED])}{more}"
