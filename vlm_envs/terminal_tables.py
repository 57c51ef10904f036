"""Tables of text that fit the terminal."""

from __future__ import annotations

import math
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence

_GAP = "  "
_INDENT = "    "
_MIN_NOTE = 40
"""Columns that a note needs beside its row; with fewer it goes below."""


def terminal_width() -> float:
    """Returns the columns of the terminal, or of the variable COLUMNS; infinite for a pipe or a file without it."""
    if os.environ.get("COLUMNS", "").isdecimal() or (sys.stdout and sys.stdout.isatty()):
        return shutil.get_terminal_size().columns
    return math.inf


def table(
    rows: Sequence[Sequence[str]],
    *,
    headings: Sequence[str] = (),
    notes: Sequence[str] = (),
    width: float | None = None,
) -> list[str]:
    """Returns lines of aligned columns, of which the last is wrapped within the width.

    Args:
        rows: Cells, as many in each row.
        headings: Of the columns; empty for none.
        notes: A sentence for each row: beside it where there is room, else below it. Empty for none.
        width: Columns that there are; None for those of the terminal.
    """
    width = terminal_width() if width is None else width
    widths = [max(map(len, column)) for column in zip(*([headings] if headings else []), *rows, strict=True)]
    beside = sum(widths) + len(_GAP) * len(widths)
    is_beside = bool(notes) and width - beside >= _MIN_NOTE
    if is_beside:
        rows = [(*row, note) for row, note in zip(rows, notes, strict=True)]
        headings = (*headings, "") if headings else ()
        widths.append(max(map(len, notes)))
    lines = _aligned(headings, widths, width) if headings else []
    for index, row in enumerate(rows):
        lines += _aligned(row, widths, width)
        if notes and not is_beside:
            lines += _wrapped(notes[index], width, _INDENT)
    return lines


def chosen_columns(
    rows: Sequence[Mapping[str, str]], *, num_needed: int, width: float | None = None
) -> tuple[list[str], list[str]]:
    """Returns the columns of a table that fit the width, and the names of those that do not.

    Columns without any text are in neither.

    Args:
        rows: Texts by column, the most important column first; a column's name may have several lines.
        num_needed: Columns that are kept in any case.
        width: Columns that there are; None for those of the terminal.
    """
    width = terminal_width() if width is None else width
    names = [name for name in (rows[0] if rows else ()) if any(row[name] for row in rows)]
    kept: list[str] = []
    used = 0
    for index, name in enumerate(names):
        wide = max(*map(len, name.split("\n")), *(len(row[name]) for row in rows)) + (len(_GAP) if kept else 0)
        if index < num_needed or used + wide <= width:
            kept.append(name)
            used += wide
    return kept, [name for name in names if name not in kept]


def wrapped(text: str, width: float | None = None, *, indent: str = "") -> list[str]:
    """Returns lines of a text, of which those after the first are indented.

    Args:
        text: The text.
        width: Columns that there are; None for those of the terminal.
        indent: What later lines begin with.
    """
    width = terminal_width() if width is None else width
    return _wrapped(text, width, "", indent) or [""]


def _aligned(row: Sequence[str], widths: Sequence[int], width: float) -> list[str]:
    """Returns the lines of a row, of which all but the first continue its last cell."""
    *cells, last = row
    start = "".join(cell.ljust(column) + _GAP for cell, column in zip(cells, widths, strict=False))
    left = " " * len(start)
    return [line.rstrip() for line in _wrapped(last, width, start, left)] or [start.rstrip()]


def _wrapped(text: str, width: float, start: str, later: str | None = None) -> list[str]:
    """Returns lines of a text that begins with `start`; later lines begin with `later`, or with `start` as well."""
    later = start if later is None else later
    if len(start) + len(text) <= width:
        return [start + text] if text else []
    room = max(int(width), len(later) + 12)
    return textwrap.wrap(
        text, room, initial_indent=start, subsequent_indent=later, break_on_hyphens=False, drop_whitespace=True
    )
