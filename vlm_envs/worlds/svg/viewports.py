"""Lengths and viewports: what per cent and units come to, and where a drawing inside a drawing lies.

The picture decides, so all of this follows the renderer, cairosvg, also where it departs from the standard: in square
pictures per cent along the shorter side of a `viewBox` are of its longer side, and a unit it does not know (`vw`, `vh`,
`Q`) makes a length 0, as does a space before the unit (`10 px`).

Not followed: the `font` shorthand; `clip-path`, `mask`, `filter` and markers; `requiredFeatures` and `systemLanguage`;
units and per cent in path data; a `transform-origin` of one value, or with `center`, `right` or `bottom`, which the
renderer takes in pixels of the picture.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, replace
from typing import TypeAlias

from vlm_envs.worlds.svg.markup import ViewBox

MOST = 1e9
_LENGTH = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?:(%|[a-zA-Z]+)(?=[\s,-]|\Z)|\s*\Z)")
_PER_INCH = 96.0
_FONT_SIZE = 16.0
_UNITS = {
    "px": 1.0,
    "in": _PER_INCH,
    "cm": _PER_INCH / 2.54,
    "mm": _PER_INCH / 25.4,
    "pt": _PER_INCH / 72,
    "pc": _PER_INCH / 6,
}
"""Units of length in units of the drawing."""

_FONT_UNITS = {"em": 1.0, "ex": 0.5, "ch": 0.5}
"""Units of length in sizes of the font."""

_ALONG_X = frozenset({"x", "cx", "rx", "x1", "x2", "dx"})
_ALONG_Y = frozenset({"y", "cy", "ry", "y1", "y2", "dy"})

Clip: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom of what can be seen."""


@dataclass(frozen=True, slots=True)
class Viewport:
    """What lengths in per cent are of.

    Attributes:
        width: In units of the drawing.
        height: The same.
        font_size: Of the element that is looked at, in the same units.
    """

    width: float
    height: float
    font_size: float = _FONT_SIZE

    def with_font_size(self, written: str) -> Viewport:
        """Returns the viewport as seen by an element whose `font-size`, its own or inherited, is as written."""
        return replace(self, font_size=min(max(self.size(written), -MOST), MOST))

    def length(self, element: ET.Element, name: str, missing: str = "0") -> float:
        """Returns a length of an element in units of the drawing; 0 if it is no length.

        Args:
            element: The element.
            name: Its attribute; `x` and its like are of the width, `y` and its like of the height, `width` and
                `height` of their own, all others of the diagonal divided by the square root of 2.
            missing: What it is if it is not written.
        """
        reference: float | None
        if name in _ALONG_X or (name == "width" and element.tag == "rect"):
            reference = self.width
        elif name in _ALONG_Y or (name == "height" and element.tag == "rect"):
            reference = self.height
        else:
            reference = None
        return self.size(element.get(name, missing), reference)

    def size(self, written: str, reference: float | None = None) -> float:
        """Returns a length, with or without a unit, in units of the drawing; 0 if it is none.

        Per cent are of `reference`; without one, of the diagonal divided by the square root of 2.
        """
        found = _LENGTH.match(written)
        if found is None:
            return 0.0
        number = min(max(float(found[1]), -MOST), MOST)
        if found[2] == "%":
            whole = math.hypot(self.width, self.height) / math.sqrt(2) if reference is None else reference
            return number * whole / 100
        if found[2] in _FONT_UNITS:
            return number * self.font_size * _FONT_UNITS[found[2]]
        return number * _UNITS.get(found[2] or "px", 0.0)


@dataclass(frozen=True, slots=True)
class Placement:
    """How a drawing lies in what is around it.

    Attributes:
        matrix: a, b, c, d, e and f of the transform into the surroundings, after that of the element itself.
        viewport: What lengths in it are of.
        clip: What can be seen of it, in its own units; None for all.
    """

    matrix: tuple[float, float, float, float, float, float]
    viewport: Viewport
    clip: Clip | None


def outermost(box: ViewBox, ratio: str) -> tuple[Viewport, Clip]:
    """Returns a drawing's viewport in a square picture and the part seen, by `viewBox` and `preserveAspectRatio`."""
    left, top, width, height = box
    if ratio.startswith("none"):
        return Viewport(width, height), (left, top, left + width, top + height)
    align = (ratio.split() or ["xMidYMid"])[0]
    side = min(width, height) if ratio.endswith("slice") else max(width, height)
    left -= _shift(align[1:4], side - width)
    top -= _shift(align[5:8], side - height)
    return Viewport(side, side), (left, top, left + side, top + side)


def placed(element: ET.Element, around: Viewport) -> Placement | None:
    """Returns how an `<svg>` or a used `<symbol>` lies in its surroundings; None if nothing of it can be seen."""
    width, height = around.length(element, "width", "100%"), around.length(element, "height", "100%")
    box = _view_box(element) or (0.0, 0.0, width, height)
    if not (min(width, height, box[2], box[3]) > 0 and all(map(math.isfinite, box))):
        return None
    ratio = element.get("preserveAspectRatio", "xMidYMid").split() or ["xMidYMid"]
    scale_x, scale_y = width / box[2], height / box[3]
    if ratio[0] != "none":
        scale_x = scale_y = max(scale_x, scale_y) if ratio[1:2] == ["slice"] else min(scale_x, scale_y)
    seen = Viewport(width / scale_x, height / scale_y, around.font_size)
    shift_x = _shift(ratio[0][1:4], seen.width - box[2])
    shift_y = _shift(ratio[0][5:8], seen.height - box[3])
    x = around.length(element, "x") + (shift_x - box[0]) * scale_x
    y = around.length(element, "y") + (shift_y - box[1]) * scale_y
    left, top = box[0] - shift_x, box[1] - shift_y
    is_clipped = element.get("overflow", "hidden") != "visible"
    clip = (left, top, left + seen.width, top + seen.height) if is_clipped else None
    return Placement((scale_x, 0.0, 0.0, scale_y, x, y), seen, clip)


def _view_box(element: ET.Element) -> ViewBox | None:
    pieces = [_LENGTH.fullmatch(piece) for piece in element.get("viewBox", "").replace(",", " ").split()]
    values = [float(piece[1]) for piece in pieces if piece is not None]
    return (values[0], values[1], values[2], values[3]) if len(values) == len(pieces) == 4 else None


def _shift(align: str, room: float) -> float:
    return {"mid": room / 2, "max": room}.get(align.lower(), 0.0)
