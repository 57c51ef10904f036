"""Names of colours, so that what is seen and what is written can be compared in words."""

from __future__ import annotations

from functools import lru_cache

from PIL import ImageColor

_LANDMARKS = (
    "red", "orange", "gold", "yellow", "lime", "green", "teal", "cyan", "skyblue", "blue", "navy",
    "purple", "magenta", "pink", "brown", "maroon", "tan", "white", "lightgray", "gray", "black",
)  # fmt: skip
_NOT_A_COLOR = "patterned"
_LONGEST = 40


def color_name(written: str) -> str:
    """Returns the name of a CSS colour: its own, else that of the nearest well-known one.

    `"patterned"` stands for gradients, patterns and what cannot be read; `hsl(...)` is black, as the renderer draws it.
    """
    return _name(written) if len(written) <= _LONGEST else _NOT_A_COLOR


@lru_cache(maxsize=4096)
def _name(written: str) -> str:
    if written.lower().startswith(("hsl", "hsv", "hsb")):
        return "black"
    try:
        wanted = ImageColor.getrgb(written)[:3]
    except ValueError:
        return "black" if written == "currentColor" else _NOT_A_COLOR
    if written.isalpha():
        return written.lower().replace("grey", "gray")
    return min(_LANDMARKS, key=lambda name: _distance(wanted, ImageColor.getrgb(name)[:3]))


def _distance(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True))
