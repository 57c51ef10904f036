"""Splits of datasets: split by content, messages about missing splits, and sharing of loaded tables."""

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
"""Datasets whose files define their splits; they reject `is_benchmark`."""

BY_HASH = ("treevgr", "image_folder", "video_r1", "pdf_folder", "llava_critic", "judged", "pairs")
"""Datasets for training, split by a hash unless `is_benchmark=True` or `train_on_all=True` is given."""

OWN = ("image_folder", "pdf_folder", "judged", "pairs")
"""Layouts for your own data, without a published copy."""


def content_split(content: str) -> str:
    """Returns the split of some content, such as an image: 80% train, 10% val, 10% test."""
    return split_of(content.encode("utf-8", "surrogatepass"))


def whole_split(
    dataset: str, published_as: bool | None, *, is_benchmark: bool | None = None, train_on_all: bool = False
) -> str | None:
    """Returns the split of all rows of a dataset; None if a hash or its files decide it.

    Args:
        dataset: Its name, for messages.
        published_as: Whether it was published for evaluation; None if its files are its splits.
        is_benchmark: The user's choice; None for the default.
        train_on_all: Whether the user wants to train on all of it.

    Raises:
        ConfigError: If the user overrides splits defined by files, or makes two choices at once.
    """
    given = f"is_benchmark={is_benchmark}" if is_benchmark is not None else "train_on_all=True" if train_on_all else ""
    if given and published_as is None:
        name = given.partition("=")[0]
        raise ConfigError(f"The files of {dataset!r} define its splits; got {given}. Remove {name}.")
    if train_on_all and is_benchmark is not None:
        raise ConfigError(
            f"train_on_all=True, which puts all rows of {dataset!r} into 'train', contradicts {given}. Remove one "
            "of them."
        )
    if train_on_all:
        return "train"
    return "test" if (published_as if is_benchmark is None else is_benchmark) else None


def remedy_of(dataset: Any, is_benchmark: bool | None = None, *, train_on_all: bool = False) -> str:
    """Returns a suggestion for a dataset, or a source without a name (None), that has no level of a split.

    `is_benchmark` is whether all of it is `test`, or None if unknown; it is ignored for datasets in
    `BY_FILES`. With `train_on_all`, all of it is `train`.
    """
    if train_on_all:
        return (
            "With train_on_all=True, all rows are in 'train': evaluate on another dataset (python -m benchmarks "
            "evaluate), or remove train_on_all."
        )
    if dataset in BY_FILES:
        return f"The files of {dataset!r} define its splits: put the file of that split into the folder."
    if dataset is None:
        return "Use a source that has some, or another split."
    if is_benchmark is False or (is_benchmark is None and dataset in BY_HASH):
        start = "Its" if is_benchmark is False else "With is_benchmark=False, the default here, its"
        return (
            f"{start} rows are split by a hash, so a split of few rows may be empty: add rows, or use a split "
            "that has some."
        )
    return "All of a benchmark is 'test': use split='test', or is_benchmark=False to split it."


SourceT = TypeVar("SourceT")

_TABLES = (".json", ".jsonl", ".tsv", ".csv", ".parquet")
_loaded: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def shared(kind: str, folder: str | Path, load: Callable[[], SourceT], *options: Hashable) -> SourceT:
    """Returns the source for a kind and folder, loading it unless this process already has it.

    Sources are immutable and can be shared. They are dropped when unused, and a folder is reloaded when its
    tables change. `options` are all other values that the source depends on.
    """
    key = (kind, str(folder), options, tuple(_tables(Path(os.path.expanduser(folder)))))
    with _lock:
        source: SourceT | None = _loaded.get(key)
        if source is None:
            source = load()
            _loaded[key] = source
        return source


def _tables(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Yields name, size, and modification time of every table in a folder and its direct subfolders."""
    for pattern in ("*", "*/*"):
        for path in sorted(folder.resolve().glob(pattern)):
            if path.suffix.lower() in _TABLES and path.is_file():
                found = path.stat()
                yield str(path), found.st_size, found.st_mtime_ns


_MAX_NAMED = 3


def unshown_items(world: Any, seeds: Iterable[int]) -> dict[int, str]:
    """Returns the errors of listed items whose image or document is missing or broken.

    A world would show the next item instead, which an evaluation would count twice. This decodes every image,
    as showing it would.

    Args:
        world: A world without its wrappers. Nothing is checked unless its split consists of a dataset's
            listed items.
        seeds: Reset seeds; each gives the item at its index in the split.

    Returns:
        Errors by seed, with file and row; empty if all items can be shown.
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
    """Returns a line with the number of omitted items and the first few reasons.

    Args:
        which: Description of the items.
        faults: At least one error, one per item.
    """
    reasons = [f"{fault.rstrip('.')}." for fault in faults]
    return f"{which}: omitted {len(reasons)} that cannot be shown. {named_first(reasons)}"


def named_first(messages: Sequence[str]) -> str:
    """Joins the first few messages, and the number of others."""
    more = f" And {len(messages) - _MAX_NAMED} more." if len(messages) > _MAX_NAMED else ""
    return f"{' '.join(messages[:_MAX_NAMED])}{more}"
