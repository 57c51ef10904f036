"""Generated icons in five bands of difficulty. Most of bands 3 to 5 are described in `icons.toml`."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from vlm_envs.errors import ConfigError

SHEET = 64
"""Side of an icon's `viewBox`."""

COLORS = ("red", "orange", "gold", "green", "teal", "skyblue", "blue", "purple", "pink", "brown", "gray", "black")
"""CSS colors that are easy to distinguish."""

_ELEMENT = re.compile(r"(\w+) (.+?)(?: fill (\w+))?(?: stroke (\w+) (\d+))?")
_ALONG_X, _ALONG_Y = ("x", "cx", "x1", "x2"), ("y", "cy", "y1", "y2")
_ATTRIBUTES = {"circle": "cx cy r", "ellipse": "cx cy rx ry", "rect": "x y width height rx", "line": "x1 y1 x2 y2"}


class Pen:
    """Collects elements; coordinates refer to a 64 by 64 sheet, scaled and shifted by the pen.

    Args:
        scale: Factor on every length.
        offset: Position of the sheet's origin.
    """

    def __init__(self, *, scale: float = 1.0, offset: tuple[float, float] = (0.0, 0.0)) -> None:
        self.scale, self.offset = scale, offset
        self.elements: list[str] = []

    @classmethod
    def somewhere(cls, rng: np.random.Generator) -> Pen:
        """Returns a pen with a random size and position that keeps its drawing on the sheet."""
        scale = float(rng.choice([0.625, 0.75, 0.875, 1.0], p=[0.15, 0.25, 0.3, 0.3]))
        room = SHEET * (1 - scale)
        x, y = (2 * int(rng.integers(0, int(room / 2) + 1)) for _ in range(2))
        return cls(scale=scale, offset=(x, y))

    def x(self, value: float) -> str:
        """Formats a horizontal position."""
        return number(self.offset[0] + self.scale * value)

    def y(self, value: float) -> str:
        """Formats a vertical position."""
        return number(self.offset[1] + self.scale * value)

    def length(self, value: float) -> str:
        """Formats a length, which is never 0."""
        return number(max(0.5, self.scale * value))

    def draw(self, *elements: str, **colors: str) -> None:
        """Draws elements such as `rect 4 28 56 16 fill body stroke black 3`.

        Args:
            *elements: Tag, numbers (for a path, its data: absolute commands with x and y of their points),
                and paint.
            **colors: CSS colors of the names used in elements; other names are CSS colors themselves.
        """
        for element in elements:
            found = _ELEMENT.fullmatch(element)
            assert found is not None, f"not an element: {element}"
            tag, numbers, fill, stroke, width = found.groups()
            paint = "" if tag == "line" else f' fill="{colors.get(fill, fill or "none")}"'
            if stroke:
                paint += f' stroke="{colors.get(stroke, stroke)}" stroke-width="{self.length(float(width))}"'
            self.elements.append(f"<{tag} {self._geometry(tag, numbers.split())}{paint}/>")

    def _geometry(self, tag: str, numbers: Sequence[str]) -> str:
        if tag == "path":
            axes = itertools.cycle((self.x, self.y))
            data = (step if step.isalpha() else next(axes)(float(step)) for step in numbers)
            return f'd="{" ".join(data)}"'
        values = [float(value) for value in numbers]
        if tag in ("polygon", "polyline"):
            points = (f"{self.x(x)},{self.y(y)}" for x, y in zip(values[::2], values[1::2], strict=True))
            return f'points="{" ".join(points)}"'
        written = []
        for name, value in zip(_ATTRIBUTES[tag].split(), values, strict=False):
            write = self.x if name in _ALONG_X else self.y if name in _ALONG_Y else self.length
            written.append(f'{name}="{write(value)}"')
        return " ".join(written)

    def turned(self, degrees: float, center: tuple[float, float], elements: Iterable[str]) -> None:
        """Adds a group of elements, rotated about a point."""
        turn = f"rotate({number(degrees)} {self.x(center[0])} {self.y(center[1])})"
        self.elements.append(f'<g transform="{turn}">{"".join(elements)}</g>')

    def around(self, count: int, elements: Sequence[str]) -> None:
        """Adds elements `count` times, rotated about the middle of the sheet."""
        self.elements += elements
        for index in range(1, count):
            self.turned(360 * index / count, _MIDDLE, elements)

    def copy(self) -> Pen:
        """Returns a pen with the same scale and offset, and without elements."""
        return Pen(scale=self.scale, offset=self.offset)

    def markup(self) -> str:
        """Returns the whole drawing."""
        return f'<svg viewBox="0 0 {SHEET} {SHEET}">{"".join(self.elements)}</svg>'


def number(value: float) -> str:
    """Formats a number with at most one decimal, as short as possible."""
    return f"{round(value, 1):g}"


def pick_colors(rng: np.random.Generator, num_colors: int) -> list[str]:
    """Returns distinct colors of the palette."""
    return [COLORS[index] for index in rng.choice(len(COLORS), num_colors, replace=False)]


Box = tuple[int, int, int, int]

_MIDDLE = (32.0, 32.0)
_GRID = 4
_TRIES = 64


def _one_shape(rng: np.random.Generator, pen: Pen) -> None:
    """Draws one large circle, rectangle, or triangle on a grid of four units."""
    (color,) = pick_colors(rng, 1)
    _shape(rng, pen, _box(rng, 20, 56), color, ("circle", "rect", "triangle"))


def _few_shapes(rng: np.random.Generator, pen: Pen) -> None:
    """Draws two or three shapes that hardly overlap, possibly outlines and lines."""
    count = int(rng.integers(2, 4))
    taken: list[Box] = []
    for color in pick_colors(rng, count):
        box = _free_box(rng, taken, 16, 44 if count == 2 else 32)
        taken.append(box)
        _shape(rng, pen, box, color, ("circle", "rect", "triangle", "ellipse", "diamond", "ring", "frame", "line"))


def _box(rng: np.random.Generator, smallest: int, largest: int) -> Box:
    """Returns a random box on the grid, away from the edges of the sheet: x, y, width, height."""
    width, height = (_GRID * int(rng.integers(smallest // _GRID, largest // _GRID + 1)) for _ in range(2))
    x, y = (_GRID * int(rng.integers(1, (SHEET - side) // _GRID)) for side in (width, height))
    return x, y, width, height


def _free_box(rng: np.random.Generator, taken: list[Box], smallest: int, largest: int) -> Box:
    """Returns the random box with the least overlap with the taken ones; the first of equals."""
    boxes = [_box(rng, smallest, largest) for _ in range(_TRIES if taken else 1)]
    return min(boxes, key=lambda box: sum(_overlap(box, other) for other in taken))


def _overlap(first: Box, second: Box) -> int:
    width = min(first[0] + first[2], second[0] + second[2]) - max(first[0], second[0])
    height = min(first[1] + first[3], second[1] + second[3]) - max(first[1], second[1])
    return max(0, width) * max(0, height)


def _shape(rng: np.random.Generator, pen: Pen, box: Box, color: str, kinds: tuple[str, ...]) -> None:
    """Draws a shape of a random kind into a box."""
    x, y, width, height = box
    right, bottom, cx, cy, radius = x + width, y + height, x + width / 2, y + height / 2, min(width, height) / 2
    shapes = {
        "circle": f"circle {cx} {cy} {radius} fill {color}",
        "rect": f"rect {x} {y} {width} {height} fill {color}",
        "triangle": f"polygon {cx} {y} {right} {bottom} {x} {bottom} fill {color}",
        "ellipse": f"ellipse {cx} {cy} {width / 2} {height / 2} fill {color}",
        "diamond": f"polygon {cx} {y} {right} {cy} {cx} {bottom} {x} {cy} fill {color}",
        "ring": f"circle {cx} {cy} {radius - 2} stroke {color} 4",
        "frame": f"rect {x + 2} {y + 2} {width - 4} {height - 4} stroke {color} 4",
        "line": f"line {x} {y} {right} {bottom} stroke {color} 4",
    }
    pen.draw(shapes[kinds[rng.integers(len(kinds))]])


def _traffic_light(rng: np.random.Generator, pen: Pen) -> None:
    case, dark = [("black", "gray"), ("gray", "black"), ("blue", "black")][rng.integers(3)]
    lit = int(rng.integers(3))
    pen.draw(f"rect 20 2 24 60 6 fill {case}")
    for index, color in enumerate(("red", "gold", "green")):
        pen.draw(f"circle 32 {14 + 18 * index} 7 fill {color if index == lit else dark}")


def _windmill(rng: np.random.Generator, pen: Pen) -> None:
    first, second, stick = pick_colors(rng, 3)
    pen.draw(f"line 32 28 32 63 stroke {stick} 3")
    start = 15 * int(rng.integers(6))
    for index, color in enumerate((first, second, first, second)):
        one = pen.copy()
        one.draw(f"polygon 32 26 32 4 46 12 fill {color}")
        pen.turned(start + 90 * index, (32, 26), one.elements)
    pen.draw(f"circle 32 26 3 fill {stick}")


def _snowflake(rng: np.random.Generator, pen: Pen) -> None:
    (ice,) = pick_colors(rng, 1)
    twig = int(rng.integers(10, 18))
    one = pen.copy()
    one.draw(
        f"line 32 32 32 4 stroke {ice} 3",
        f"polyline 25 {twig - 6} 32 {twig} 39 {twig - 6} stroke {ice} 3",
    )
    pen.around(6, one.elements)


def _butterfly(rng: np.random.Generator, pen: Pen) -> None:
    upper, lower, body = pick_colors(rng, 3)
    wing = pen.copy()
    wing.draw(
        f"ellipse 46 22 14 15 fill {upper}",
        f"ellipse 43 45 10 12 fill {lower}",
        "circle 47 22 5 fill white",
    )
    half = "".join(wing.elements)
    axis = number(2 * (pen.offset[0] + pen.scale * 32))
    pen.elements += [f"<g>{half}</g>", f'<g transform="translate({axis} 0) scale(-1 1)">{half}</g>']
    pen.draw(f"ellipse 32 34 3 22 fill {body}")


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


def _moon(rng: np.random.Generator, pen: Pen) -> None:
    sky, corner = ("black", "blue", "purple", "teal")[rng.integers(4)], ("", " 8", " 30")[rng.integers(3)]
    pen.draw(f"rect 2 2 60 60{corner} fill {sky}", "path M 40 12 C 6 14 10 56 46 50 C 26 48 22 22 40 12 Z fill gold")
    for x, y in rng.permutation([(46, 18), (52, 32), (40, 34), (44, 44)])[: int(rng.integers(1, 4))]:
        pen.draw(f"circle {x} {y} 2 fill white")


_DRAWN_HERE = {
    function.__name__[1:]: function
    for function in (_one_shape, _few_shapes, _traffic_light, _windmill, _snowflake, _butterfly, _stars, _moon)
}
_DESCRIBED: dict[str, Any] = tomllib.loads(files(__package__).joinpath("icons.toml").read_text("utf-8"))

BANDS: dict[int, tuple[str, ...]] = {
    1: ("one_shape",),
    2: ("few_shapes",),
    **{int(band): tuple(names) for band, names in _DESCRIBED["bands"].items()},
}
"""Drawings of each band: 1 one shape; 2 two or three shapes; 3 objects of simple shapes with strokes; 4
rotated, mirrored, and repeated groups; 5 curved paths, some on a badge."""

MIXED = "mixed"
_BADGE_SHARE = 0.25


def check_difficulty(difficulty: object) -> int | str:
    """Validates a difficulty, 1 to 5 or `"mixed"`; raises `ConfigError` for anything else."""
    if difficulty == MIXED or (
        isinstance(difficulty, int) and not isinstance(difficulty, bool) and difficulty in BANDS
    ):
        return difficulty
    raise ConfigError(f"difficulty must be 1, 2, 3, 4, 5 or 'mixed'; got {difficulty!r}.")


def draw_icon(rng: np.random.Generator, difficulty: int | str) -> str:
    """Returns the markup of a random icon with a difficulty of 1 to 5 or `"mixed"`, with `viewBox="0 0 64 64"`.

    Its length is about 80 characters in band 1, and up to 900 in bands 4 and 5.
    """
    band = int(rng.integers(1, len(BANDS) + 1)) if isinstance(difficulty, str) else difficulty
    name = BANDS[band][rng.integers(len(BANDS[band]))]
    if band <= 2:
        pen = Pen()
    elif band == 5 and rng.random() < _BADGE_SHARE:
        pen = _badge(rng)
    else:
        pen = Pen.somewhere(rng)
    if name in _DRAWN_HERE:
        _DRAWN_HERE[name](rng, pen)
    else:
        names = _DESCRIBED[name]["colors"]
        colors = dict(zip(names, pick_colors(rng, len(names)), strict=True))
        _draw_steps(rng, pen, _DESCRIBED[name]["draw"], colors)
    return pen.markup()


def _draw_steps(rng: np.random.Generator, pen: Pen, steps: Iterable[Any], colors: Mapping[str, str]) -> None:
    """Draws steps, as explained in the comment at the top of `icons.toml`."""
    for step in steps:
        match step:
            case str():
                pen.draw(step, **colors)
            case {"chance": chance, "draw": likely}:
                chosen = likely if rng.random() < chance else step.get("otherwise", ())
                _draw_steps(rng, pen, chosen, colors)
            case {"one_of": choices}:
                _draw_steps(rng, pen, choices[rng.integers(len(choices))], colors)
            case {"at_least": least, "first_of": elements}:
                pen.draw(*elements[: int(rng.integers(least, len(elements) + 1))], **colors)
            case {"around": counts, "draw": repeated}:
                count, one = int(rng.choice(counts)), pen.copy()
                _draw_steps(rng, one, repeated, colors)
                pen.around(count, one.elements)
            case {"turned": degrees, "from": first, "to": last, "draw": group}:
                one = pen.copy()
                _draw_steps(rng, one, group, colors)
                pen.turned(degrees * int(rng.integers(first, last + 1)), _MIDDLE, one.elements)


def _badge(rng: np.random.Generator) -> Pen:
    """Returns a pen that draws inside a badge, with the badge already drawn."""
    sheet = Pen()
    (color,) = pick_colors(rng, 1)
    paint = f"fill {('white', 'ivory', 'lavender', 'mintcream')[rng.integers(4)]} stroke {color} 3"
    sheet.draw(f"circle 32 32 30 {paint}" if rng.random() < 0.5 else f"rect 2 2 60 60 10 {paint}")
    pen = Pen(scale=0.625, offset=(12, 12))
    pen.elements += sheet.elements
    return pen
