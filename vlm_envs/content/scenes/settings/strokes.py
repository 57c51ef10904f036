"""Scenery as plain shapes in whole pixels, and how a part of a picture is drawn from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from PIL import Image, ImageDraw

from vlm_envs.content.colors import RGB
from vlm_envs.tools.coordinates import PixelRectangle


@dataclass(frozen=True, slots=True)
class Stroke:
    """One shape of one colour.

    Attributes:
        form: Which shape.
        points: x1, y1, x2, y2, …: corners; of a rectangle or ellipse the left upper and the right lower one.
        color: Its fill.
        width: Of a line, in pixels.
    """

    form: Literal["rect", "ellipse", "polygon", "line"]
    points: tuple[int, ...]
    color: RGB
    width: int = 0

    def reaches(self, region: PixelRectangle) -> bool:
        """Returns whether any of it may lie in a region."""
        xs, ys, more = self.points[::2], self.points[1::2], self.width
        return (
            min(xs) - more < region.right
            and max(xs) + more >= region.left
            and min(ys) - more < region.bottom
            and max(ys) + more >= region.top
        )


def rect(x1: float, y1: float, x2: float, y2: float, color: RGB) -> Stroke:
    """Returns a filled rectangle, its right and lower edge exclusive."""
    left, top = round(x1), round(y1)
    return Stroke("rect", (left, top, max(left, round(x2) - 1), max(top, round(y2) - 1)), color)


def ellipse(x: float, y: float, rx: float, ry: float, color: RGB) -> Stroke:
    """Returns a filled ellipse about a middle."""
    left, top = round(x - rx), round(y - ry)
    return Stroke("ellipse", (left, top, max(left, round(x + rx)), max(top, round(y + ry))), color)


def polygon(points: Sequence[tuple[float, float]], color: RGB) -> Stroke:
    """Returns a filled polygon."""
    return Stroke("polygon", tuple(round(value) for point in points for value in point), color)


def line(points: Sequence[tuple[float, float]], width: float, color: RGB) -> Stroke:
    """Returns a line through points."""
    return Stroke("line", tuple(round(value) for point in points for value in point), color, max(1, round(width)))


def draw_strokes(canvas: Image.Image, strokes: Iterable[Stroke], region: PixelRectangle) -> None:
    """Draws the strokes that reach into a region on a canvas of its size.

    Args:
        canvas: RGB; changed.
        strokes: In order.
        region: The part of the picture that the canvas is.
    """
    pen = ImageDraw.Draw(canvas)
    for stroke in strokes:
        if not stroke.reaches(region):
            continue
        points = [value - (region.top if index % 2 else region.left) for index, value in enumerate(stroke.points)]
        if stroke.form == "rect":
            pen.rectangle(points, stroke.color)
        elif stroke.form == "ellipse":
            pen.ellipse(points, stroke.color)
        elif stroke.form == "polygon":
            pen.polygon(points, stroke.color)
        else:
            pen.line(points, stroke.color, stroke.width, joint="curve")
