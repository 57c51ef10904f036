"""The tables of a board's page: columns of measures, and agents by worlds."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

from benchmarks.models.board.board_spec import REFERENCES
from benchmarks.models.measures.measures import Pair, Row
from vlm_envs.records.report_panels import short, written_p

Kind = Literal["count", "rate", "number", "usd"]


class _Measure(NamedTuple):
    title: str
    hint: str
    kind: Kind = "number"


@dataclass(frozen=True, kw_only=True)
class Column:
    """One measure of all rows of a table.

    Attributes:
        title: What it is called.
        hint: What it means, in a sentence; may be empty.
        kind: How its values are written.
        values: One per row; None if unknown.
        totals: What each value is a part of; empty where values stand for themselves.
    """

    title: str
    hint: str
    kind: Kind
    values: tuple[float | None, ...]
    totals: tuple[float | None, ...] = ()

    @property
    def texts(self) -> list[str]:
        """Its values as they are printed; what is not known is nothing, never 0."""
        texts = ["" if value is None else written(value, self.kind) for value in self.values]
        if not self.totals:
            return texts
        return [text and f"{text} of {total:,.0f}" for text, total in zip(texts, self.totals, strict=True)]


_KNOWN = {
    "num_episodes": _Measure("episodes", "Played to their end.", "count"),
    "num_levels": _Measure("levels", "Distinct levels, where several seeds gave the same one.", "count"),
    "num_errors": _Measure("errors", "Ended by a failure of a provider or a worker; counted in nothing else.", "count"),
    "num_unjudged": _Measure(
        "no verdict", "Texts and answers that a judge was asked about and gave no verdict on.", "count"
    ),
    "num_models": _Measure("model IDs", "Different model IDs that the server returned for this agent.", "count"),
    "num_addresses": _Measure("servers", "Different addresses at which this agent was served.", "count"),
    "reward": _Measure("reward", "Mean return of an episode."),
    "invalid_rate": _Measure(
        "out of format",
        "Share of turns whose response was out of the format; with lenient reading its actions may still be executed.",
        "rate",
    ),
    "ineffective_rate": _Measure("no effect", "Of turns with actions, those in which none changed anything.", "rate"),
    "turns_to_success": _Measure("turns to success", "Turns of solved episodes."),
    "turns_over_optimal": _Measure("turns × best", "Turns of solved episodes, over those an optimal plan takes."),
    "over_optimal": _Measure("actions × best", "Actions of solved episodes, over those of an optimal plan."),
    "regret": _Measure("regret", "Actions that a turn wasted, where the level could still be solved."),
    "ruined_rate": _Measure("ruined", "Share of episodes with a turn that made the level unsolvable.", "rate"),
    "tokens": _Measure("tokens", "Sent and received, of a mean episode.", "count"),
    "tokens_per_success": _Measure("tokens / success", "Tokens spent for each solved episode.", "count"),
    "usd": _Measure("USD", "Cost of all episodes.", "usd"),
    "usd_per_success": _Measure("USD / success", "Cost of each solved episode.", "usd"),
    "seconds": _Measure("seconds", "Median time of an episode."),
}
_FAMILIES = {
    "pass_at": _Measure("pass@{}", "Probability that one of {} episodes of a level succeeds.", "rate"),
    "pass_hat": _Measure("pass^{}", "Probability that all of {} episodes of a level succeed.", "rate"),
    "metrics": _Measure("{}", "Measured by the world at the end of an episode."),
    "judged": _Measure("{}", "Judges’ measure of an episode, from 0 to 1."),
}
_TOTALS = {"num_unjudged": "num_asked"}
"""Fields that hold what others are a part of."""

_ELSEWHERE = {"agent", "world", "num_successes", "success", "interval", "mistakes", "num_asked"}
"""What the page shows in another way than as a number of its own."""


def columns(rows: Sequence[Row]) -> list[Column]:
    """Returns the measures of which at least one row knows something."""
    kind = type(rows[0]) if rows else Row
    names = [each.name for each in fields(kind)]
    names += [name for name, _ in inspect.getmembers(kind, lambda member: isinstance(member, property))]
    ordered = [name for name in _KNOWN if name in names] + [name for name in names if name not in _KNOWN]
    found = [column for name in ordered if name not in _ELSEWHERE for column in _of(name, rows)]
    return [column for column in found if any(value is not None for value in column.values)]


def _of(name: str, rows: Sequence[Row]) -> Iterator[Column]:
    values = [getattr(row, name) for row in rows]
    families = [value for value in values if isinstance(value, Mapping)]
    if not families:
        measure = _KNOWN.get(name) or _guessed(name)
        totals = tuple(_number(getattr(row, _TOTALS[name])) for row in rows) if name in _TOTALS else ()
        yield Column(**measure._asdict(), values=tuple(map(_number, values)), totals=totals)
        return
    pattern = _FAMILIES.get(name) or _Measure(f"{_words(name)} {{}}", "")
    for key in dict.fromkeys(key for family in families for key in family if key != 1):  # pass@1 is the success rate
        measure = pattern._replace(title=pattern.title.format(_words(str(key))), hint=pattern.hint.format(key))
        yield Column(**measure._asdict(), values=tuple(_number((family or {}).get(key)) for family in values))


def _guessed(name: str) -> _Measure:
    if name.endswith("_rate"):
        return _Measure(_words(name.removesuffix("_rate")), "", "rate")
    return _Measure(_words(name.removeprefix("num_")), "", "count" if name.startswith("num_") else "number")


def _words(name: str) -> str:
    return name.replace("_", " ").replace("/", " ")


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (bool, int, float)) else None


def written(value: float, kind: Kind) -> str:
    """Returns a value as the page prints it."""
    if kind == "count":
        return f"{value:,.0f}"
    if kind == "usd":
        return f"{value:,.2f}" if value >= 1 else short(value)
    return short(value, "rate" if kind == "rate" else "number")


SIGNIFICANT = 0.05
"""Corrected p-value below which a cell has a colour."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What the agent of a row has over the agent of a column.

    Attributes:
        row: Who has it.
        column: Over whom.
        difference: Difference of their success rates, in percentage points.
        p_value: Holm-corrected, as that of the pair.
        details: All that is known of the pair, in sentences.
    """

    row: str
    column: str
    difference: float
    p_value: float
    details: str

    @property
    def text(self) -> str:
        """The difference with its sign."""
        return signed_points(self.difference)

    @property
    def verdict(self) -> str:
        """`"better"`, `"worse"`, or `""` where chance may have made the difference."""
        if self.p_value >= SIGNIFICANT or not self.difference:
            return ""
        return "better" if self.difference > 0 else "worse"


def matrix(agents: Sequence[str], pairs: Iterable[Pair]) -> list[list[Cell | None]]:
    """Returns a row for each agent with a cell for each agent; None for itself, and for two without common levels.

    Args:
        agents: In the order of rows and columns.
        pairs: Those of one world.
    """
    known = {}
    for pair in pairs:
        known[pair.first, pair.second] = _cell(pair, is_turned=False)
        known[pair.second, pair.first] = _cell(pair, is_turned=True)
    return [[known.get((row, column)) for column in agents] for row in agents]


def _cell(pair: Pair, *, is_turned: bool) -> Cell:
    """Returns the cell of a pair's first agent over its second; turned, of its second over its first."""
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
    """Returns a difference in percentage points, as short as it can be."""
    text = f"{points:+.1f}".removesuffix(".0")
    return "0" if text in ("+0", "-0") else text.replace("-", "−")


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + short(value)
