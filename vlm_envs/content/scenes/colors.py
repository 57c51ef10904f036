"""Colours of things, by the words that questions use."""

from __future__ import annotations

from collections.abc import Mapping

from vlm_envs.content.colors import RGB, darker, lighter

COLORS: Mapping[str, RGB] = {
    "red": (214, 36, 40),
    "orange": (250, 136, 20),
    "yellow": (252, 220, 40),
    "green": (40, 158, 66),
    "blue": (36, 90, 214),
    "purple": (132, 60, 176),
    "pink": (248, 134, 184),
    "brown": (124, 74, 34),
    "black": (26, 26, 30),
    "white": (250, 250, 248),
    "grey": (138, 142, 148),
}
"""Name to sRGB, 0 to 255; far enough from each other to be told apart at a dozen pixels."""

INK: RGB = (24, 22, 28)
"""Outlines of things; black ones are outlined in `CHALK`."""

CHALK: RGB = (232, 232, 228)


def shade(color: RGB) -> RGB:
    """Returns the tone in which parts of a thing are set off: darker, for dark colours lighter."""
    return lighter(color, 0.28) if sum(color) < 210 else darker(color, 0.28)
