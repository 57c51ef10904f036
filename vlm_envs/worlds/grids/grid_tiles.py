"""Tile art of grid worlds, and images laid out of tiles.

A tile set is drawn once per size and kept; an image is then one lookup of pixels per cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from vlm_envs.validation import require_positive

CanvasPoint = tuple[float, float]
"""(x, y) in cells, from the top left; both in 0..1."""

Color = str
"""A colour as Pillow reads it, e.g. `"#c0392b"`."""

_SUPERSAMPLING = 4


class Canvas:
    """One cell to draw on, in units of a cell; smooth at any size.

    Shapes are drawn four times larger and scaled down, because Pillow's own lines are jagged.

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


_SKIN, _INK = "#f8cfa2", "#2b2118"
_COAT, _COAT_SHADE, _CAP, _CAP_BRIM = "#2563d9", "#1c4aa8", "#d92626", "#a81818"
_BOOTS = "#3b2a20"


def draw_player(canvas: Canvas) -> None:
    """Draws a standing figure: red cap, smiling face, blue coat."""
    canvas.rectangle((0.33, 0.80), (0.47, 0.95), _BOOTS, radius=0.04)
    canvas.rectangle((0.53, 0.80), (0.67, 0.95), _BOOTS, radius=0.04)
    canvas.line([(0.30, 0.64), (0.20, 0.76)], _COAT_SHADE, 0.12)
    canvas.line([(0.70, 0.64), (0.80, 0.76)], _COAT_SHADE, 0.12)
    canvas.rectangle((0.28, 0.54), (0.72, 0.87), _COAT, radius=0.10)
    canvas.rectangle((0.28, 0.73), (0.72, 0.79), "#f4c430")
    draw_head(canvas, centre_y=0.36)


def draw_head(canvas: Canvas, *, centre_y: float, is_happy: bool = True) -> None:
    """Draws the capped head with its middle at (0.5, `centre_y`)."""
    y = centre_y
    canvas.ellipse((0.5, y), 0.245, _SKIN)
    canvas.pie((0.5, y - 0.03), 0.265, 180, 360, _CAP)
    canvas.rectangle((0.20, y - 0.09), (0.80, y - 0.02), _CAP_BRIM, radius=0.035)
    for eye_x in (0.40, 0.60):
        canvas.ellipse((eye_x, y + 0.05), 0.036, _INK, radius_y=0.048)
    if is_happy:
        canvas.arc((0.5, y + 0.08), 0.10, 25, 155, _INK, 0.035)
    else:
        canvas.ellipse((0.5, y + 0.165), 0.055, _INK)


_ICE, _ICE_LINE, _GLINT = "#d5eefa", "#a9d3e8", "#ffffff"
_RIM, _WATER, _DEEP, _WAVE = "#8fc3de", "#17456e", "#0c2b4a", "#5d9cc7"
_PRESENT, _LID, _RIBBON = "#9b3fd1", "#6f2499", "#ffd23f"
_COAT_SLEEVE, _MITTEN = "#2563d9", "#f8cfa2"
_HALO = "#ffe98a"


def _ice(cell_px: int) -> Canvas:
    canvas = Canvas(cell_px, _ICE_LINE)
    canvas.rectangle((0.02, 0.02), (0.98, 0.98), _ICE)
    canvas.line([(0.12, 0.34), (0.34, 0.12)], _GLINT, 0.05)
    canvas.line([(0.14, 0.46), (0.22, 0.38)], _GLINT, 0.04)
    canvas.line([(0.68, 0.88), (0.88, 0.68)], _GLINT, 0.05)
    return canvas


def _hole(cell_px: int) -> Canvas:
    canvas = _ice(cell_px)
    for tip in ((0.05, 0.12), (0.93, 0.08), (0.95, 0.90), (0.08, 0.94)):
        canvas.line([(0.5, 0.5), tip], _RIM, 0.05)
    rim = [
        (0.30, 0.10), (0.52, 0.14), (0.76, 0.09), (0.84, 0.30), (0.94, 0.50), (0.83, 0.72),
        (0.74, 0.92), (0.50, 0.86), (0.26, 0.91), (0.16, 0.70), (0.06, 0.52), (0.18, 0.30),
    ]  # fmt: skip
    canvas.polygon(rim, _RIM)
    canvas.polygon([_towards_middle(point, 0.87) for point in rim], _WATER)
    canvas.polygon([_towards_middle(point, 0.62) for point in rim], _DEEP)
    return canvas


def _towards_middle(point: tuple[float, float], share: float) -> tuple[float, float]:
    return 0.5 + (point[0] - 0.5) * share, 0.5 + (point[1] - 0.5) * share


def _draw_wrapping(canvas: Canvas, *, top: float) -> None:
    """Draws a wrapped box from `top` down to the foot of the cell."""
    canvas.rectangle((0.20, top + 0.10), (0.80, 0.92), _PRESENT, radius=0.03)
    canvas.rectangle((0.16, top), (0.84, top + 0.17), _LID, radius=0.04)
    canvas.rectangle((0.43, top), (0.57, 0.92), _RIBBON)


def _goal(cell_px: int) -> Canvas:
    canvas = _ice(cell_px)
    for loop_x in (0.37, 0.63):
        canvas.ellipse((loop_x, 0.26), 0.13, _RIBBON, radius_y=0.11)
        canvas.ellipse((loop_x, 0.26), 0.06, _LID, radius_y=0.05)
    _draw_wrapping(canvas, top=0.36)
    return canvas


def _lake_player(cell_px: int) -> Canvas:
    canvas = _ice(cell_px)
    draw_player(canvas)
    return canvas


def _player_in_hole(cell_px: int) -> Canvas:
    canvas = _hole(cell_px)
    for x in (0.19, 0.81):
        canvas.line([(x, 0.62), (x, 0.34)], _COAT_SLEEVE, 0.13)
        canvas.ellipse((x, 0.26), 0.085, _MITTEN)
    draw_head(canvas, centre_y=0.48, is_happy=False)
    canvas.rectangle((0.10, 0.68), (0.90, 0.83), _WATER, radius=0.07)
    canvas.line([(0.16, 0.71), (0.33, 0.75), (0.50, 0.71), (0.67, 0.75), (0.84, 0.71)], _WAVE, 0.06)
    return canvas


def _player_on_goal(cell_px: int) -> Canvas:
    """The player looks out of the present with raised arms."""
    canvas = _ice(cell_px)
    canvas.ellipse((0.5, 0.5), 0.49, _HALO)
    for shoulder_x, hand_x in ((0.28, 0.13), (0.72, 0.87)):
        canvas.line([(shoulder_x, 0.60), (hand_x, 0.38)], _COAT_SLEEVE, 0.12)
        canvas.ellipse((hand_x, 0.32), 0.08, _MITTEN)
    draw_head(canvas, centre_y=0.34)
    _draw_wrapping(canvas, top=0.57)
    return canvas


LAKE_TILES: Mapping[str, Callable[[int], Canvas]] = {
    "_": _ice,
    "O": _hole,
    "G": _goal,
    "P": _lake_player,
    "X": _player_in_hole,
    "*": _player_on_goal,
}
"""The drawing of each level symbol at a given size in pixels."""


_FLOOR, _FLOOR_LINE = "#ece5d8", "#d3c8b5"
_MORTAR, _BRICK, _BRICK_LIGHT = "#4a4d57", "#6f7480", "#868c99"
_TARGET, _TARGET_HALO = "#e0218a", "#f7c1de"
_WOOD, _WOOD_FRAME, _WOOD_GAP = "#d9963f", "#8a5419", "#b87729"
_DONE, _DONE_FRAME, _DONE_GAP, _TICK = "#35b558", "#14702f", "#239343", "#ffffff"


def _floor(cell_px: int) -> Canvas:
    canvas = Canvas(cell_px, _FLOOR_LINE)
    canvas.rectangle((0.02, 0.02), (0.98, 0.98), _FLOOR)
    return canvas


def _wall(cell_px: int) -> Canvas:
    canvas = Canvas(cell_px, _MORTAR)
    # Mortar runs all around, so that the cells of a thick wall can still be counted.
    halves, thirds = ((0.04, 0.47), (0.53, 0.96)), ((0.04, 0.24), (0.30, 0.70), (0.76, 0.96))
    courses = (halves, thirds, halves)
    for index, bricks in enumerate(courses):
        top, bottom = index / 3 + 0.04, (index + 1) / 3 - 0.04
        for left, right in bricks:
            canvas.rectangle((left, top), (right, bottom), _BRICK, radius=0.02)
            canvas.rectangle((left, top), (right, top + 0.07), _BRICK_LIGHT, radius=0.02)
    return canvas


def _target(cell_px: int) -> Canvas:
    canvas = _floor(cell_px)
    canvas.ellipse((0.5, 0.5), 0.36, _TARGET)
    canvas.ellipse((0.5, 0.5), 0.25, _TARGET_HALO)
    canvas.ellipse((0.5, 0.5), 0.12, _TARGET)
    return canvas


def _draw_crate(canvas: Canvas, wood: Color, frame: Color, gap: Color) -> None:
    canvas.rectangle((0.08, 0.08), (0.92, 0.92), frame, radius=0.06)
    canvas.rectangle((0.20, 0.20), (0.80, 0.80), wood)
    for y in (0.40, 0.60):
        canvas.line([(0.21, y), (0.79, y)], gap, 0.03)


def _box(cell_px: int) -> Canvas:
    canvas = _floor(cell_px)
    _draw_crate(canvas, _WOOD, _WOOD_FRAME, _WOOD_GAP)
    for start, end in (((0.22, 0.22), (0.78, 0.78)), ((0.22, 0.78), (0.78, 0.22))):
        canvas.line([start, end], _WOOD_FRAME, 0.11)
    return canvas


def _box_on_target(cell_px: int) -> Canvas:
    canvas = _floor(cell_px)
    canvas.rectangle((0.02, 0.02), (0.98, 0.98), _TARGET, radius=0.10)
    _draw_crate(canvas, _DONE, _DONE_FRAME, _DONE_GAP)
    canvas.line([(0.30, 0.52), (0.44, 0.67), (0.71, 0.34)], _TICK, 0.12)
    return canvas


def _sokoban_player(cell_px: int) -> Canvas:
    canvas = _floor(cell_px)
    draw_player(canvas)
    return canvas


def _player_on_target(cell_px: int) -> Canvas:
    canvas = _floor(cell_px)
    canvas.ellipse((0.5, 0.5), 0.49, _TARGET)
    canvas.ellipse((0.5, 0.5), 0.38, _TARGET_HALO)
    draw_player(canvas)
    return canvas


SOKOBAN_TILES: Mapping[str, Callable[[int], Canvas]] = {
    "#": _wall,
    "_": _floor,
    "O": _target,
    "X": _box,
    "P": _sokoban_player,
    "*": _box_on_target,
    "S": _player_on_target,
}
"""The drawing of each level symbol at a given size in pixels."""


TILE_SETS: Mapping[str, Mapping[str, Callable[[int], Canvas]]] = {
    "sokoban": SOKOBAN_TILES,
    "frozen_lake": LAKE_TILES,
}
"""For each world, the drawing of each level symbol at a given size in pixels."""

MIN_CELL_PX, MAX_CELL_PX = 8, 256
"""Below this the figures can no longer be told apart."""


class TileSet:
    """The finished tiles of one world at one size.

    Args:
        world: `"sokoban"` or `"frozen_lake"`.
        cell_px: Side of a tile in pixels.
    """

    def __init__(self, world: str, cell_px: int) -> None:
        """Draws every tile."""
        self.cell_px = require_positive("cell_px", cell_px, minimum=MIN_CELL_PX, maximum=MAX_CELL_PX)
        drawings = TILE_SETS[world]
        self.codes = {symbol: code for code, symbol in enumerate(drawings)}
        self._table = bytes(self.codes.get(chr(code), 0) for code in range(256))
        pixels = np.stack([draw(cell_px).pixels() for draw in drawings.values()])
        self._row_numbers = np.arange(cell_px)[:, None]
        # One item for each row of pixels of a tile: a picture is then copied once, in pieces as long as may be
        self._pixel_rows = pixels.reshape(len(drawings) * cell_px, -1).view(f"V{3 * cell_px}")[:, 0]

    def read(self, level: str) -> NDArray[np.uint8]:
        """Returns the codes of a level's symbols, uint8[num_rows, num_cols]."""
        text = f"{level}\n"
        codes = np.frombuffer(text.encode().translate(self._table), np.uint8)
        return codes.reshape(-1, text.index("\n") + 1)[:, :-1]

    def picture(self, codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Returns the picture of one grid, or of many equally large ones.

        Args:
            codes: uint8[..., num_rows, num_cols], the entry of `self.codes` for each cell.

        Returns:
            uint8[..., num_rows * cell_px, num_cols * cell_px, 3], a fresh array.
        """
        *batch, num_rows, num_cols = codes.shape
        rows = codes[..., :, None, :] * np.intp(self.cell_px) + self._row_numbers
        pixels = self._pixel_rows.take(rows).view(np.uint8)
        return pixels.reshape(*batch, num_rows * self.cell_px, num_cols * self.cell_px, 3)


@lru_cache(maxsize=32, typed=True)
def tile_set(world: str, cell_px: int) -> TileSet:
    """Returns the tiles of a world at a size, drawn at the first call."""
    return TileSet(world, cell_px)
