"""Success against what it costs: where the marks, whiskers and ticks of the graph stand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from benchmarks.models.measures.measures import Row
from benchmarks.models.page.page_tables import Kind, written
from vlm_envs.statistics.success_rates import Interval

WIDTH_PX, HEIGHT_PX = 520, 300
LEFT_PX, RIGHT_PX, TOP_PX, BOTTOM_PX = 44, 16, 14, 42
_LINE_PX = 15
"""Least distance of two names that stand above each other."""
_CHAR_PX, _MAX_CHARS = 6.8, 30


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One agent in the graph, in pixels.

    Attributes:
        name: What the page calls it.
        x: Where its cost stands; None for one that costs nothing, or nobody knows what: a line across the graph.
        y: Where its success stands.
        low_y: Lower end of the interval.
        high_y: Upper end.
        name_y: Where its name stands.
        is_flipped: Whether its name stands at the left.
        summary: Its numbers in words.
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
        """Its name, as far as there is room."""
        return self.name if len(self.name) <= _MAX_CHARS else f"{self.name[: _MAX_CHARS - 1]}…"


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """A graph of one world.

    Attributes:
        unit: What stands on the horizontal axis, which is logarithmic.
        marks: The agents.
        x_ticks: Text and place of each.
        y_ticks: Likewise.
    """

    unit: str
    marks: list[Mark]
    x_ticks: list[tuple[str, float]]
    y_ticks: list[tuple[str, float]]


def scatter(rows: Sequence[Row], names: Mapping[str, str] | None = None) -> Scatter | None:
    """Returns the graph of one world's rows; None where nobody knows the cost of anybody.

    The axis is of US dollars an episode if all agents that counted tokens have a price, else of tokens.

    Args:
        rows: Those of one world.
        names: What the graph calls agents, by label.
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

    def place(cost: float) -> float:
        share = (math.log10(cost) - math.log10(low)) / (math.log10(high) - math.log10(low))
        return LEFT_PX + share * (WIDTH_PX - LEFT_PX - RIGHT_PX)

    kind: Kind = "usd" if is_priced else "count"
    short = dict(names or {})
    marks = [
        _mark(row, short.get(row.agent, row.agent), place(costs[row.agent]) if row.agent in costs else None)
        for row in played
    ]
    return Scatter(
        unit="USD an episode" if is_priced else "tokens an episode",
        marks=_with_names_apart(marks),
        x_ticks=[(written(tick, kind), place(tick)) for tick in _ticks(low, high)],
        y_ticks=[(f"{percent}%", _height(percent / 100)) for percent in (0, 25, 50, 75, 100)],
    )


def _span(costs: Sequence[float]) -> tuple[float, float]:
    """Returns a range with some air on a logarithmic scale, at least a factor of 10 wide."""
    low, high = min(costs) / 1.4, max(costs) * 1.4
    widen = max(1.0, math.sqrt(10 * low / high))
    return low / widen, high * widen


def _ticks(low: float, high: float) -> list[float]:
    """Returns 1, 2 and 5 times powers of ten within a range; powers alone where these are many."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if math.log10(high / low) <= 2 else (1,)
    return [value for exponent in exponents for step in steps if low <= (value := step * 10.0**exponent) <= high]


def _height(success: float) -> float:
    return TOP_PX + (1 - success) * (HEIGHT_PX - TOP_PX - BOTTOM_PX)


def _mark(row: Row, name: str, x: float | None) -> Mark:
    interval: Interval = row.interval
    y = _height(row.success)
    return Mark(
        name=name,
        x=x,
        y=y,
        low_y=_height(interval.low),
        high_y=_height(interval.high),
        name_y=y,
        is_flipped=x is None or x + 10 + _CHAR_PX * min(len(name), _MAX_CHARS) > WIDTH_PX - RIGHT_PX,
        summary=f"{name}: {written(row.success, 'rate')} solved, 95% {written(interval.low, 'rate')} to "
        f"{written(interval.high, 'rate')}",
    )


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: _Box) -> bool:
        """Returns whether two boxes share more than an edge."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def _with_names_apart(marks: Sequence[Mark]) -> list[Mark]:
    """Returns marks from the top down, each name as near to its mark as possible without overlapping another name."""
    placed: list[_Box] = [_Box(mark.x - 6, mark.y - 6, mark.x + 6, mark.y + 6) for mark in marks if mark.x is not None]
    found = []
    for mark in sorted(marks, key=lambda mark: mark.y):
        options = [replace(mark, name_y=y, is_flipped=side) for y in _heights(mark.y) for side in _sides(mark)]
        chosen = next((each for each in options if not any(_box(each).overlaps(box) for box in placed)), options[0])
        placed.append(_box(chosen))
        found.append(chosen)
    return found


def _heights(y: float) -> list[float]:
    """Returns baselines for a name inside the graph, the nearest to its mark first."""
    lowest, highest = HEIGHT_PX - BOTTOM_PX - 5.0, TOP_PX + 8.0
    steps = [y - 5 + _LINE_PX * step / 3 for step in range(-60, 61)]
    return sorted((step for step in steps if highest <= step <= lowest), key=lambda step: abs(step - (y - 5)))


def _sides(mark: Mark) -> list[bool]:
    """Returns whether a name may stand at the left, the better side first."""
    if mark.x is None:
        return [True]
    fits_left = mark.x - 10 - _CHAR_PX * len(mark.label) >= LEFT_PX
    return [mark.is_flipped, not mark.is_flipped] if fits_left and not mark.is_flipped else [mark.is_flipped]


def _box(mark: Mark) -> _Box:
    """Returns where a name is drawn."""
    width = _CHAR_PX * len(mark.label)
    if mark.x is None:
        left = WIDTH_PX - RIGHT_PX - 4 - width
    else:
        left = mark.x - 10 - width if mark.is_flipped else mark.x + 10
    return _Box(left, mark.name_y - 11, left + width, mark.name_y + 3)
