"""What rows of other trainers mark in their texts: images, and the videos, sound, and objects that are not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_COLUMNS = ("videos", "video", "audios", "audio", "objects")
_GROUNDING_MARKS = ("<ref-object>", "<bbox>")
_MARKS = ("<video>", "<audio>", *_GROUNDING_MARKS)
"""Placeholders that LLaMA-Factory and ms-swift replace."""

IMAGE_MARK = "<image>"
"""Placeholder of an image."""


def without_marks(text: str) -> str:
    """Returns a text without the placeholders of its images."""
    return text.replace(IMAGE_MARK, "").strip()


def media_fault(row: Mapping[str, Any], prompt: str, answers: Iterable[str], num_images: int) -> str:
    """Returns what a row of one prompt shows that would be lost, as the end of a sentence; empty if nothing.

    Args:
        row: The row.
        prompt: Its prompt; there may be fewer placeholders of images than images.
        answers: Its answers, in which no image can be.
        num_images: Images it has.
    """
    answers = tuple(answers)
    if unread := unread_media(row, [prompt], answers):
        return unread
    if any(IMAGE_MARK in answer for answer in answers):
        return f"there is a placeholder {IMAGE_MARK} in an answer"
    count = prompt.count(IMAGE_MARK)
    return f"there are {count} placeholders {IMAGE_MARK} for {num_images} images" if count > num_images else ""


def unread_media(row: Mapping[str, Any], prompts: Iterable[str] = (), answers: Iterable[str] = ()) -> str:
    """Returns what a row has that is not read here, as the end of a sentence; empty for a row of texts and images.

    Args:
        row: The row; ms-swift has names and boxes in `objects`.
        prompts: Its texts that a model reads. Placeholders would be learned as they are.
        answers: Its texts that a model writes, in which `<video>` and `<audio>` are HTML.
    """
    prompts, answers = tuple(prompts), tuple(answers)
    columns = [name for name in _COLUMNS if _holds(row.get(name))]
    marks = [mark for mark in _MARKS if any(mark in text for text in prompts)]
    marks += [mark for mark in _GROUNDING_MARKS if mark not in marks and any(mark in text for text in answers)]
    found = [*(f"`{name}`" for name in columns), *(f"the placeholder {mark}" for mark in marks)]
    return f"the row has {' and '.join(found)}; only texts and images are read" if found else ""


def _holds(value: Any) -> bool:
    """Returns whether anything is in a column; tables fill missing lists with empty ones or None."""
    if isinstance(value, Mapping):
        return any(map(_holds, value.values()))
    return any(map(_holds, value)) if isinstance(value, list | tuple) else bool(value)
