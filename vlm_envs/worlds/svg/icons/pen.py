"""A pen that writes short, clean markup on a sheet of 64 by 64 units."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

SHEET = 64
"""Side of an icon's `viewBox`."""

COLORS = ("red", "orange", "gold", "green", "teal", "skyblue", "blue", "purple", "pink", "brown", "gray", "black")
"""Names of CSS colours that are easy to tell apart."""

SheetPoint: TypeAlias = tuple[float, float]


class Pen:
    """Collects elements; coordinates are those of a 64 by 64 sheet, scaled and moved as the pen is held.

    Args:
        scale: Factor on every length.
        offset: Where the sheet's origin comes to lie.
    """

    def __init__(self, *, scale: float = 1.0, offset: SheetPoint = (0.0, 0.0)) -> None:
        self.scale, self.offset = scale, offset
        self.elements: list[str] = []

    @classmethod
    def somewhere(cls, rng: np.random.Generator) -> Pen:
        """Returns a pen that draws at a random size and place, all on the sheet."""
        scale = float(rng.choice([0.625, 0.75, 0.875, 1.0], p=[0.15, 0.25, 0.3, 0.3]))
        room = SHEET * (1 - scale)
        x, y = (2 * int(rng.integers(0, int(room / 2) + 1)) for _ in range(2))
        return cls(scale=scale, offset=(x, y))

    def x(self, value: float) -> str:
        """Returns a horizontal position as it is written."""
        return number(self.offset[0] + self.scale * value)

    def y(self, value: float) -> str:
        """Returns a vertical position as it is written."""
        return number(self.offset[1] + self.scale * value)

    def length(self, value: float) -> str:
        """Returns a length as it is written; never 0."""
        return number(max(0.5, self.scale * value))

    def circle(self, cx: float, cy: float, r: float, paint: str) -> None:
        """Draws a circle; `paint` is a fill, or what `outline` or `filled` returned."""
        self._add("circle", f'cx="{self.x(cx)}" cy="{self.y(cy)}" r="{self.length(r)}"', paint)

    def ellipse(self, cx: float, cy: float, rx: float, ry: float, paint: str) -> None:
        """Draws an ellipse."""
        radii = f'rx="{self.length(rx)}" ry="{self.length(ry)}"'
        self._add("ellipse", f'cx="{self.x(cx)}" cy="{self.y(cy)}" {radii}', paint)

    def rect(self, x: float, y: float, width: float, height: float, paint: str, *, rx: float = 0) -> None:
        """Draws a rectangle, with round corners if `rx` is given."""
        corner = f' rx="{self.length(rx)}"' if rx else ""
        size = f'width="{self.length(width)}" height="{self.length(height)}"{corner}'
        self._add("rect", f'x="{self.x(x)}" y="{self.y(y)}" {size}', paint)

    def polygon(self, points: Iterable[SheetPoint], paint: str) -> None:
        """Draws a closed figure of straight lines."""
        self._add("polygon", f'points="{self._points(points)}"', paint)

    def polyline(self, points: Iterable[SheetPoint], paint: str) -> None:
        """Draws an open figure of straight lines."""
        self._add("polyline", f'points="{self._points(points)}"', paint)

    def line(self, start: SheetPoint, end: SheetPoint, color: str, width: float) -> None:
        """Draws a line."""
        ends = f'x1="{self.x(start[0])}" y1="{self.y(start[1])}" x2="{self.x(end[0])}" y2="{self.y(end[1])}"'
        self._add("line", ends, f'stroke="{color}" stroke-width="{self.length(width)}"')

    def path(self, data: str, paint: str) -> None:
        """Draws a path; its data are letters of absolute commands, each followed by x and y of its points."""
        places = itertools.cycle((self.x, self.y))
        written = " ".join(step if step.isalpha() else next(places)(float(step)) for step in data.split())
        self._add("path", f'd="{written}"', paint)

    def outline(self, color: str, width: float, *, fill: str = "none") -> str:
        """Returns the paint of a stroked figure."""
        return f'fill="{fill}" stroke="{color}" stroke-width="{self.length(width)}"'

    def turned(self, degrees: float, center: SheetPoint, elements: Sequence[str]) -> None:
        """Adds a group of elements, turned about a point."""
        turn = f"rotate({number(degrees)} {self.x(center[0])} {self.y(center[1])})"
        self.elements.append(f'<g transform="{turn}">{"".join(elements)}</g>')

    def copy(self) -> Pen:
        """Returns a pen held alike that has drawn nothing."""
        return Pen(scale=self.scale, offset=self.offset)

    def markup(self) -> str:
        """Returns the whole drawing."""
        return f'<svg viewBox="0 0 {SHEET} {SHEET}">{"".join(self.elements)}</svg>'

    def _points(self, points: Iterable[SheetPoint]) -> str:
        return " ".join(f"{self.x(x)},{self.y(y)}" for x, y in points)

    def _add(self, tag: str, geometry: str, paint: str) -> None:
        written = paint if "=" in paint else f'fill="{paint}"'
        self.elements.append(f"<{tag} {geometry} {written}/>")


def number(value: float) -> str:
    """Returns a number with at most one decimal, as short as can be."""
    return f"{round(value, 1):g}"


def pick_colors(rng: np.random.Generator, num_colors: int) -> list[str]:
    """Returns different colours of the palette."""
    return [COLORS[index] for index in rng.choice(len(COLORS), num_colors, replace=False)]
