"""The tables of a board's page: measures by row, and pairwise comparisons of agents."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.models.board.board_spec import REFERENCES
from benchmarks.models.measures.measures import Pair, Row
from vlm_envs.records.report_panels import short, written_p

Kind = Literal["count", "rate", "number", "usd"]


@dataclass(frozen=True, kw_only=True)
class Column:
    """One measure for all rows of a table.

    Attributes:
        title: Its heading.
        hint: Its meaning, in one sentence; may be empty.
        kind: How its values are formatted.
        values: One per row; None if unknown.
        totals: The total of which each value is a part; empty for plain values.
    """

    title: str
    hint: str
    kind: Kind
    values: tuple[float | None, ...]
    totals: tuple[float | None, ...] = ()

    @property
    def texts(self) -> list[str]:
        """Its values as text; unknown values are empty, never 0."""
        texts = ["" if value is None else written(value, self.kind) for value in self.values]
        if not self.totals:
            return texts
        return [text and f"{text} of {total:,.0f}" for text, total in zip(texts, self.totals, strict=True)]


_TABLE: dict[str, dict[str, list[Any]]] = tomllib.loads(
    Path(__file__).with_name("measures.toml").read_text(encoding="utf-8")
)


def columns(rows: Sequence[Row]) -> list[Column]:
    """Returns the measures that are known for at least one row."""
    found = []
    for name, (title, hint, *kind) in _TABLE["measures"].items():
        values = tuple(None if (value := getattr(row, name)) is None else float(value) for row in rows)
        totals = tuple(row.num_asked for row in rows) if name == "num_unjudged" else ()
        found.append(Column(title=title, hint=hint, kind=_kind(kind), values=values, totals=totals))
    for name, (title, hint, *kind) in _TABLE["families"].items():
        families = [getattr(row, name) for row in rows]
        for key in dict.fromkeys(
            key for family in families for key in family if key != 1
        ):  # pass@1 is the success rate
            values = tuple(family.get(key) for family in families)
            named = title.format(str(key).replace("_", " ").replace("/", " "))
            found.append(Column(title=named, hint=hint.format(key), kind=_kind(kind), values=values))
    return [column for column in found if any(value is not None for value in column.values)]


def _kind(written: Sequence[Kind]) -> Kind:
    return written[0] if written else "number"


def written(value: float, kind: Kind) -> str:
    """Returns a value as formatted on the page."""
    if kind == "count":
        return f"{value:,.0f}"
    if kind == "usd":
        return f"{value:,.2f}" if value >= 1 else short(value)
    return short(value, "rate" if kind == "rate" else "number")


SIGNIFICANT = 0.05
"""Corrected p-value below which a cell is colored."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The advantage of a row's agent over a column's agent.

    Attributes:
        row: Agent of the row.
        column: Agent of the column.
        difference: Difference of their success rates, in percentage points.
        p_value: The pair's Holm-corrected p-value.
        details: Full description of the pair, in sentences.
    """

    row: str
    column: str
    difference: float
    p_value: float
    details: str

    @property
    def text(self) -> str:
        """The signed difference."""
        return signed_points(self.difference)

    @property
    def verdict(self) -> str:
        """`"better"`, `"worse"`, or `""` if not significant."""
        if self.p_value >= SIGNIFICANT or not self.difference:
            return ""
        return "better" if self.difference > 0 else "worse"


def matrix(agents: Sequence[str], pairs: Iterable[Pair]) -> list[list[Cell | None]]:
    """Returns a row of cells per agent; None for the agent itself and for pairs without common levels.

    Args:
        agents: Agents in the order of rows and columns.
        pairs: Pairs of one world.
    """
    known = {}
    for pair in pairs:
        known[pair.first, pair.second] = _cell(pair, is_turned=False)
        known[pair.second, pair.first] = _cell(pair, is_turned=True)
    return [[known.get((row, column)) for column in agents] for row in agents]


def _cell(pair: Pair, *, is_turned: bool) -> Cell:
    """Returns the cell of a pair's first agent over its second, or the reverse if turned."""
    outcomes, reward = pair.outcomes, pair.reward
    only_row, only_column = outcomes.num_only_before, outcomes.num_only_after
    row, column = pair.first, pair.second
    mean, (low, high) = -reward.mean, (-reward.interval.high, -reward.interval.low)
    if is_turned:
        row, column, only_row, only_column = column, row, only_column, only_row
        mean, (low, high) = reward.mean, reward.interval
    has_reference = pair.first in REFERENCES or pair.second in REFERENCES
    family = f"all pairs {'with a reference' if has_reference else 'of contestants'} in all worlds"
    details = (
        f"Of {outcomes.num_pairs} episodes on the same levels {row} alone solved {only_row}, {column} alone "
        f"{only_column}, both {outcomes.num_both}, neither {outcomes.num_neither}; {outcomes.test} "
        f"{written_p(pair.p_value)}, Holm-corrected for {family}. "
        f"Reward {_signed(mean)} (95% {_signed(low)} to {_signed(high)}, Student’s interval)."
    )
    return Cell(
        row=row,
        column=column,
        difference=100 * (only_row - only_column) / outcomes.num_pairs,
        p_value=pair.p_value,
        details=details,
    )


def signed_points(points: float) -> str:
    """Returns a difference in percentage points in its shortest form."""
    text = f"{points:+.1f}".removesuffix(".0")
    return "0" if text in ("+0", "-0") else text.replace("-", "−")


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + short(value)
