"""What rows of other trainers have that is not read here: videos, sound, and grounding objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_COLUMNS = ("videos", "video", "audios", "audio", "objects")
_MARKS = ("<video>", "<audio>", "<ref-object>", "<bbox>")
"""Placeholders that LLaMA-Factory and ms-swift replace."""


def unread_media(row: Mapping[str, Any], texts: Iterable[str] = ()) -> str:
    """Returns what a row has that is not read here, as the end of a sentence; empty for a row of texts and images.

    Args:
        row: The row; ms-swift has names and boxes in `objects`.
        texts: Its texts, in which placeholders stand. Without what they stand for, they would be learned as they are.
    """
    columns = [name for name in _COLUMNS if _holds(row.get(name))]
    marks = [mark for mark in _MARKS if any(mark in text for text in texts)]
    found = [*(f"`{name}`" for name in columns), *(f"the placeholder {mark}" for mark in marks)]
    return f"the row has {' and '.join(found)}; only texts and images are read" if found else ""


def _holds(value: Any) -> bool:
    """Returns whether anything is in a column; tables fill missing lists with empty ones or None."""
    if isinstance(value, Mapping):
        return any(map(_holds, value.values()))
    return any(map(_holds, value)) if isinstance(value, list | tuple) else bool(value)
