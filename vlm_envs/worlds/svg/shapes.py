"""What a drawing shows, as a list of shapes with kind, colour and box: the ground truth of pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypedDict

from vlm_envs.worlds.svg.colors import color_name
from vlm_envs.worlds.svg.geometry import (
    IDENTITY,
    Matrix,
    Points,
    combined,
    matrix_of,
    moved,
    numbers,
    outline,
    transform_of,
)
from vlm_envs.worlds.svg.markup import MarkupError, ViewBox, read_markup, view_box
from vlm_envs.worlds.svg.paints import plain_value, rgba_of
from vlm_envs.worlds.svg.stylesheets import apply_styles
from vlm_envs.worlds.svg.viewports import Clip, Viewport, outermost, placed

DRAWN = frozenset({"circle", "ellipse", "rect", "line", "polyline", "polygon", "path", "text"})
"""Elements that are shapes."""

KINDS = ("circle", "ellipse", "rect", "line", "polyline", "triangle", "polygon", "path", "text")
"""Kinds of shapes: their element's name, or `triangle` for a polygon of three corners."""

MAX_SHAPES = 200
"""Most shapes listed; a drawing may have more."""

MAX_USE_DEPTH = 8
"""Most references followed one inside another for the list of shapes; deeper ones are drawn and not listed."""

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
_FARTHEST = 1e9


class Shape(TypedDict):
    """One shape of a drawing.

    Attributes:
        kind: One of `KINDS`.
        color: Name of what it is filled with, or stroked with if it is not filled.
        filled: Whether it is filled.
        box: Left, top, right and bottom in units of the `viewBox`, to one decimal; strokes are left out.
    """

    kind: str
    color: str
    filled: bool
    box: list[float]


def shapes_of(markup: str) -> list[Shape] | None:
    """Returns the shapes of a drawing in the order they are drawn; None if the markup cannot be read."""
    drawing = _read(markup)
    return None if drawing is None else [shape.copy() for shape in drawing[0]]


def view_box_of(markup: str) -> ViewBox | None:
    """Returns the `viewBox` of a drawing; None if the markup cannot be read."""
    drawing = _read(markup)
    return None if drawing is None else drawing[1]


@lru_cache(maxsize=256)
def _read(markup: str) -> tuple[tuple[Shape, ...], ViewBox] | None:
    """Returns shapes and `viewBox`; kept, because a state is described several times a turn."""
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
    """Where the walk through a drawing stands.

    Attributes:
        root: The whole drawing.
        by_id: All elements that have a name.
        matrix: From the units here to those of the whole drawing.
        viewport: What lengths in per cent are of here.
        clip: What can be seen, in units of the whole drawing.
        num_uses: References followed on the way here.
    """

    root: ET.Element
    by_id: dict[str, ET.Element]
    matrix: Matrix
    viewport: Viewport
    clip: Clip
    num_uses: int = 0


def _walk(element: ET.Element, place: _Place, inherited: dict[str, str]) -> Iterator[Shape]:
    """Yields the shapes of an element and of those inside it, references followed."""
    if (element.tag in _NEVER_DRAWN and place.num_uses == 0) or _is_hidden(element, place.viewport):
        return
    paint = _paint(element, inherited)
    viewport = place.viewport.with_font_size(paint["font-size"])
    matrix = transform_of(element.get("transform", ""), viewport, element.get("transform-origin", ""))
    if matrix[0, 0] * matrix[1, 1] == matrix[0, 1] * matrix[1, 0]:
        return  # Flattened to a line or a point, of which the renderer draws nothing
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
    """Returns an element with other attributes and the same content."""
    changed = ET.Element(element.tag, {**element.attrib, **attributes})
    changed.extend(element)
    return changed


def _inside(element: ET.Element, place: _Place) -> _Place | None:
    """Returns where the content of an element stands; None if nothing of it can be seen."""
    if element.tag not in _VIEWPORTS or element is place.root:
        return place
    placement = placed(element, place.viewport)
    if placement is None:
        return None
    matrix = combined(place.matrix, matrix_of(*placement.matrix))
    clip = place.clip if placement.clip is None else _shared(place.clip, _moved_box(placement.clip, matrix))
    return replace(place, matrix=matrix, viewport=placement.viewport, clip=clip)


def _moved_box(box: Clip, matrix: Matrix) -> Clip:
    left, top, right, bottom = box
    return _box_of(moved([(left, top), (right, top), (right, bottom), (left, bottom)], matrix))


def _box_of(points: Points) -> Clip:
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def _shared(first: Clip, second: Clip) -> Clip:
    """Returns what two boxes have in common; turned around if that is nothing."""
    return (
        max(first[0], second[0]),
        max(first[1], second[1]),
        min(first[2], second[2]),
        min(first[3], second[3]),
    )


def _is_hidden(element: ET.Element, viewport: Viewport) -> bool:
    """Returns whether nothing of an element and its content is drawn; a group with a side of 0 is skipped too."""
    if any(name in element.attrib and viewport.size(element.attrib[name]) == 0 for name in ("width", "height")):
        return True
    opacity = numbers(element.get("opacity", "1"))
    return element.get("display") == "none" or opacity[:1] == [0.0]


def _paint(element: ET.Element, inherited: dict[str, str]) -> dict[str, str]:
    """Returns what holds for an element of colours, visibility and font: what it says, or what is inherited."""
    found = {name: element.get(name, "").strip() for name in _INHERITED}
    found = {name: value for name, value in found.items() if plain_value(name, value) is not None}
    paint = inherited | {name: value for name, value in found.items() if value and value != "inherit"}
    return paint | {name: paint["color"] for name in ("fill", "stroke") if paint[name].lower() == "currentcolor"}


def _is_seen(paint: dict[str, str], name: str) -> bool:
    """Returns whether a fill or a stroke leaves anything on the paper."""
    value = paint[name]
    color = rgba_of(value)
    is_clear = value.lower() in _NO_PAINT or (color is not None and color[3] == 0)
    return not is_clear and numbers(paint[f"{name}-opacity"])[:1] != [0.0]


def _shape(element: ET.Element, place: _Place, paint: dict[str, str]) -> Shape | None:
    """Returns a shape as it is drawn; None if nothing of it can be seen."""
    points = moved(outline(element, place.viewport), place.matrix)
    filled = _is_seen(paint, "fill") and element.tag != "line"
    color = paint["fill"] if filled else paint["stroke"]
    if not points or not (filled or _is_seen(paint, "stroke")) or paint["visibility"] != "visible":
        return None
    if not all(abs(value) < _FARTHEST for point in points for value in point):
        return None
    left, top, right, bottom = _shared(_box_of(points), place.clip)
    if left > right or top > bottom:
        return None
    box = [round(value, 1) + 0.0 for value in (left, top, right, bottom)]
    kind = "triangle" if element.tag == "polygon" and len(points) == 3 else str(element.tag)
    return Shape(kind=kind, color=color_name(color), filled=filled, box=box)
