"""Colors: RGB arithmetic, and the named colors that questions use."""

from __future__ import annotations

from collections.abc import Mapping

from vlm_envs.content.data_tables import data_table

RGB = tuple[int, int, int]
"""sRGB, 0 to 255 each."""


def mixed(color: RGB, other: RGB, share: float) -> RGB:
    """Returns a color blended with another; `share`, 0 to 1, is the weight of the other."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(color, other, strict=True))
    return red, green, blue


def darker(color: RGB, share: float) -> RGB:
    """Returns a color blended with black; `share` is 0 to 1."""
    return mixed(color, (0, 0, 0), share)


def lighter(color: RGB, share: float) -> RGB:
    """Returns a color blended with white; `share` is 0 to 1."""
    return mixed(color, (255, 255, 255), share)


def hex_color(text: str) -> RGB:
    """Parses `#rrggbb`."""
    red, green, blue = bytes.fromhex(text.removeprefix("#"))
    return red, green, blue


def described_color(text: str, named: Mapping[str, RGB]) -> RGB:
    """Parses a color of a data file, such as `#c82c2c`, `own darker 0.3`, or `own mixed light 0.25`.

    Args:
        text: A name or `#rrggbb`, optionally followed by `lighter`, `darker`, or `mixed` with another color,
            and a share.
        named: RGB values of the names.
    """
    first, *change = text.split()
    color = hex_color(first) if first.startswith("#") else named[first]
    match change:
        case ["lighter", share]:
            return lighter(color, float(share))
        case ["darker", share]:
            return darker(color, float(share))
        case ["mixed", other, share]:
            return mixed(color, described_color(other, named), float(share))
    return color


COLORS: Mapping[str, RGB] = {name: hex_color(color) for name, color in data_table(__file__, "colors.toml").items()}
"""The named colors that questions use."""

INK: RGB = (24, 22, 28)
"""Outline color; black things are outlined in `CHALK`."""

CHALK: RGB = (232, 232, 228)


def shade(color: RGB) -> RGB:
    """Returns a contrasting tone for parts of a thing: darker, or lighter for dark colors."""
    return lighter(color, 0.28) if sum(color) < 210 else darker(color, 0.28)
