"""A scatter plot of success against cost: positions of marks, whiskers, and ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from benchmarks.models.measures.measures import Row
from benchmarks.models.page.page_tables import Kind, written

WIDTH_PX, HEIGHT_PX = 520, 300
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 44, 16, 14, 42
_LINE_PX = 15
"""Minimum vertical distance between two names."""
_CHAR_PX, _MAX_CHARS = 6.8, 30


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One agent in the plot, in pixels.

    Attributes:
        name: Label of the agent.
        x: Position of its cost; None if it is free or unknown, drawn as a horizontal line.
        y: Position of its success rate.
        low_y: Position of the interval's lower end.
        high_y: Position of the interval's upper end.
        name_y: Position of its name.
        is_flipped: Whether its name is on the left of the mark.
        summary: Its numbers as text.
    """

    name: str
    x: float | None
    y: float
    low_y: float
    high_y: float
    name_y: float
    is_flipped: bool
    summary: str

    @property
    def label(self) -> str:
        """Its name, shortened to fit."""
        return self.name if len(self.name) <= _MAX_CHARS else f"{self.name[: _MAX_CHARS - 1]}…"


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """The plot of one world.

    Attributes:
        unit: Unit of the logarithmic horizontal axis.
        marks: The agents.
        x_ticks: Text and position of each horizontal tick.
        y_ticks: Text and position of each vertical tick.
    """

    unit: str
    marks: list[Mark]
    x_ticks: list[tuple[str, float]]
    y_ticks: list[tuple[str, float]]


def scatter(rows: Sequence[Row]) -> Scatter | None:
    """Returns the plot of one world's rows; None if no agent's cost is known.

    The axis shows US dollars per episode if all agents with token counts have a price, and otherwise tokens.

    Args:
        rows: Rows of one world.
    """
    played = [row for row in rows if row.num_episodes]
    counted = [row for row in played if row.tokens]
    priced = [row for row in played if row.usd]
    is_priced = bool(priced) and {row.agent for row in counted} <= {row.agent for row in priced}
    costs = {
        row.agent: row.usd / row.num_episodes if is_priced and row.usd else row.tokens or 0.0
        for row in (priced if is_priced else counted)
    }
    if not costs:
        return None
    low, high = _span(list(costs.values()))

    def position(cost: float) -> float:
        share = (math.log10(cost) - math.log10(low)) / (math.log10(high) - math.log10(low))
        return LEFT_PX + share * (WIDTH_PX - LEFT_PX - RIGHT_PX)

    kind: Kind = "usd" if is_priced else "count"
    marks = []
    for row in played:
        name, x = row.agent, position(costs[row.agent]) if row.agent in costs else None
        success, low_end, high_end = (written(rate, "rate") for rate in (row.success, *row.interval))
        mark = Mark(
            name=name,
            x=x,
            y=_height(row.success),
            low_y=_height(row.interval.low),
            high_y=_height(row.interval.high),
            name_y=_height(row.success),
            is_flipped=x is None or x + 10 + _CHAR_PX * min(len(name), _MAX_CHARS) > WIDTH_PX - RIGHT_PX,
            summary=f"{name}: {success} solved, 95% {low_end} to {high_end}",
        )
        marks.append(mark)
    return Scatter(
        unit="USD an episode" if is_priced else "tokens an episode",
        marks=_with_names_apart(marks),
        x_ticks=[(written(tick, kind), position(tick)) for tick in _ticks(low, high)],
        y_ticks=[(f"{percent}%", _height(percent / 100)) for percent in (0, 25, 50, 75, 100)],
    )


def _span(costs: Sequence[float]) -> tuple[float, float]:
    """Returns a range with some margin on a logarithmic scale, at least a factor of 10 wide."""
    low, high = min(costs) / 1.4, max(costs) * 1.4
    widen = max(1.0, math.sqrt(10 * low / high))
    return low / widen, high * widen


def _ticks(low: float, high: float) -> list[float]:
    """Returns 1, 2, and 5 times powers of ten within a range, or powers of ten alone if these are many."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if math.log10(high / low) <= 2 else (1,)
    return [value for exponent in exponents for step in steps if low <= (value := step * 10.0**exponent) <= high]


def _height(success: float) -> float:
    return TOP_PX + (1 - success) * (HEIGHT_PX - TOP_PX - BOTTOM_PX)


def _with_names_apart(marks: Sequence[Mark]) -> list[Mark]:
    """Returns marks from top to bottom, with names a line apart and inside the plot as far as possible."""
    marks = sorted(marks, key=lambda mark: mark.y)
    wanted = [max(mark.y - 5, TOP_PX + 8) for mark in marks]
    from_top = list(accumulate(wanted, lambda above, y: max(y, above + _LINE_PX)))
    from_bottom = [min(y, HEIGHT_PX - BOTTOM_PX - 5) for y in reversed(from_top)]
    heights = accumulate(from_bottom, lambda below, y: min(y, below - _LINE_PX))
    return [replace(mark, name_y=y) for mark, y in zip(marks, reversed(list(heights)), strict=True)]
