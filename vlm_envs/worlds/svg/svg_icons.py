"""Icons drawn by a program, in five bands of difficulty."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from vlm_envs.errors import ConfigError

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


Box = tuple[int, int, int, int]

_GRID = 4
_TRIES = 64


def _one_shape(rng: np.random.Generator, pen: Pen) -> None:
    """Draws one large circle, rectangle or triangle on a grid of four units."""
    (color,) = pick_colors(rng, 1)
    _shape(rng, pen, _box(rng, 20, 56), color, ("circle", "rect", "triangle"))


def _few_shapes(rng: np.random.Generator, pen: Pen) -> None:
    """Draws two or three shapes that hardly overlap, outlines and lines among them."""
    count = int(rng.integers(2, 4))
    taken: list[Box] = []
    for color in pick_colors(rng, count):
        box = _free_box(rng, taken, 16, 44 if count == 2 else 32)
        taken.append(box)
        _shape(rng, pen, box, color, ("circle", "rect", "triangle", "ellipse", "diamond", "ring", "frame", "line"))


def _box(rng: np.random.Generator, smallest: int, largest: int) -> Box:
    """Returns a random box on the grid, off the edges of the sheet: x, y, width, height."""
    width, height = (_GRID * int(rng.integers(smallest // _GRID, largest // _GRID + 1)) for _ in range(2))
    x, y = (_GRID * int(rng.integers(1, (SHEET - side) // _GRID)) for side in (width, height))
    return x, y, width, height


def _free_box(rng: np.random.Generator, taken: list[Box], smallest: int, largest: int) -> Box:
    """Returns the random box that overlaps those taken least, or the first that overlaps none."""
    boxes = [_box(rng, smallest, largest) for _ in range(_TRIES if taken else 1)]
    return min(boxes, key=lambda box: sum(_overlap(box, other) for other in taken))


def _overlap(first: Box, second: Box) -> int:
    width = min(first[0] + first[2], second[0] + second[2]) - max(first[0], second[0])
    height = min(first[1] + first[3], second[1] + second[3]) - max(first[1], second[1])
    return max(0, width) * max(0, height)


def _shape(rng: np.random.Generator, pen: Pen, box: Box, color: str, kinds: tuple[str, ...]) -> None:
    """Draws a shape of a random kind into a box."""
    x, y, width, height = box
    cx, cy, radius = x + width / 2, y + height / 2, min(width, height) / 2
    match kinds[rng.integers(len(kinds))]:
        case "circle":
            pen.circle(cx, cy, radius, color)
        case "rect":
            pen.rect(x, y, width, height, color)
        case "triangle":
            pen.polygon([(cx, y), (x + width, y + height), (x, y + height)], color)
        case "ellipse":
            pen.ellipse(cx, cy, width / 2, height / 2, color)
        case "diamond":
            pen.polygon([(cx, y), (x + width, cy), (cx, y + height), (x, cy)], color)
        case "ring":
            pen.circle(cx, cy, radius - 2, pen.outline(color, 4))
        case "frame":
            pen.rect(x + 2, y + 2, width - 4, height - 4, pen.outline(color, 4))
        case "line":
            pen.line((x, y), (x + width, y + height), color, 4)


def _heart(rng: np.random.Generator, pen: Pen) -> None:
    fill, line = pick_colors(rng, 2)
    steps = "M 32 58 C 10 42 4 32 4 21 C 4 3 26 1 32 17 C 38 1 60 3 60 21 C 60 32 54 42 32 58 Z"
    pen.path(steps, fill if rng.random() < 0.5 else pen.outline(line, 4, fill=fill))
    if rng.random() < 0.5:
        pen.path("M 12 22 Q 12 12 21 12", pen.outline("white", 3))


def _cloud(rng: np.random.Generator, pen: Pen) -> None:
    puff, drop = pick_colors(rng, 2)
    weather = rng.integers(3)
    if weather == 0:
        pen.circle(44, 18, 12, "gold")
    pen.path("M 16 42 C 2 42 2 24 16 24 C 18 8 40 8 43 21 C 62 19 62 42 48 42 Z", puff)
    if weather == 1:
        for x in range(18, 50, 12):
            pen.line((x, 47), (x - 4, 57), drop, 3)
    if weather == 2:
        pen.path("M 34 44 L 24 54 L 31 54 L 27 63 L 40 51 L 33 51 Z", "gold")


def _moon(rng: np.random.Generator, pen: Pen) -> None:
    sky = ("black", "blue", "purple", "teal")[rng.integers(4)]
    pen.rect(2, 2, 60, 60, sky, rx=int(rng.choice([0, 8, 30])))
    pen.path("M 40 12 C 6 14 10 56 46 50 C 26 48 22 22 40 12 Z", "gold")
    for x, y in rng.permutation([(46, 18), (52, 32), (40, 34), (44, 44)])[: int(rng.integers(1, 4))]:
        pen.circle(x, y, 2, "white")


def _fish(rng: np.random.Generator, pen: Pen) -> None:
    body, fin = pick_colors(rng, 2)
    pen.path("M 42 32 L 60 16 Q 54 32 60 48 Z", fin)
    pen.path("M 4 34 C 14 12 36 12 50 32 C 36 54 14 54 4 34 Z", body)
    pen.path("M 24 30 Q 36 34 24 42 Z", fin)
    pen.circle(15, 29, 3, "white")
    if rng.random() < 0.5:
        pen.circle(8, 14, 4, pen.outline(body, 2))


def _leaf(rng: np.random.Generator, pen: Pen) -> None:
    blade, vein = pick_colors(rng, 2)
    pen.path("M 10 54 C 4 16 30 6 58 6 C 58 36 44 58 10 54 Z", blade)
    pen.path("M 4 60 Q 24 44 46 18", pen.outline(vein, 3))
    if rng.random() < 0.6:
        pen.path("M 26 40 L 26 24 M 26 40 L 42 40", pen.outline(vein, 2))


def _bell(rng: np.random.Generator, pen: Pen) -> None:
    metal, clapper = pick_colors(rng, 2)
    pen.circle(32, 53, 6, clapper)
    pen.path("M 8 50 Q 16 44 16 28 C 16 4 48 4 48 28 Q 48 44 56 50 Z", metal)
    pen.circle(32, 8, 4, metal)
    if rng.random() < 0.5:
        pen.path("M 6 26 Q 6 12 14 6 M 58 26 Q 58 12 50 6", pen.outline(clapper, 3))


def _pin(rng: np.random.Generator, pen: Pen) -> None:
    drop, hole = pick_colors(rng, 2)
    if rng.random() < 0.5:
        pen.ellipse(32, 57, 16, 5, "lightgray")
    pen.path(
        "M 32 58 C 24 44 12 36 12 23 C 12 -3 52 -3 52 23 C 52 36 40 44 32 58 Z",
        drop,
    )
    pen.circle(32, 23, 8, ("white", hole)[rng.integers(2)])


def _bubble(rng: np.random.Generator, pen: Pen) -> None:
    fill, ink = pick_colors(rng, 2)
    tail = "L 30 44 L 16 58 L 18 44 L 14 44"
    pen.path(f"M 14 6 L 50 6 Q 60 6 60 16 L 60 34 Q 60 44 50 44 {tail} Q 4 44 4 34 L 4 16 Q 4 6 14 6 Z", fill)
    if rng.random() < 0.5:
        for x in (18, 32, 46):
            pen.circle(x, 25, 4, ("white", ink)[int(ink != "white")])
    else:
        for y, right in ((18, 50), (30, 38)):
            pen.line((14, y), (right, y), ink, 4)


def _umbrella(rng: np.random.Generator, pen: Pen) -> None:
    cloth, stick = pick_colors(rng, 2)
    pen.path("M 32 30 L 32 52 Q 32 60 24 60 Q 18 60 18 54", pen.outline(stick, 4))
    pen.path("M 4 34 C 6 -2 58 -2 60 34 Q 52 26 44 34 Q 32 24 20 34 Q 12 26 4 34 Z", cloth)
    if rng.random() < 0.5:
        pen.path("M 20 34 Q 22 14 32 7 Q 42 14 44 34", pen.outline("white", 2))


def _cup(rng: np.random.Generator, pen: Pen) -> None:
    china, steam = pick_colors(rng, 2)
    pen.path("M 44 30 C 62 26 62 50 42 48", pen.outline(china, 4))
    pen.path(
        "M 8 26 L 48 26 L 45 48 Q 44 56 36 56 L 20 56 Q 12 56 11 48 Z",
        china,
    )
    for x in (18, 28, 38)[: int(rng.integers(1, 4))]:
        pen.path(f"M {x} 20 Q {x - 5} 15 {x} 11 Q {x + 5} 7 {x} 3", pen.outline(steam, 3))


def _boat(rng: np.random.Generator, pen: Pen) -> None:
    hull, sail, other = pick_colors(rng, 3)
    pen.path("M 30 4 Q 56 22 52 38 L 30 38 Z", sail)
    pen.path("M 26 10 Q 14 26 12 38 L 26 38 Z", other)
    pen.path("M 6 42 L 58 42 Q 52 56 42 56 L 20 56 Q 10 56 6 42 Z", hull)
    if rng.random() < 0.6:
        pen.path("M 2 60 Q 9 55 17 60 Q 24 64 32 60 Q 40 55 47 60 Q 54 64 62 60", pen.outline("skyblue", 3))


def _bird(rng: np.random.Generator, pen: Pen) -> None:
    body, wing, beak = pick_colors(rng, 3)
    pen.path("M 50 18 L 63 23 L 50 28 Z", beak)
    pen.path("M 2 26 L 18 34 C 26 34 28 8 44 8 C 58 8 56 28 52 34 C 46 56 16 60 2 26 Z", body)
    pen.path("M 18 36 Q 34 30 42 34 Q 36 50 18 36 Z", wing)
    pen.circle(44, 18, 3, "white")
    if rng.random() < 0.5:
        pen.path("M 28 50 L 26 62 M 36 48 L 38 62", pen.outline(beak, 3))


def _apple(rng: np.random.Generator, pen: Pen) -> None:
    skin, green = pick_colors(rng, 2)
    pen.path("M 32 20 C 18 10 4 20 6 36 C 8 52 22 66 32 58 C 42 66 56 52 58 36 C 60 20 46 10 32 20 Z", skin)
    pen.path("M 32 20 Q 32 10 26 4", pen.outline("brown", 3))
    if rng.random() < 0.7:
        pen.path("M 34 14 Q 38 2 52 4 Q 48 16 34 14 Z", green)


_CURVED = (_heart, _cloud, _moon, _fish, _leaf, _bell, _pin, _bubble, _umbrella, _cup, _boat, _bird, _apple)


_MIDDLE = (32.0, 32.0)


def _flower(rng: np.random.Generator, pen: Pen) -> None:
    petal, middle = pick_colors(rng, 2)
    count = int(rng.choice([4, 5, 6, 8]))
    one = pen.copy()
    one.ellipse(32, 16, 30 / count + 2, 13, petal)
    _around(pen, count, one.elements)
    pen.circle(32, 32, 9, middle)


def _sun(rng: np.random.Generator, pen: Pen) -> None:
    ray, disc = pick_colors(rng, 2)
    count = int(rng.choice([6, 8, 10, 12]))
    one = pen.copy()
    if rng.random() < 0.5:
        one.polygon([(32, 2), (36, 14), (28, 14)], ray)
    else:
        one.line((32, 3), (32, 13), ray, 4)
    _around(pen, count, one.elements)
    pen.circle(32, 32, 15, disc)


def _clock(rng: np.random.Generator, pen: Pen) -> None:
    rim, hand = pick_colors(rng, 2)
    pen.circle(32, 32, 27, pen.outline(rim, 5, fill="white"))
    for length, angle in ((14, 30 * int(rng.integers(12))), (20, 30 * int(rng.integers(12)))):
        one = pen.copy()
        one.line(_MIDDLE, (32, 32 - length), hand, 4 if length == 14 else 3)
        pen.turned(angle, _MIDDLE, one.elements)
    pen.circle(32, 32, 3, hand)


def _gear(rng: np.random.Generator, pen: Pen) -> None:
    (metal,) = pick_colors(rng, 1)
    one = pen.copy()
    one.rect(27, 3, 10, 14, metal)
    _around(pen, int(rng.choice([6, 8])), one.elements)
    pen.circle(32, 32, 21, metal)
    pen.circle(32, 32, int(rng.integers(6, 12)), "white")


def _windmill(rng: np.random.Generator, pen: Pen) -> None:
    first, second, stick = pick_colors(rng, 3)
    pen.line((32, 28), (32, 63), stick, 3)
    start = 15 * int(rng.integers(6))
    for index, color in enumerate((first, second, first, second)):
        one = pen.copy()
        one.polygon([(32, 26), (32, 4), (46, 12)], color)
        pen.turned(start + 90 * index, (32, 26), one.elements)
    pen.circle(32, 26, 3, stick)


def _snowflake(rng: np.random.Generator, pen: Pen) -> None:
    (ice,) = pick_colors(rng, 1)
    one = pen.copy()
    one.line(_MIDDLE, (32, 4), ice, 3)
    twig = int(rng.integers(10, 18))
    one.polyline([(25, twig - 6), (32, twig), (39, twig - 6)], pen.outline(ice, 3))
    _around(pen, 6, one.elements)


def _pencil(rng: np.random.Generator, pen: Pen) -> None:
    wood, rubber = pick_colors(rng, 2)
    one = pen.copy()
    one.rect(26, 2, 12, 8, rubber)
    one.rect(26, 10, 12, 34, wood)
    one.polygon([(26, 44), (38, 44), (32, 60)], "tan")
    one.polygon([(30, 54), (34, 54), (32, 60)], "black")
    pen.turned(15 * int(rng.integers(-5, 6)), _MIDDLE, one.elements)


def _butterfly(rng: np.random.Generator, pen: Pen) -> None:
    upper, lower, body = pick_colors(rng, 3)
    wing = pen.copy()
    wing.ellipse(46, 22, 14, 15, upper)
    wing.ellipse(43, 45, 10, 12, lower)
    wing.circle(47, 22, 5, "white")
    half = "".join(wing.elements)
    axis = number(2 * (pen.offset[0] + pen.scale * 32))
    pen.elements += [f"<g>{half}</g>", f'<g transform="translate({axis} 0) scale(-1 1)">{half}</g>']
    pen.ellipse(32, 34, 3, 22, body)


def _die(rng: np.random.Generator, pen: Pen) -> None:
    (side,) = pick_colors(rng, 1)
    one = pen.copy()
    one.rect(12, 12, 40, 40, side, rx=7)
    spots = {1: "e", 2: "ai", 3: "aei", 4: "acgi", 5: "acegi", 6: "acdfgi"}[int(rng.integers(1, 7))]
    for spot in spots:
        row, column = divmod("abcdefghi".index(spot), 3)
        one.circle(20 + 12 * column, 20 + 12 * row, 4, "white")
    pen.turned(15 * int(rng.integers(-2, 3)), _MIDDLE, one.elements)


def _propeller(rng: np.random.Generator, pen: Pen) -> None:
    ring, blade = pick_colors(rng, 2)
    pen.circle(32, 32, 28, pen.outline(ring, 4))
    one = pen.copy()
    one.ellipse(32, 19, 6, 12, blade)
    _around(pen, int(rng.choice([3, 4, 5])), one.elements)
    pen.circle(32, 32, 5, ring)


def _stars(rng: np.random.Generator, pen: Pen) -> None:
    (color,) = pick_colors(rng, 1)
    corners = [(r * math.sin(i * math.pi / 5), -r * math.cos(i * math.pi / 5)) for i, r in enumerate([12, 5] * 5)]
    written = " ".join(f"{number(x)},{number(y)}" for x, y in corners)
    spots = [(16, 16), (48, 16), (16, 48), (48, 48), (32, 32)]
    chosen = rng.permutation(len(spots))[: int(rng.integers(2, 5))]
    for index, spot in enumerate(spots[i] for i in chosen):
        place = f"translate({pen.x(spot[0])} {pen.y(spot[1])}) scale({number(pen.scale)})"
        shape = f'<polygon id="s" points="{written}" fill="{color}"/>' if index == 0 else '<use href="#s"/>'
        pen.elements.append(f'<g transform="{place}">{shape}</g>')


_TURNING = (_flower, _sun, _clock, _gear, _windmill, _snowflake, _pencil, _butterfly, _die, _propeller, _stars)


def _around(pen: Pen, count: int, elements: list[str]) -> None:
    """Adds elements `count` times, turned about the middle."""
    pen.elements += elements
    for index in range(1, count):
        pen.turned(360 * index / count, _MIDDLE, elements)


def _house(rng: np.random.Generator, pen: Pen) -> None:
    wall, roof, door, glass = pick_colors(rng, 4)
    pen.rect(12, 28, 40, 32, wall)
    pen.polygon([(32, 4), (60, 28), (4, 28)], roof)
    pen.rect(18, 40, 12, 20, door)
    if rng.random() < 0.7:
        pen.rect(36, 36, 10, 10, pen.outline("white", 2, fill=glass))


def _snowman(rng: np.random.Generator, pen: Pen) -> None:
    line, hat = pick_colors(rng, 2)
    paint = pen.outline(line, 2, fill="white")
    pen.circle(32, 47, 15, paint)
    pen.circle(32, 23, 10, paint)
    pen.rect(24, 2, 16, 11, hat)
    pen.rect(19, 12, 26, 3, hat)
    for y in range(40, 40 + 7 * int(rng.integers(2, 4)), 7):
        pen.circle(32, y, 2, line)


def _traffic_light(rng: np.random.Generator, pen: Pen) -> None:
    case, dark = [("black", "gray"), ("gray", "black"), ("blue", "black")][rng.integers(3)]
    lit = int(rng.integers(3))
    pen.rect(20, 2, 24, 60, case, rx=6)
    for index, color in enumerate(("red", "gold", "green")):
        pen.circle(32, 14 + 18 * index, 7, color if index == lit else dark)


def _target(rng: np.random.Generator, pen: Pen) -> None:
    outer, inner = pick_colors(rng, 2)
    radii = [28, 20, 12, 5][: int(rng.integers(3, 5))]
    for index, radius in enumerate(radii):
        pen.circle(32, 32, radius, [outer, "white", inner, "white"][index])


def _face(rng: np.random.Generator, pen: Pen) -> None:
    skin, ink = pick_colors(rng, 2)
    if rng.random() < 0.5:
        pen.circle(12, 16, 8, skin)
        pen.circle(52, 16, 8, skin)
    pen.circle(32, 34, 24, skin)
    pen.circle(24, 28, 3, ink)
    pen.circle(40, 28, 3, ink)
    mouth = [[(22, 42), (32, 48), (42, 42)], [(22, 46), (32, 40), (42, 46)], [(22, 44), (42, 44)]][rng.integers(3)]
    pen.polyline(mouth, pen.outline(ink, 3))


def _fir_tree(rng: np.random.Generator, pen: Pen) -> None:
    leaves, trunk, ball = pick_colors(rng, 3)
    pen.rect(28, 50, 8, 12, trunk)
    for index in range(int(rng.integers(2, 4))):
        half, bottom = 24 - 5 * index, 52 - 14 * index
        pen.polygon([(32, bottom - 24), (32 + half, bottom), (32 - half, bottom)], leaves)
    if rng.random() < 0.5:
        pen.circle(32, 6, 4, ball)


def _car(rng: np.random.Generator, pen: Pen) -> None:
    body, wheel, glass = pick_colors(rng, 3)
    pen.polygon([(16, 30), (24, 16), (44, 16), (52, 30)], pen.outline(body, 3, fill=glass))
    pen.rect(4, 28, 56, 16, body, rx=4)
    for x in (18, 46):
        pen.circle(x, 44, 7, pen.outline("white", 2, fill=wheel))


def _flag(rng: np.random.Generator, pen: Pen) -> None:
    stripes = pick_colors(rng, 3)
    upright = rng.random() < 0.5
    pen.line((10, 4), (10, 62), "black", 3)
    for index, color in enumerate(stripes):
        if upright:
            pen.rect(12 + 16 * index, 6, 16, 30, color)
        else:
            pen.rect(12, 6 + 10 * index, 48, 10, color)


def _envelope(rng: np.random.Generator, pen: Pen) -> None:
    paper, ink, seal = pick_colors(rng, 3)
    pen.rect(5, 14, 54, 38, pen.outline(ink, 3, fill=paper))
    pen.polyline([(5, 14), (32, 36), (59, 14)], pen.outline(ink, 3))
    if rng.random() < 0.5:
        pen.circle(32, 36, 6, seal)


def _lamp(rng: np.random.Generator, pen: Pen) -> None:
    shade, stand = pick_colors(rng, 2)
    pen.line((32, 28), (32, 56), stand, 4)
    pen.polygon([(22, 6), (42, 6), (54, 32), (10, 32)], shade)
    pen.rect(18, 54, 28, 6, stand)
    if rng.random() < 0.5:
        pen.circle(32, 36, 4, "gold")


def _robot(rng: np.random.Generator, pen: Pen) -> None:
    metal, eye, trim = pick_colors(rng, 3)
    pen.line((32, 4), (32, 16), trim, 3)
    pen.circle(32, 5, 4, trim)
    pen.rect(10, 16, 44, 40, metal, rx=6)
    for x in (22, 42):
        pen.circle(x, 30, 5, pen.outline(eye, 3, fill="white"))
    pen.rect(20, 43, 24, 5, trim)


def _chart(rng: np.random.Generator, pen: Pen) -> None:
    colors = pick_colors(rng, 3)
    for index, color in enumerate(colors):
        height = 8 * int(rng.integers(1, 7))
        pen.rect(10 + 16 * index, 56 - height, 12, height, color)
    pen.line((4, 58), (60, 58), "black", 3)


def _screen(rng: np.random.Generator, pen: Pen) -> None:
    case, picture, mark = pick_colors(rng, 3)
    pen.rect(5, 8, 54, 36, pen.outline(case, 4, fill=picture), rx=3)
    pen.rect(28, 46, 8, 8, case)
    pen.rect(18, 54, 28, 5, case)
    if rng.random() < 0.5:
        pen.polygon([(26, 18), (42, 26), (26, 34)], mark)
    else:
        pen.circle(32, 26, 9, mark)


_THINGS = (
    _house, _snowman, _traffic_light, _target, _face, _fir_tree, _car, _flag, _envelope,
    _lamp, _robot, _chart, _screen,
)  # fmt: skip


Motif = Callable[[np.random.Generator, Pen], None]

BANDS: dict[int, tuple[Motif, ...]] = {
    1: (_one_shape,),
    2: (_few_shapes,),
    3: _THINGS,
    4: _TURNING,
    5: _CURVED,
}
"""What each band draws: 1 one shape; 2 two or three shapes; 3 things of plain shapes with strokes; 4 turned, mirrored
and repeated groups; 5 curved paths, some on a badge."""

MIXED = "mixed"
_BADGE_SHARE = 0.25


def check_difficulty(difficulty: object) -> int | str:
    """Returns a difficulty, 1 to 5 or `"mixed"`; raises `ConfigError` for anything else."""
    if difficulty == MIXED or (
        isinstance(difficulty, int) and not isinstance(difficulty, bool) and difficulty in BANDS
    ):
        return difficulty
    raise ConfigError(f"difficulty must be 1, 2, 3, 4, 5 or 'mixed'; got {difficulty!r}.")


def draw_icon(rng: np.random.Generator, difficulty: int | str) -> str:
    """Returns the markup of a random icon of a difficulty, 1 to 5 or `"mixed"`, with `viewBox="0 0 64 64"`.

    It has about 80 characters in band 1, up to 900 in bands 4 and 5.
    """
    band = int(rng.integers(1, len(BANDS) + 1)) if isinstance(difficulty, str) else difficulty
    motifs = BANDS[band]
    motif = motifs[rng.integers(len(motifs))]
    if band <= 2:
        pen = Pen()
    elif band == 5 and rng.random() < _BADGE_SHARE:
        pen = _badge(rng)
    else:
        pen = Pen.somewhere(rng)
    motif(rng, pen)
    return pen.markup()


def _badge(rng: np.random.Generator) -> Pen:
    """Returns a pen that draws inside a badge, which it has drawn already."""
    sheet = Pen()
    (color,) = pick_colors(rng, 1)
    paint = sheet.outline(color, 3, fill=("white", "ivory", "lavender", "mintcream")[rng.integers(4)])
    if rng.random() < 0.5:
        sheet.circle(32, 32, 30, paint)
    else:
        sheet.rect(2, 2, 60, 60, paint, rx=10)
    pen = Pen(scale=0.625, offset=(12, 12))
    pen.elements += sheet.elements
    return pen
