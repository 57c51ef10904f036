"""Sokoban's tiles: brick walls, a swept floor, ringed targets, wooden crates and the player."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vlm_envs.worlds.grids.canvas import Canvas, Color
from vlm_envs.worlds.grids.figure import draw_player

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
