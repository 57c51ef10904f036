"""Names of colors, so that what is seen and what is written can be compared in words."""

from __future__ import annotations

from functools import lru_cache

from PIL import ImageColor

from vlm_envs.worlds.svg.paints import rgba_of

_LANDMARKS = (
    "red", "orange", "gold", "yellow", "lime", "green", "teal", "cyan", "skyblue", "blue", "navy",
    "purple", "magenta", "pink", "brown", "maroon", "tan", "white", "lightgray", "gray", "black",
)  # fmt: skip
_NOT_A_COLOR = "patterned"
_LONGEST = 80


def color_name(written: str) -> str:
    """Returns the name of a CSS color: its own, else that of the nearest well-known one, its opacity aside.

    `"patterned"` stands for gradients, patterns, and what cannot be read.
    """
    return _name(written) if len(written) <= _LONGEST else _NOT_A_COLOR


@lru_cache(maxsize=4096)
def _name(written: str) -> str:
    if written.isalpha():
        return _own_name(written)
    try:
        wanted = _rgb(written)
    except ValueError:
        return _NOT_A_COLOR
    return min(_LANDMARKS, key=lambda name: _distance(wanted, _rgb(name)))


def _own_name(keyword: str) -> str:
    if keyword.lower() == "currentcolor":
        return "black"
    return keyword.lower().replace("grey", "gray") if keyword.lower() in ImageColor.colormap else _NOT_A_COLOR


def _rgb(written: str) -> tuple[int, ...]:
    """Returns red, green, and blue, 0 to 255; raises `ValueError` for anything but a color."""
    if "(" not in written:
        return ImageColor.getrgb(written)[:3]
    if (color := rgba_of(written)) is None:
        raise ValueError(f"expected a CSS color; got {written!r}")
    return tuple(round(255 * channel) for channel in color[:3])


def _distance(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True))
