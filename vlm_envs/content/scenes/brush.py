"""A brush that draws a thing at high resolution before it is scaled down."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from vlm_envs.content.colors import RGB
from vlm_envs.content.data_tables import data_table

GLYPH_WIDTH, GLYPH_HEIGHT = 5, 7

_GLYPHS = data_table(__file__, "glyphs.toml")

LETTERS = "ACEFHJKLMNPRTUVWXY"
DIGITS = "234679"


def dots(text: str) -> list[tuple[int, int]]:
    """Returns the column and row of each dot in a line of text; letters are separated by one empty column."""
    found = []
    for index, character in enumerate(text):
        for row, line in enumerate(_GLYPHS[character]):
            for column, dot in enumerate(line):
                if dot == "#":
                    found.append((index * (GLYPH_WIDTH + 1) + column, row))
    return found


FRAME = 100
"""Length of the longer side of a thing's frame, in units; x to the right, y down, from the top left corner."""

XY = tuple[float, float]


class Brush:
    """Draws on a transparent canvas, in units of the frame.

    Args:
        width: Columns of the canvas.
        height: Rows of the canvas.
        unit: Pixels per unit.
        margin: Pixels left free on every side for the outline.
    """

    def __init__(self, width: int, height: int, unit: float, margin: float) -> None:
        self.canvas = Image.new("RGBA", (width, height), (0, 0, 0, 0))
        self._draw = ImageDraw.Draw(self.canvas)
        self._unit, self._margin = unit, margin

    def polygon(self, points: Sequence[XY], color: RGB) -> None:
        """Fills a polygon."""
        self._draw.polygon([self._at(point) for point in points], fill=color)

    def rect(self, x1: float, y1: float, x2: float, y2: float, color: RGB, *, radius: float = 0) -> None:
        """Fills an axis-aligned rectangle, with corners rounded by a radius."""
        corners = (*self._at((x1, y1)), *self._at((x2, y2)))
        self._draw.rounded_rectangle(corners, radius * self._unit, fill=color)

    def ellipse(self, x: float, y: float, rx: float, ry: float, color: RGB) -> None:
        """Fills an ellipse, given its center and radii."""
        self._draw.ellipse(self._around(x, y, rx, ry), fill=color)

    def disc(self, x: float, y: float, radius: float, color: RGB) -> None:
        """Fills a circle."""
        self.ellipse(x, y, radius, radius, color)

    def pie(self, x: float, y: float, radius: float, start: float, stop: float, color: RGB) -> None:
        """Fills a sector; degrees clockwise from the right."""
        self._draw.pieslice(self._around(x, y, radius, radius), start, stop, fill=color)

    def line(self, points: Sequence[XY], width: float, color: RGB) -> None:
        """Draws a line with round ends and corners."""
        radius = width / 2
        for start, end in itertools.pairwise(points):
            length = math.dist(start, end) or 1.0
            across = ((start[1] - end[1]) / length * radius, (end[0] - start[0]) / length * radius)
            self.polygon(
                [
                    (start[0] + across[0], start[1] + across[1]),
                    (end[0] + across[0], end[1] + across[1]),
                    (end[0] - across[0], end[1] - across[1]),
                    (start[0] - across[0], start[1] - across[1]),
                ],
                color,
            )
        for x, y in points:
            self.disc(x, y, radius, color)

    def ring(self, x: float, y: float, radius: float, width: float, color: RGB) -> None:
        """Draws a circular line, inward from the radius, without filling it."""
        width_px = max(1, round(width * self._unit))
        self._draw.ellipse(self._around(x, y, radius, radius), outline=color, width=width_px)

    def arc(self, x: float, y: float, radius: float, start: float, stop: float, width: float, color: RGB) -> None:
        """Draws an arc; degrees clockwise from the right."""
        width_px = max(1, round(width * self._unit))
        self._draw.arc(self._around(x, y, radius, radius), start, stop, fill=color, width=width_px)

    def text(self, x1: float, y1: float, x2: float, y2: float, text: str, color: RGB) -> None:
        """Writes text as large as a rectangle allows, centered in it."""
        columns = len(text) * (GLYPH_WIDTH + 1) - 1
        dot = min((x2 - x1) / columns, (y2 - y1) / GLYPH_HEIGHT)
        left, top = (x1 + x2 - dot * columns) / 2, (y1 + y2 - dot * GLYPH_HEIGHT) / 2
        for column, row in dots(text):
            corner = self._at((left + dot * column, top + dot * row))
            far = self._at((left + dot * (column + 1), top + dot * (row + 1)))
            self._draw.rectangle((round(corner[0]), round(corner[1]), round(far[0]) - 1, round(far[1]) - 1), color)

    def _around(self, x: float, y: float, rx: float, ry: float) -> tuple[float, float, float, float]:
        """Returns the bounding box of an ellipse, in pixels."""
        return (*self._at((x - rx, y - ry)), *self._at((x + rx, y + ry)))

    def _at(self, point: XY) -> XY:
        return self._margin + point[0] * self._unit, self._margin + point[1] * self._unit


def outlined(canvas: Image.Image, reach: int, color: RGB) -> Image.Image:
    """Adds an outline around everything on a canvas.

    Args:
        canvas: RGBA.
        reach: Width of the outline in pixels; 0 for none.
        color: Color of the outline.

    Returns:
        RGBA of the same size.
    """
    if reach < 1:
        return canvas
    below = np.zeros((canvas.height, canvas.width, 4), np.uint8)
    below[..., :3] = color
    below[..., 3] = _spread(np.asarray(canvas)[..., 3], reach)
    return Image.alpha_composite(Image.fromarray(below), canvas)


def _spread(alpha: npt.NDArray[np.uint8], reach: int) -> npt.NDArray[np.uint8]:
    """Returns the maximum over a square around each pixel."""
    for _ in range(2):  # vertically, then horizontally
        left, step = reach, 1
        while left > 0:  # doubling steps cover the reach in few passes
            step = min(step, left)
            padded = np.pad(alpha, ((step, step), (0, 0)))
            alpha = np.maximum(alpha, np.maximum(padded[: -2 * step], padded[2 * step :]))
            left -= step
            step *= 2
        alpha = alpha.T
    return alpha
