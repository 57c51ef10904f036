"""The shapes of a drawing: outlines, styles, and positions, with units, viewports, and transforms resolved.

Shapes must match the image, so all of this follows the renderer, cairosvg, even where it deviates from the
standard: in square images, percentages along the shorter side of a `viewBox` refer to its longer side, and an
unsupported unit (`vw`, `vh`, `Q`) makes a length 0, as does a space before the unit (`10 px`).

Not supported: the `font` shorthand; `clip-path`, `mask`, `filter`, and markers; `requiredFeatures` and
`systemLanguage`; units and percentages in path data; a `transform-origin` with one value, or with `center`,
`right`, or `bottom`, which the renderer resolves in pixels of the image.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from vlm_envs.worlds.svg.svg_markup import MarkupError, ViewBox, read_markup, view_box
from vlm_envs.worlds.svg.svg_paints import plain_value, rgba_of
from vlm_envs.worlds.svg.svg_styles import apply_styles, color_name

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
"""Units of length relative to the font size."""

_ALONG_X = frozenset({"x", "cx", "rx", "x1", "x2", "dx"})
_ALONG_Y = frozenset({"y", "cy", "ry", "y1", "y2", "dy"})

Clip: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, and bottom of the visible area."""


@dataclass(frozen=True, slots=True)
class Viewport:
    """Reference lengths for percentages and font-relative units.

    Attributes:
        width: Width, in units of the drawing.
        height: Height, in the same units.
        font_size: Font size of the current element, in the same units.
    """

    width: float
    height: float
    font_size: float = _FONT_SIZE

    def with_font_size(self, written: str) -> Viewport:
        """Returns the viewport for an element with the given value of `font-size`, its own or inherited."""
        return replace(self, font_size=min(max(self.size(written), -MOST), MOST))

    def length(self, element: ET.Element, name: str, missing: str = "0") -> float:
        """Returns a length of an element in units of the drawing; 0 if it is not valid.

        Args:
            element: The element.
            name: Its attribute. Percentages of `x` and similar attributes refer to the width, of `y` and
                similar ones to the height, of `width` and `height` to their own side, and of all others to
                the diagonal divided by the square root of 2.
            missing: Its value if it is absent.
        """
        side = name if element.tag == "rect" else ""
        is_along_x, is_along_y = name in _ALONG_X or side == "width", name in _ALONG_Y or side == "height"
        reference = self.width if is_along_x else self.height if is_along_y else None
        return self.size(element.get(name, missing), reference)

    def size(self, written: str, reference: float | None = None) -> float:
        """Converts a length, with or without a unit, to units of the drawing; 0 if it is not valid.

        Percentages refer to `reference`, or by default to the diagonal divided by the square root of 2.
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


def outermost(box: ViewBox, ratio: str) -> tuple[Viewport, Clip]:
    """Returns a drawing's viewport in a square image and the visible part, by `viewBox` and `preserveAspectRatio`."""
    left, top, width, height = box
    if ratio.startswith("none"):
        return Viewport(width, height), (left, top, left + width, top + height)
    align = (ratio.split() or ["xMidYMid"])[0]
    side = min(width, height) if ratio.endswith("slice") else max(width, height)
    left -= _shift(align[1:4], side - width)
    top -= _shift(align[5:8], side - height)
    return Viewport(side, side), (left, top, left + side, top + side)


def _view_box(element: ET.Element) -> ViewBox | None:
    pieces = [_LENGTH.fullmatch(piece) for piece in element.get("viewBox", "").replace(",", " ").split()]
    values = [float(piece[1]) for piece in pieces if piece is not None]
    return (values[0], values[1], values[2], values[3]) if len(values) == len(pieces) == 4 else None


def _shift(align: str, room: float) -> float:
    return {"mid": room / 2, "max": room}.get(align.lower(), 0.0)


Matrix: TypeAlias = NDArray[np.float64]
Points: TypeAlias = list[tuple[float, float]]

IDENTITY: Matrix = np.eye(3)


_NUMBERS = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_TRANSFORM = re.compile(r"\b([a-zA-Z]{4,9}) ?\(([^()]*)\)")
_SIGN = re.compile(r"(?<!e)-")
_SEPARATORS = re.compile(r"[ \n\r\t,]+")
_NEXT_FRACTION = re.compile(r"(\.[0-9-]+)(?=\.)")
_AT_ZERO = {"left": "0", "top": "0"}
_OF_THE_PICTURE = frozenset({"center", "right", "bottom"})
_PATH_STEP = re.compile(r"([MmLlHhVvCcSsQqTtAaZz])([^MmLlHhVvCcSsQqTtAaZz]*)")
_NUM_ARGUMENTS = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "S": 4, "Q": 4, "T": 2, "A": 7}


def numbers(text: str) -> list[float]:
    """Returns all numbers in a text, whatever separates them, clipped to ±1e9."""
    return [min(max(float(found), -MOST), MOST) for found in _NUMBERS.findall(text)]


def transform_of(text: str, viewport: Viewport, origin: str = "") -> Matrix:
    """Returns the 3 by 3 matrix of a `transform` attribute; invalid steps are ignored.

    Args:
        text: The attribute; lengths may have units, and percentages refer to the diagonal, as in the
            renderer.
        viewport: Reference lengths.
        origin: The element's `transform-origin`.
    """
    matrix = IDENTITY
    steps = _TRANSFORM.findall(_separated(text)) if text else []
    for name, arguments in steps:
        matrix = combined(matrix, _step(name, [viewport.size(length) for length in arguments.strip().split(" ")]))
    if not (steps and origin):
        return matrix
    x, y = _origin(origin, viewport)
    return combined(combined(matrix_of(1, 0, 0, 1, x, y), matrix), matrix_of(1, 0, 0, 1, -x, -y))


def _origin(written: str, viewport: Viewport) -> tuple[float, float]:
    """Returns the point of a `transform-origin`; (0, 0) for unsupported ones."""
    pieces = written.split(" ")
    if len(pieces) == 1 or _OF_THE_PICTURE.intersection(pieces[:2]):
        return 0.0, 0.0
    x, y = pieces[:2]
    if x == "top":
        x, y = y, x
    return viewport.size(_AT_ZERO.get(x, x), viewport.width), viewport.size(_AT_ZERO.get(y, y), viewport.height)


def _separated(text: str) -> str:
    """Normalizes a list of numbers, possibly with units, to single spaces, splitting it as the renderer does."""
    text = _SEPARATORS.sub(" ", _SIGN.sub(" -", text.replace("E", "e")))
    return _NEXT_FRACTION.sub(r"\1 ", text).strip()


def combined(outer: Matrix, inner: Matrix) -> Matrix:
    """Returns the transform that applies `inner` first; extreme ones may contain infinities."""
    with np.errstate(all="ignore"):
        product: Matrix = outer @ inner
    return product


def _step(name: str, values: list[float]) -> Matrix:
    """Returns the matrix of one step of a transform."""
    match name, values:
        case "translate", [x, *rest]:
            return matrix_of(1, 0, 0, 1, x, rest[0] if rest else 0)
        case "scale", [x, *rest]:
            return matrix_of(x, 0, 0, rest[0] if rest else x, 0, 0)
        case "rotate", [degrees, *rest]:
            x, y = rest if len(rest) == 2 else (0.0, 0.0)
            cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
            return matrix_of(1, 0, 0, 1, x, y) @ matrix_of(cos, sin, -sin, cos, 0, 0) @ matrix_of(1, 0, 0, 1, -x, -y)
        case "skewX", [degrees]:
            return matrix_of(1, 0, math.tan(math.radians(degrees)), 1, 0, 0)
        case "skewY", [degrees]:
            return matrix_of(1, math.tan(math.radians(degrees)), 0, 1, 0, 0)
        case "matrix", [a, b, c, d, e, f]:
            return matrix_of(a, b, c, d, e, f)
    return IDENTITY


def matrix_of(a: float, b: float, c: float, d: float, e: float, f: float) -> Matrix:
    """Returns the matrix of SVG's matrix(a b c d e f)."""
    return np.array([[a, c, e], [b, d, f], [0, 0, 1]], dtype=np.float64)


def moved(points: Points, matrix: Matrix) -> Points:
    """Transforms points."""
    with np.errstate(all="ignore"):  # extreme transforms give infinities, which the caller handles
        flat = np.array([(x, y, 1.0) for x, y in points]).reshape(-1, 3) @ matrix.T
    return [(float(x), float(y)) for x, y, _ in flat]


def outline(element: ET.Element, viewport: Viewport) -> Points:
    """Returns points whose hull contains a shape, in the shape's own units; empty for other elements and empty shapes.

    Curves of paths are represented by their control points, so their box may be slightly too large; text has
    one point.
    """

    def get(name: str) -> float:
        return viewport.length(element, name)

    match element.tag:
        case "circle":
            return _oval(get("cx"), get("cy"), get("r"), get("r"))
        case "ellipse":
            return _oval(get("cx"), get("cy"), get("rx"), get("ry"))
        case "rect":
            (x, y), (width, height) = (get("x"), get("y")), (get("width"), get("height"))
            if width == 0 or height == 0:
                return []
            return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
        case "line":
            return [(get("x1"), get("y1")), (get("x2"), get("y2"))]
        case "polyline" | "polygon":
            found = _separated(element.get("points", "")).split(" ")
            size, (width, height) = viewport.size, (viewport.width, viewport.height)
            return [(size(x, width), size(y, height)) for x, y in zip(found[::2], found[1::2], strict=False)]
        case "path":
            return path_points(element.get("d", ""))
        case "text":
            # Each may be a list with a position for each letter
            first_x, first_y = (_separated(element.get(name, "")).partition(" ")[0] for name in ("x", "y"))
            return [(viewport.size(first_x, viewport.width), viewport.size(first_y, viewport.height))]
    return []


def _oval(cx: float, cy: float, rx: float, ry: float) -> Points:
    """Returns points around an ellipse, dense enough for its rotated box; empty for those the renderer skips."""
    if rx <= 0 or ry == 0:
        return []
    turns = [index * math.pi / 8 for index in range(16)]
    return [(cx + rx * math.cos(turn), cy + ry * math.sin(turn)) for turn in turns]


def path_points(text: str) -> Points:
    """Returns the corners and control points of path data; for an arc, its ends and the box of its radii."""
    points: Points = []
    here = start = (0.0, 0.0)
    for letter, arguments in _PATH_STEP.findall(text):
        if letter in "Zz":
            here = start
            continue
        values, size = numbers(arguments), _NUM_ARGUMENTS[letter.upper()]
        for index in range(0, len(values) - size + 1, size):
            found = _path_step(letter, values[index : index + size], here)
            here = found[-1]
            points += found
            if letter in "Mm" and index == 0:
                start = here
    return points


def _path_step(letter: str, values: list[float], here: tuple[float, float]) -> Points:
    """Returns the points of one step of a path, its end last."""
    dx, dy = here if letter.islower() else (0.0, 0.0)
    match letter.upper():
        case "H":
            return [(values[0] + dx, here[1])]
        case "V":
            return [(here[0], values[0] + dy)]
        case "A":
            end = (values[5] + dx, values[6] + dy)
            middle = ((here[0] + end[0]) / 2, (here[1] + end[1]) / 2)
            rx, ry = (min(abs(radius), math.dist(here, end)) for radius in values[:2])
            bulge = [(middle[0] + sx * rx / 2, middle[1] + sy * ry / 2) for sx in (-1, 1) for sy in (-1, 1)]
            return [*bulge, end]
    return [(x + dx, y + dy) for x, y in zip(values[::2], values[1::2], strict=True)]


DRAWN = frozenset({"circle", "ellipse", "rect", "line", "polyline", "polygon", "path", "text"})
"""Elements that are shapes."""

KINDS = ("circle", "ellipse", "rect", "line", "polyline", "triangle", "polygon", "path", "text")
"""Kinds of shapes: the element's name, or `triangle` for a polygon with three corners."""

MAX_SHAPES = 200
"""Maximum number of listed shapes; a drawing may have more."""

MAX_USE_DEPTH = 8
"""Maximum number of nested references in the list of shapes; deeper ones are drawn but not listed."""

_INHERITED = ("color", "fill", "fill-opacity", "font-size", "stroke", "stroke-opacity", "visibility")
_START = {
    "color": "black",
    "fill": "black",
    "fill-opacity": "1",
    "font-size": "12pt",
    "stroke": "none",
    "stroke-opacity": "1",
    "visibility": "visible",
}
_NO_PAINT = ("none", "transparent")
_VIEWPORTS = ("svg", "symbol")
_NEVER_DRAWN = frozenset(
    {"defs", "clipPath", "mask", "pattern", "marker", "symbol", "linearGradient", "radialGradient"}
)
_HREFS = ("href", "{http://www.w3.org/1999/xlink}href")


class Shape(TypedDict):
    """One shape of a drawing.

    Attributes:
        kind: One of `KINDS`.
        color: Name of its fill color, or of its stroke color if it is not filled.
        filled: Whether it is filled.
        box: Left, top, right, and bottom in units of the `viewBox`, to one decimal, without strokes.
    """

    kind: str
    color: str
    filled: bool
    box: list[float]


def shapes_of(markup: str) -> list[Shape] | None:
    """Returns the shapes of a drawing in drawing order; None if the markup is not valid."""
    drawing = _read(markup)
    return None if drawing is None else [shape.copy() for shape in drawing[0]]


def view_box_of(markup: str) -> ViewBox | None:
    """Returns the `viewBox` of a drawing; None if the markup is not valid."""
    drawing = _read(markup)
    return None if drawing is None else drawing[1]


@lru_cache(maxsize=256)
def _read(markup: str) -> tuple[tuple[Shape, ...], ViewBox] | None:
    """Returns shapes and `viewBox`; cached, because a state is described several times per turn."""
    try:
        root = read_markup(markup)
    except MarkupError:
        return None
    apply_styles(root, markup)
    by_id = {element.get("id", ""): element for element in root.iter()}
    box = view_box(root)
    viewport, clip = outermost(box, root.get("preserveAspectRatio", ""))
    sheet = _Place(root=root, by_id=by_id, matrix=IDENTITY, viewport=viewport, clip=clip)
    shapes: list[Shape] = []
    for shape in _walk(root, sheet, _START):
        shapes.append(shape)
        if len(shapes) == MAX_SHAPES:
            break
    return tuple(shapes), box


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The context of an element in the traversal of a drawing.

    Attributes:
        root: The whole drawing.
        by_id: All elements with an id.
        matrix: Transform from local units to those of the whole drawing.
        viewport: Reference lengths.
        clip: The visible area, in units of the whole drawing.
        num_uses: Number of references followed so far.
    """

    root: ET.Element
    by_id: dict[str, ET.Element]
    matrix: Matrix
    viewport: Viewport
    clip: Clip
    num_uses: int = 0


def _walk(element: ET.Element, place: _Place, inherited: dict[str, str]) -> Iterator[Shape]:
    """Yields the shapes of an element and its descendants, following references."""
    if (element.tag in _NEVER_DRAWN and place.num_uses == 0) or _is_hidden(element, place.viewport):
        return
    paint = _paint(element, inherited)
    viewport = place.viewport.with_font_size(paint["font-size"])
    matrix = transform_of(element.get("transform", ""), viewport, element.get("transform-origin", ""))
    if matrix[0, 0] * matrix[1, 1] == matrix[0, 1] * matrix[1, 0]:
        return  # flattened to a line or a point, which the renderer does not draw
    place = replace(place, matrix=combined(place.matrix, matrix), viewport=viewport)
    if element.tag in DRAWN:
        shape = _shape(element, place, paint)
        if shape is not None:
            yield shape
        return
    if element.tag == "use":
        yield from _walk_used(element, place, paint)
        return
    inner = _inside(element, place)
    if inner is not None:
        parts = [part for part in element if "requiredExtensions" not in part.attrib]
        for part in parts[:1] if element.tag == "switch" else parts:
            yield from _walk(part, inner, paint)


def _walk_used(element: ET.Element, place: _Place, paint: dict[str, str]) -> Iterator[Shape]:
    """Yields the shapes that a `<use>` repeats."""
    if place.num_uses >= MAX_USE_DEPTH:
        return
    x, y = place.viewport.length(element, "x"), place.viewport.length(element, "y")
    matrix = combined(place.matrix, matrix_of(1, 0, 0, 1, x, y))
    place = replace(place, matrix=matrix, num_uses=place.num_uses + 1)
    for link in (link for name in _HREFS if (link := element.get(name))):
        used = place.by_id.get(link[1:])
        if used is None:
            continue
        if used.tag in _VIEWPORTS and {"width", "height"} <= set(element.keys()):
            sides = {name: element.get(name, "") for name in ("width", "height")}
            used = _with_attributes(used, sides)
        yield from _walk(used, place, paint)


def _with_attributes(element: ET.Element, attributes: dict[str, str]) -> ET.Element:
    """Returns a copy of an element with updated attributes and the same content."""
    changed = ET.Element(element.tag, {**element.attrib, **attributes})
    changed.extend(element)
    return changed


def _inside(element: ET.Element, place: _Place) -> _Place | None:
    """Returns the context of an element's content; None if nothing of it is visible."""
    if element.tag not in _VIEWPORTS or element is place.root:
        return place
    around = place.viewport
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
    matrix, clip = combined(place.matrix, matrix_of(scale_x, 0, 0, scale_y, x, y)), place.clip
    if element.get("overflow", "hidden") != "visible":
        left, top = box[0] - shift_x, box[1] - shift_y
        clip = _shared(clip, _moved_box((left, top, left + seen.width, top + seen.height), matrix))
    return replace(place, matrix=matrix, viewport=seen, clip=clip)


def _moved_box(box: Clip, matrix: Matrix) -> Clip:
    left, top, right, bottom = box
    return _box_of(moved([(left, top), (right, top), (right, bottom), (left, bottom)], matrix))


def _box_of(points: Points) -> Clip:
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def _shared(first: Clip, second: Clip) -> Clip:
    """Returns the intersection of two boxes; inverted if it is empty."""
    return (
        max(first[0], second[0]),
        max(first[1], second[1]),
        min(first[2], second[2]),
        min(first[3], second[3]),
    )


def _is_hidden(element: ET.Element, viewport: Viewport) -> bool:
    """Returns whether nothing of an element and its content is drawn; a group with a side of 0 is also skipped."""
    if any(name in element.attrib and viewport.size(element.attrib[name]) == 0 for name in ("width", "height")):
        return True
    opacity = numbers(element.get("opacity", "1"))
    return element.get("display") == "none" or opacity[:1] == [0.0]


def _paint(element: ET.Element, inherited: dict[str, str]) -> dict[str, str]:
    """Returns an element's colors, visibility, and font size, its own or inherited."""
    found = {name: element.get(name, "").strip() for name in _INHERITED}
    found = {name: value for name, value in found.items() if plain_value(name, value) is not None}
    paint = inherited | {name: value for name, value in found.items() if value and value != "inherit"}
    return paint | {name: paint["color"] for name in ("fill", "stroke") if paint[name].lower() == "currentcolor"}


def _is_seen(paint: dict[str, str], name: str) -> bool:
    """Returns whether a fill or a stroke is visible."""
    value = paint[name]
    color = rgba_of(value)
    is_clear = value.lower() in _NO_PAINT or (color is not None and color[3] == 0)
    return not is_clear and numbers(paint[f"{name}-opacity"])[:1] != [0.0]


def _shape(element: ET.Element, place: _Place, paint: dict[str, str]) -> Shape | None:
    """Returns a shape as drawn; None if nothing of it is visible."""
    points = moved(outline(element, place.viewport), place.matrix)
    filled = _is_seen(paint, "fill") and element.tag != "line"
    color = paint["fill"] if filled else paint["stroke"]
    if not points or not (filled or _is_seen(paint, "stroke")) or paint["visibility"] != "visible":
        return None
    if not all(abs(value) < MOST for point in points for value in point):
        return None
    left, top, right, bottom = _shared(_box_of(points), place.clip)
    if left > right or top > bottom:
        return None
    box = [round(value, 1) + 0.0 for value in (left, top, right, bottom)]
    kind = "triangle" if element.tag == "polygon" and len(points) == 3 else str(element.tag)
    return Shape(kind=kind, color=color_name(color), filled=filled, box=box)
