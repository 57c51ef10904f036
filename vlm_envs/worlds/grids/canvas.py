"""A square drawing surface in units of one cell, smooth at any size.

Shapes are drawn four times larger than asked for and scaled down, because Pillow's own lines are jagged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

CanvasPoint = tuple[float, float]
"""(x, y) in cells, from the top left; both in 0..1."""

Color = str
"""A colour as Pillow reads it, e.g. `"#c0392b"`."""

_SUPERSAMPLING = 4


class Canvas:
    """One cell to draw on.

    Args:
        cell_px: Side of the finished picture in pixels.
        background: Color of the empty cell.
    """

    def __init__(self, cell_px: int, background: Color) -> None:
        """Fills the cell with its background."""
        self._cell_px = cell_px
        self._side = cell_px * _SUPERSAMPLING
        self._image = Image.new("RGB", (self._side, self._side), background)
        self._draw = ImageDraw.Draw(self._image)

    def rectangle(self, top_left: CanvasPoint, bottom_right: CanvasPoint, fill: Color, *, radius: float = 0.0) -> None:
        """Draws a filled rectangle with corners rounded by `radius` cells."""
        self._draw.rounded_rectangle(self._box(top_left, bottom_right), radius * self._side, fill)

    def ellipse(self, centre: CanvasPoint, radius_x: float, fill: Color, *, radius_y: float | None = None) -> None:
        """Draws a filled ellipse; a circle unless `radius_y` is given."""
        x, y = centre
        half_height = radius_x if radius_y is None else radius_y
        self._draw.ellipse(self._box((x - radius_x, y - half_height), (x + radius_x, y + half_height)), fill)

    def pie(self, centre: CanvasPoint, radius: float, start_deg: float, end_deg: float, fill: Color) -> None:
        """Draws a slice of a circle, clockwise from `start_deg`; 0 degrees points right."""
        x, y = centre
        box = self._box((x - radius, y - radius), (x + radius, y + radius))
        self._draw.pieslice(box, start_deg, end_deg, fill)

    def polygon(self, points: Sequence[CanvasPoint], fill: Color) -> None:
        """Draws a filled polygon."""
        self._draw.polygon([(x * self._side, y * self._side) for x, y in points], fill)

    def line(self, points: Sequence[CanvasPoint], fill: Color, width: float) -> None:
        """Draws a line through points, `width` cells wide, with round ends and joints."""
        scaled = [(x * self._side, y * self._side) for x, y in points]
        self._draw.line(scaled, fill, max(1, round(width * self._side)), joint="curve")
        for point in (points[0], points[-1]):
            self.ellipse(point, width / 2, fill)

    def arc(
        self, centre: CanvasPoint, radius: float, start_deg: float, end_deg: float, fill: Color, width: float
    ) -> None:
        """Draws a part of a circle's rim, clockwise from `start_deg`; 0 degrees points right."""
        x, y = centre
        box = self._box((x - radius, y - radius), (x + radius, y + radius))
        self._draw.arc(box, start_deg, end_deg, fill, max(1, round(width * self._side)))

    def pixels(self) -> NDArray[np.uint8]:
        """Returns the finished picture as read-only uint8[cell_px, cell_px, 3]."""
        finished = self._image.resize((self._cell_px, self._cell_px), Image.Resampling.BOX)
        pixels = np.array(finished, dtype=np.uint8)
        pixels.flags.writeable = False
        return pixels

    def _box(self, top_left: CanvasPoint, bottom_right: CanvasPoint) -> tuple[float, float, float, float]:
        # Pillow includes the last pixel; without the 1 a full-width shape would bleed over by one pixel.
        left, top = top_left[0] * self._side, top_left[1] * self._side
        right, bottom = bottom_right[0] * self._side - 1, bottom_right[1] * self._side - 1
        return left, top, max(left, right), max(top, bottom)
