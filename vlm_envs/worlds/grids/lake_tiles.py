"""FrozenLake's tiles: ice, holes of dark water, a wrapped present as the goal, and the player."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vlm_envs.worlds.grids.canvas import Canvas
from vlm_envs.worlds.grids.figure import draw_head, draw_player

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
