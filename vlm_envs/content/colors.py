"""Colors as numbers, and how they are mixed."""

from __future__ import annotations

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
