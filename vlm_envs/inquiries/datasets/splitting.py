"""What to do where a data set has nothing of a split."""

from __future__ import annotations

from typing import Any

BY_FILES = ("vsr", "tallyqa", "gqa", "mp_docvqa")
"""Data sets with splits of their own, by their files; they refuse `is_benchmark`."""


def remedy_of(dataset: Any) -> str:
    """Returns what helps where a data set, or a source without a name, has no level of a split."""
    if dataset in BY_FILES:
        return f"{dataset!r} has splits of its own, by its files: put the file of that split into the folder."
    if dataset is None:
        return "Give a source that has some, or ask for another split."
    return "A benchmark is all 'test': evaluate on split='test', or give is_benchmark=False, which divides it."
