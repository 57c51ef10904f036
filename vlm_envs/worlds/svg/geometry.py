"""Where the shapes of a drawing lie: their outlines as points, moved by their transforms."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vlm_envs.worlds.svg.viewports import MOST, Viewport

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
    """Returns the numbers in a text, whatever stands between them; those beyond a thousand million are cut there."""
    return [min(max(float(found), -MOST), MOST) for found in _NUMBERS.findall(text)]


def transform_of(text: str, viewport: Viewport, origin: str = "") -> Matrix:
    """Returns the 3 by 3 matrix of a `transform` attribute; steps that cannot be read change nothing.

    Args:
        text: The attribute; lengths in it may have units, and per cent are of the diagonal, as for the renderer.
        viewport: What they are of.
        origin: The element's `transform-origin`.
    """
    matrix = IDENTITY
    steps = _TRANSFORM.findall(_separated(text)) if text else []
    for name, arguments in steps:
        matrix = combined(matrix, _step(name, [viewport.size(each) for each in arguments.strip().split(" ")]))
    if not (steps and origin):
        return matrix
    x, y = _origin(origin, viewport)
    return combined(combined(matrix_of(1, 0, 0, 1, x, y), matrix), matrix_of(1, 0, 0, 1, -x, -y))


def _origin(written: str, viewport: Viewport) -> tuple[float, float]:
    """Returns the place that a `transform-origin` names; (0, 0) for those that are not followed."""
    pieces = written.split(" ")
    if len(pieces) == 1 or _OF_THE_PICTURE.intersection(pieces[:2]):
        return 0.0, 0.0
    x, y = pieces[:2]
    if x == "top":
        x, y = y, x
    return viewport.size(_AT_ZERO.get(x, x), viewport.width), viewport.size(_AT_ZERO.get(y, y), viewport.height)


def _separated(text: str) -> str:
    """Returns a list of numbers, with units or without, with one space between two, divided as the renderer does."""
    text = _SEPARATORS.sub(" ", _SIGN.sub(" -", text.replace("E", "e")))
    return _NEXT_FRACTION.sub(r"\1 ", text).strip()


def combined(outer: Matrix, inner: Matrix) -> Matrix:
    """Returns the transform that applies `inner` first; absurd ones may hold infinities."""
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
    """Returns the matrix that SVG calls matrix(a b c d e f)."""
    return np.array([[a, c, e], [b, d, f], [0, 0, 1]], dtype=np.float64)


def moved(points: Points, matrix: Matrix) -> Points:
    """Returns points after a transform."""
    with np.errstate(all="ignore"):  # absurd transforms give infinities, which the caller sorts out
        flat = np.array([(x, y, 1.0) for x, y in points]).reshape(-1, 3) @ matrix.T
    return [(float(x), float(y)) for x, y, _ in flat]


def outline(element: ET.Element, viewport: Viewport) -> Points:
    """Returns points whose hull holds a shape, in the shape's own units; none for what is no shape, or has no size.

    Curves of paths are given by their control points, so their box may be somewhat too large; text has one point.
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
            # Each may be a list, of a place for each letter
            first_x, first_y = (_separated(element.get(name, "")).partition(" ")[0] for name in ("x", "y"))
            return [(viewport.size(first_x, viewport.width), viewport.size(first_y, viewport.height))]
    return []


def _oval(cx: float, cy: float, rx: float, ry: float) -> Points:
    """Returns points around an ellipse, close enough for the box of a turned one; none for what the renderer skips."""
    if rx <= 0 or ry == 0:
        return []
    turns = [index * math.pi / 8 for index in range(16)]
    return [(cx + rx * math.cos(turn), cy + ry * math.sin(turn)) for turn in turns]


def path_points(text: str) -> Points:
    """Returns the corners and control points of path data; of an arc, its ends and the box of its radii."""
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
