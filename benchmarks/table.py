"""Rows as a table, with rich where it is installed and plain otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.measure import Row

HEADINGS = ("benchmark", "measured", "median", "against", "ratio", "verdict")
RIGHT_ALIGNED = {"median", "ratio"}


def cells(benchmark: str, row: Row) -> tuple[str, ...]:
    """Returns a row's cells as text, in the order of `HEADINGS`."""
    reference = "" if row.reference is None else f" {_number(row.reference)}"
    return (
        benchmark,
        row.name,
        f"{_number(row.median)} {row.unit}",
        f"{row.compared_with}{reference}",
        "" if row.ratio is None else f"{row.ratio:.2f}x",
        {True: "ok", False: "MISSED", None: ""}[row.passed],
    )


def print_table(rows: Mapping[str, Sequence[Row]]) -> None:
    """Prints rows by benchmark; a ratio above 1 is better than the reference."""
    lines = [cells(benchmark, row) for benchmark, of_benchmark in rows.items() for row in of_benchmark]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print("\n".join(plain_table(lines)))
        return
    console = Console()
    if not console.is_terminal:  # rich would fold everything into 80 columns
        print("\n".join(plain_table(lines)))
        return
    table = Table(*HEADINGS, box=None, pad_edge=False)
    for heading, column in zip(HEADINGS, table.columns, strict=True):
        column.justify = "right" if heading in RIGHT_ALIGNED else "left"
        column.overflow = "fold"
    for line in lines:
        table.add_row(*line)
    console.print(table, highlight=False, markup=False)


def plain_table(lines: Sequence[tuple[str, ...]]) -> list[str]:
    """Returns headings and lines in aligned columns."""
    table = [HEADINGS, *lines]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if heading in RIGHT_ALIGNED else cell.ljust(width)
            for heading, cell, width in zip(HEADINGS, line, widths, strict=True)
        ).rstrip()
        for line in table
    ]


def _number(value: float) -> str:
    """Returns three significant digits, or thousands with separators."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
