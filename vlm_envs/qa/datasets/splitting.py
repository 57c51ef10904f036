"""Which split content belongs to, and what to do where a data set has nothing of one."""

from __future__ import annotations

from typing import Any

from vlm_envs.splits import split_of

BY_FILES = ("vsr", "tallyqa", "gqa", "pixmo_count", "mp_docvqa")
"""Data sets with splits of their own, by their files; they refuse `is_benchmark`."""

BY_HASH = ("treevgr", "video_r1", "pdf_folder", "llava_critic", "pairs")
"""Data sets to train on, which are divided unless `is_benchmark=True` is given."""


def content_split(content: str) -> str:
    """Returns the split of something named by its content, such as an image: 80 % train, 10 % val, 10 % test."""
    return split_of(content.encode("utf-8", "surrogatepass"))


def remedy_of(dataset: Any, is_benchmark: bool | None = None) -> str:
    """Returns what helps where a data set, None for a source without a name, has no level of a split.

    `is_benchmark`, whether all of it is `test`, is None where that is not known; data sets in `BY_FILES` ignore it.
    """
    if dataset in BY_FILES:
        return f"{dataset!r} has splits of its own, by its files: put the file of that split into the folder."
    if dataset is None:
        return "Give a source that has some, or ask for another split."
    if is_benchmark is None and dataset in BY_HASH:
        return (
            "With is_benchmark=False, the default here, its rows are divided by a hash, and a split of few rows may be "
            "empty: add rows, or ask for a split that has some."
        )
    if is_benchmark is False:
        return (
            "Its rows are divided by a hash, and a split of few rows may be empty: add rows, or ask for a split that "
            "has some."
        )
    return "A benchmark is all 'test': evaluate on split='test', or give is_benchmark=False, which divides it."
