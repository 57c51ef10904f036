"""Panels as inline SVG that takes its colours from the page, so that one drawing serves light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from vlm_envs.records.report.axes import (
    SMOOTH_FROM_NUM_POINTS,
    iteration_ticks,
    short,
    smooth,
    tick_labels,
    ticks,
    y_range,
)
from vlm_envs.records.report.panels import Estimates, Panel

_MAX_POINTS = 600
"""More points than pixels only make the file larger."""
_MIN_BAND_POINTS = 5


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Where a panel's plot area lies and what it spans.

    Attributes:
        width_px: Width of the drawing.
        height_px: Height of the drawing.
        x_span: First and last iteration.
        y_span: Lowest and highest value.
    """

    width_px: float
    height_px: float
    x_span: tuple[float, float]
    y_span: tuple[float, float]
    left_px: float = 44.0
    right_px: float = 12.0
    top_px: float = 8.0
    bottom_px: float = 22.0

    def x(self, value: float) -> float:
        """Returns the horizontal pixel of an iteration."""
        low, high = self.x_span
        inner = self.width_px - self.left_px - self.right_px
        return round(self.left_px + (value - low) / (high - low) * inner, 1)

    def y(self, value: float) -> float:
        """Returns the vertical pixel of a value."""
        low, high = self.y_span
        inner = self.height_px - self.top_px - self.bottom_px
        return round(self.height_px - self.bottom_px - (value - low) / (high - low) * inner, 1)


def frames_of(panel: Panel, x_span: tuple[float, float]) -> tuple[Frame, ...]:
    """Returns the frames to draw a panel in: wide ones span the page, and have a second frame for phones."""
    sizes_px = [(1080.0, 300.0), (360.0, 220.0)] if panel.is_wide else [(340.0, 168.0)]
    return tuple(
        Frame(width_px=width_px, height_px=height_px, x_span=x_span, y_span=y_range(panel))
        for width_px, height_px in sizes_px
    )


def draw(panel: Panel, frame: Frame) -> str:
    """Returns a panel as an SVG element.

    Args:
        panel: What to draw.
        frame: Where.
    """
    parts = [*_grid(panel, frame)]
    for index, curve in enumerate(panel.curves):
        parts += [f'<g class="run{index % 2}">', *_line(curve.xs, curve.ys, frame), "</g>"]
    for index, estimates in enumerate(panel.estimates):
        parts += _intervals(estimates, frame, index)
    bottom = frame.height_px - frame.bottom_px
    parts.append(f'<line class="cursor" x1="0" x2="0" y1="{frame.top_px:g}" y2="{bottom:g}"/>')
    size = f"{frame.width_px:g} {frame.height_px:g}"
    return (
        f'<svg viewBox="0 0 {size}" data-left="{frame.left_px:g}" data-right="{frame.right_px:g}" role="img" '
        f'aria-label="{escape(panel.title)}">{"".join(parts)}</svg>'
    )


def _grid(panel: Panel, frame: Frame) -> Iterable[str]:
    right = frame.width_px - frame.right_px
    values = ticks(*frame.y_span, num_intervals=4 if panel.is_wide else 3)
    for value, label in zip(values, tick_labels(values, panel.scale), strict=True):
        y = frame.y(value)
        yield f'<line class="grid" x1="{frame.left_px}" x2="{right}" y1="{y}" y2="{y}"/>'
        yield _text(frame.left_px - 7, y + 3.5, "end", label)
    iterations = iteration_ticks(*frame.x_span, num_intervals=round(frame.width_px / 100))
    for value, label in zip(iterations, tick_labels(iterations), strict=True):
        yield _text(frame.x(value), frame.height_px - 5, "middle", label)


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(xs: Sequence[float], ys: Sequence[float | None], frame: Frame) -> Iterable[str]:
    """Draws a curve; a long one as a faint line with its running mean above it."""
    if len(ys) < SMOOTH_FROM_NUM_POINTS:
        yield from _strokes("curve", xs, ys, frame)
    else:
        yield from _strokes("raw", xs, ys, frame)
        yield from _strokes("curve", xs, smooth(ys), frame)


def _strokes(kind: str, xs: Sequence[float], ys: Sequence[float | None], frame: Frame) -> Iterable[str]:
    """Draws the pieces of a line between missing values; a piece of one point becomes a dot."""
    stride = max(1, -(-len(xs) // _MAX_POINTS))
    pieces: list[list[str]] = [[]]
    for x, y in list(zip(xs, ys, strict=True))[::stride]:
        if y is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{frame.x(x)} {frame.y(y)}")
    for piece in filter(None, pieces):
        if len(piece) > 1:
            yield f'<path class="{kind}" d="M{"L".join(piece)}"/>'
        elif kind == "curve":
            across, down = piece[0].split()
            yield f'<circle class="dot" cx="{across}" cy="{down}" r="3"/>'


def _intervals(estimates: Estimates, frame: Frame, index: int) -> Iterable[str]:
    kind = f"estimate series{index % 3}"
    band = [(x, high) for x, high in zip(estimates.xs, estimates.highs, strict=True)]
    band += [(x, low) for x, low in zip(estimates.xs, estimates.lows, strict=True)][::-1]
    yield f'<g class="{kind}">'
    # A band between a few points far apart would suggest a course nobody measured
    if len(estimates.xs) >= _MIN_BAND_POINTS:
        yield f'<path class="band" d="M{"L".join(f"{frame.x(x)} {frame.y(y)}" for x, y in band)}Z"/>'
    for x, y, low, high in zip(estimates.xs, estimates.ys, estimates.lows, estimates.highs, strict=True):
        across = frame.x(x)
        title = f"{estimates.name}: {short(y, 'rate')} ({short(low, 'rate')}–{short(high, 'rate')})"
        yield f'<path class="whisker" d="M{across} {frame.y(low)}V{frame.y(high)}"/>'
        yield f'<circle cx="{across}" cy="{frame.y(y)}" r="4.5"><title>{escape(title)}</title></circle>'
    yield "</g>"
