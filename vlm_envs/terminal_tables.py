"""Tables of text that fit the terminal."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence

_GAP = "  "
_INDENT = "    "
_MIN_NOTE = 40
"""Minimum number of columns for a note to the right of its row; with fewer it is placed below."""


def terminal_width() -> float:
    """Returns the width of the terminal, or the value of COLUMNS; infinite for a pipe or a file without it."""
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
    """Returns lines of aligned columns, the last of which is wrapped within the width.

    Args:
        rows: Cells, equally many in each row.
        headings: Headings of the columns; empty for none.
        notes: A sentence for each row, to the right of it if there is room, else below it. Empty for none.
        width: Available columns; None for those of the terminal.
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


def text_table(rows: Sequence[Mapping[str, str]], *, width: float | None = None) -> str:
    """Returns rows under their columns' names, without empty columns.

    If a row is wider than the terminal, a first column that repeats or is wide becomes headings above its
    rows, the last columns are omitted until the others fit, and a last line names them.

    Args:
        rows: Texts by column, the most important columns first.
        width: Columns of the terminal; None measures it.
    """
    width = terminal_width() if width is None else width
    names = [name for name in (rows[0] if rows else ()) if any(row[name] for row in rows)]
    if not names:
        return ""
    first, shown, hidden = names[0], list(names), list[str]()
    sizes = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}

    def is_too_wide() -> bool:
        return sum(sizes[name] + len(_GAP) for name in shown) - len(_GAP) > width

    repeats = len({row[first] for row in rows}) < len(rows)
    is_grouped = len(names) > 1 and is_too_wide() and (repeats or sizes[first] > width / 2)
    if is_grouped:
        shown.remove(first)
    while len(shown) > 2 and is_too_wide():
        hidden.insert(0, shown.pop())
    lines: list[str] = []
    for heading, group in itertools.groupby(rows, key=lambda row: row[first] if is_grouped else ""):
        if is_grouped:
            lines += ["", *wrapped(f"{first}: {heading}".replace(",", ", "), width, indent=_GAP)]
        for row in ({name: name for name in shown}, *group):
            lines.append(_GAP.join(row[name].ljust(sizes[name]) for name in shown).rstrip())
    if hidden:
        lines += ["", *wrapped(f"Wider terminals also show: {'; '.join(hidden)}.", width)]
    return "\n".join(lines).lstrip("\n")


def wrapped(text: str, width: float | None = None, *, indent: str = "") -> list[str]:
    """Returns lines of a text, with all but the first indented.

    Args:
        text: The text.
        width: Available columns; None for those of the terminal.
        indent: Prefix of later lines.
    """
    width = terminal_width() if width is None else width
    return _wrapped(text, width, "", indent) or [""]


def _aligned(row: Sequence[str], widths: Sequence[int], width: float) -> list[str]:
    """Returns the lines of a row; all but the first continue its last cell."""
    *cells, last = row
    start = "".join(cell.ljust(column) + _GAP for cell, column in zip(cells, widths, strict=False))
    left = " " * len(start)
    return [line.rstrip() for line in _wrapped(last, width, start, left)] or [start.rstrip()]


def _wrapped(text: str, width: float, start: str, later: str | None = None) -> list[str]:
    """Returns lines of a text that begins with `start`; later lines begin with `later`, or also with `start`."""
    later = start if later is None else later
    if len(start) + len(text) <= width:
        return [start + text] if text else []
    room = max(int(width), len(later) + 12)
    return textwrap.wrap(
        text, room, initial_indent=start, subsequent_indent=later, break_on_hyphens=False, drop_whitespace=True
    )
