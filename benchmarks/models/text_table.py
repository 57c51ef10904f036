"""Tables of text for terminals and logs."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping, Sequence

from vlm_envs.arguments.tables import chosen_columns, terminal_width, wrapped

_FOLDED_AT = 26
_GAP = "  "


def text_table(rows: Sequence[Mapping[str, str]], *, width: float | None = None) -> str:
    """Returns rows under their columns' names; empty columns are left out.

    A table that is wider than the terminal has its first column as headings above its rows, and the columns that fit;
    a last line names the others.

    Args:
        rows: Texts by column, the most important columns first.
        width: Columns that there are; None for those of the terminal.
    """
    width = terminal_width() if width is None else width
    columns, hidden = chosen_columns(rows, num_needed=2, width=width)
    if not hidden and _width_of(rows, columns) <= width:
        return "\n".join(_lines(rows, columns))
    name, lines = columns[0], []
    rest = [{**row, columns[1]: _folded(row[columns[1]])} for row in rows]
    inner = [{key: text for key, text in row.items() if key != name} for row in rest]
    columns, hidden = chosen_columns([_unfolded(row) for row in inner], num_needed=2, width=width)
    widths = _widths(inner, columns)
    for value, group in itertools.groupby(zip(rows, inner, strict=True), key=lambda pair: pair[0][name]):
        title = wrapped(f"{name}: {value}".replace(",", ", "), width, indent=_GAP)
        lines += ["", *title, *_lines([row for _, row in group], columns, widths)]
    if hidden:
        lines += ["", *wrapped(f"Wider terminals also show: {', '.join(hidden)}.", width)]
    return "\n".join(lines[1:])


def _folded(text: str) -> str:
    return "\n".join(textwrap.wrap(text, _FOLDED_AT, break_on_hyphens=False)) if len(text) > _FOLDED_AT else text


def _unfolded(row: Mapping[str, str]) -> dict[str, str]:
    """Returns a row with the longest line of each text."""
    return {name: max(text.split("\n"), key=len) for name, text in row.items()}


def _widths(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> dict[str, int]:
    longest = [_unfolded(row) for row in rows]
    return {name: max(len(name), *(len(row[name]) for row in longest)) for name in columns}


def _width_of(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> int:
    widths = _widths(rows, columns).values() if columns else ()
    return sum(widths) + len(_GAP) * (len(columns) - 1)


def _lines(
    rows: Sequence[Mapping[str, str]], columns: Sequence[str], widths: Mapping[str, int] | None = None
) -> list[str]:
    widths = _widths(rows, columns) if widths is None and columns else (widths or {})
    lines = [_GAP.join(name.ljust(widths[name]) for name in columns)]
    for row in rows:
        cells = itertools.zip_longest(*(row[name].split("\n") for name in columns), fillvalue="")
        for parts in cells:
            lines.append(_GAP.join(part.ljust(widths[name]) for part, name in zip(parts, columns, strict=True)))
    return [line.rstrip() for line in lines]
