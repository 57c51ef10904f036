"""Tables in Markdown, and differences as their cells."""

from __future__ import annotations

from collections.abc import Sequence

from vlm_envs.statistics.bootstrap import PairedDifference
from vlm_envs.statistics.paired_tests import holm

TESTED = "(95 % CI, p by Holm's method)"
"""What the heading of a column says whose cells are of `told_gaps`."""


def of_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table whose first row is its heading and whose second is the rule."""
    return [f"| {' | '.join(row)} |" for row in rows]


def of_columns(columns: dict[str, Sequence[str]]) -> list[str]:
    """Returns the lines of a table from its columns, by heading, which are equally long."""
    return of_rows([*zip(*([name, "---", *cells] for name, cells in columns.items()), strict=True)])


def told_gaps(gaps: Sequence[PairedDifference]) -> list[str]:
    """Returns the cells of a column of differences, with p-values corrected for how many they are, by Holm's method."""
    return [f"{gap}, p = {p:.4f}" for gap, p in zip(gaps, holm([gap.p_value for gap in gaps]), strict=True)]
