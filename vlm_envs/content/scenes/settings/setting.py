"""The interface of a setting: zones for things, the scenery around them, and the ground below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt
from numpy.random import Generator
from PIL import Image, ImageDraw

from vlm_envs.content.colors import RGB, hex_color
from vlm_envs.content.data_tables import data_table
from vlm_envs.content.scenes.brush import XY
from vlm_envs.content.scenes.scene_kinds import Place
from vlm_envs.tools.coordinates import PixelRectangle


@dataclass(frozen=True, slots=True)
class Stroke:
    """A shape with one color.

    Attributes:
        form: Kind of shape.
        points: x1, y1, x2, y2, …: corners; the upper left and lower right ones of a rectangle or ellipse.
        color: Its fill.
        width: Width of a line, in pixels.
    """

    form: Literal["rectangle", "ellipse", "polygon", "line"]
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


Strokes = Iterator[Stroke]


def rect(x1: float, y1: float, x2: float, y2: float, color: RGB) -> Stroke:
    """Returns a filled rectangle; its right and lower edges are exclusive."""
    left, top = round(x1), round(y1)
    return Stroke("rectangle", (left, top, max(left, round(x2) - 1), max(top, round(y2) - 1)), color)


def ellipse(x: float, y: float, rx: float, ry: float, color: RGB) -> Stroke:
    """Returns a filled ellipse, given its center and radii."""
    left, top = round(x - rx), round(y - ry)
    return Stroke("ellipse", (left, top, max(left, round(x + rx)), max(top, round(y + ry))), color)


def polygon(points: Sequence[XY], color: RGB) -> Stroke:
    """Returns a filled polygon."""
    return Stroke("polygon", tuple(round(value) for point in points for value in point), color)


def line(points: Sequence[XY], width: float, color: RGB) -> Stroke:
    """Returns a line through points."""
    return Stroke("line", tuple(round(value) for point in points for value in point), color, max(1, round(width)))


def draw_strokes(canvas: Image.Image, strokes: Iterable[Stroke], region: PixelRectangle) -> None:
    """Draws the strokes that reach into a region.

    Args:
        canvas: RGB, the size of the region; modified.
        strokes: In drawing order.
        region: The part of the image that the canvas shows.
    """
    pen = ImageDraw.Draw(canvas)
    for stroke in strokes:
        if not stroke.reaches(region):
            continue
        points = [value - (region.top if index % 2 else region.left) for index, value in enumerate(stroke.points)]
        if stroke.form == "line":
            pen.line(points, stroke.color, stroke.width, joint="curve")
        else:
            getattr(pen, stroke.form)(points, stroke.color)


def palette(setting: str) -> SimpleNamespace:
    """Returns the colors of a setting by name: an RGB, or a list to choose from."""
    return SimpleNamespace(
        **{name: _rgb(value) for name, value in data_table(__file__, "palettes.toml")[setting].items()}
    )


def _rgb(value: str | list[Any]) -> Any:
    return hex_color(value) if isinstance(value, str) else [_rgb(item) for item in value]


Pixels = npt.NDArray[np.uint8]

EVERYWHERE: tuple[Place, ...] = get_args(Place)


@dataclass(frozen=True)
class Zone:
    """A rectangle in which things may be.

    Attributes:
        left: First column.
        top: First row.
        right: Column after the last.
        bottom: Row after the last.
        places: Kinds of place it offers.
        standing: Whether things stand on its lower edge; otherwise they may be anywhere in it.
    """

    left: int
    top: int
    right: int
    bottom: int
    places: tuple[Place, ...] = EVERYWHERE
    standing: bool = False


class Scenery(Protocol):
    """A scenery plan. Every draw uses its zones; its strokes are only needed for rendering."""

    def zones(self) -> tuple[Zone, ...]:
        """Returns the areas where things may be."""

    def strokes(self, rng: Generator) -> Strokes:
        """Yields the scenery in drawing order, from a generator of its own."""

    def ground(self, region: PixelRectangle) -> Pixels:
        """Returns the pixels below the scenery, uint8[rows, columns, 3]; they depend only on the position."""


def grain(region: PixelRectangle, color: RGB, seed: int, *, strength: int = 6, stretch: int = 1) -> Pixels:
    """Returns a color with a fine grain that repeats every 256 pixels.

    Args:
        region: The region to fill.
        color: The mean color.
        seed: Seed of the grain.
        strength: Maximum change of a pixel's levels in either direction.
        stretch: Number of columns that share a grain, to imitate fibers.

    Returns:
        uint8[rows, columns, 3].
    """
    tile = np.random.default_rng(seed).integers(-strength, strength + 1, (256, 256 // stretch), dtype=np.int16)
    tile = np.repeat(tile, stretch, axis=1)
    colored = np.clip(np.array(color, np.int16) + tile[..., None], 0, 255).astype(np.uint8)
    rows = np.arange(region.top, region.bottom) % 256
    columns = np.arange(region.left, region.right) % 256
    pixels: Pixels = colored.take(rows, axis=0).take(columns, axis=1)
    return pixels


def between(rng: Generator, low: float, high: float) -> float:
    """Returns a random number between two."""
    return float(low + (high - low) * rng.random())


def spans(rng: Generator, total: float, low: float, high: float) -> list[tuple[float, float]]:
    """Splits a length into (start, stop) intervals of random lengths between two bounds; the last may be shorter."""
    found, at = [], 0.0
    while at < total:
        stop = min(total, at + between(rng, low, high))
        if total - stop < low / 2:
            stop = total
        found.append((at, stop))
        at = stop
    return found
