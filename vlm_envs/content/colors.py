"""Colors: RGB arithmetic, and the named colors that questions use."""

from __future__ import annotations

from collections.abc import Mapping

from vlm_envs.content.data_tables import data_table

RGB = tuple[int, int, int]
"""sRGB, 0 to 255 each."""


def mixed(color: RGB, other: RGB, share: float) -> RGB:
    """Returns a colour with a share, 0 to 1, of another in it."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(color, other, strict=True))
    return red, green, blue


def darker(color: RGB, share: float) -> RGB:
    """Returns a colour closer to black by a share, 0 to 1."""
    return mixed(color, (0, 0, 0), share)


def lighter(color: RGB, share: float) -> RGB:
    """Returns a colour closer to white by a share, 0 to 1."""
    return mixed(color, (255, 255, 255), share)


def hex_color(text: str) -> RGB:
    """Returns the color that `#rrggbb` names."""
    red, green, blue = bytes.fromhex(text.removeprefix("#"))
    return red, green, blue


def described_color(text: str, named: Mapping[str, RGB]) -> RGB:
    """Returns the color that a data file describes, such as `#c82c2c`, `own darker 0.3`, or `own mixed light 0.25`.

    Args:
        text: A name or `#rrggbb`; after it perhaps `lighter`, `darker`, or `mixed` with another, and the share.
        named: The colors that have names.
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
"""Outlines of things; black ones are outlined in `CHALK`."""

CHALK: RGB = (232, 232, 228)


def shade(color: RGB) -> RGB:
    """Returns the tone in which parts of a thing are set off: darker, for dark colours lighter."""
    return lighter(color, 0.28) if sum(color) < 210 else darker(color, 0.28)
