"""Tables of text for terminals and logs."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from vlm_envs.terminal_tables import chosen_columns, terminal_width, wrapped

_FOLDED_AT = 26
_GAP = "  "


def text_table(rows: Sequence[Mapping[str, str]], *, width: float | None = None) -> str:
    """Returns rows under their columns' names; empty columns are left out.

    A table that is wider than the terminal has the columns that fit, and a last line that names the others. If its
    first column repeats or is wide, that stands in headings above the rows.

    Args:
        rows: Texts by column, the most important columns first.
        width: Columns that there are; None for those of the terminal.
    """
    width = terminal_width() if width is None else width
    columns, hidden = chosen_columns(rows, num_needed=2, width=width)
    if not hidden and _width_of(rows, columns) <= width:
        return "\n".join(_lines(rows, columns))
    first = columns[0]
    names = [row[first] for row in rows]
    is_grouped = len({*names}) < len(names) or max(map(len, names)) > width / 2
    label = columns[1] if is_grouped else first
    narrow = [
        {
            name: _folded(text) if name == label else text
            for name, text in row.items()
            if name != first or not is_grouped
        }
        for row in rows
    ]
    headings = {name: _folded(name, max(12, *(len(row[name]) for row in narrow))) for name in narrow[0]}
    inner = [{headings[name]: text for name, text in row.items()} for row in narrow]
    columns, hidden = chosen_columns([_unfolded(row) for row in inner], num_needed=2, width=width)
    widths = _widths(inner, columns)
    lines = [] if is_grouped else _lines(inner, columns, widths)
    groups = itertools.groupby(zip(names, inner, strict=True), key=lambda pair: pair[0]) if is_grouped else ()
    for name, group in groups:
        title = wrapped(f"{first}: {name}".replace(",", ", "), width, indent=_GAP)
        lines += ["", *title, *_lines([row for _, row in group], columns, widths)]
    if hidden:
        lines += ["", *wrapped(f"Wider terminals also show: {'; '.join(hidden)}.".replace("\n", " "), width)]
    return "\n".join(lines).lstrip("\n")


def fitted_markdown(lines: Sequence[str], *, width: float | None = None) -> list[str]:
    """Returns a table in Markdown as it is if it fits the width, else as `text_table` shows it.

    Args:
        lines: The table.
        width: Columns that there are; None for those of the terminal.
    """
    width = terminal_width() if width is None else width
    if max(map(len, lines)) <= width:
        return list(lines)
    names, _, *rows = (
        [cell.strip().replace("`", "").replace("**", "") for cell in line[1:-1].split("|")] for line in lines
    )
    counts = Counter(names)
    heading = [
        name if counts[name] == 1 else f"{name} ({names[:index].count(name) + 1})" for index, name in enumerate(names)
    ]
    return text_table([dict(zip(heading, row, strict=True)) for row in rows], width=width).split("\n")


class _Folder(textwrap.TextWrapper):
    """Breaks lines at spaces and after `:`, `,`, and `/`, never inside a name or a value."""

    wordsep_simple_re = re.compile(r"(\s+|(?<=[:,/]))")


def _folded(text: str, width: int = _FOLDED_AT) -> str:
    folder = _Folder(width, break_on_hyphens=False, break_long_words=False)
    return "\n".join(folder.wrap(text)) if len(text) > width else text


def _longest(text: str) -> int:
    return max(map(len, text.split("\n")))


def _unfolded(row: Mapping[str, str]) -> dict[str, str]:
    """Returns a row with the longest line of each text."""
    return {name: max(text.split("\n"), key=len) for name, text in row.items()}


def _widths(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> dict[str, int]:
    return {name: max(_longest(name), *(_longest(row[name]) for row in rows)) for name in columns}


def _width_of(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> int:
    return sum(_widths(rows, columns).values()) + len(_GAP) * (len(columns) - 1)


def _lines(
    rows: Sequence[Mapping[str, str]], columns: Sequence[str], widths: Mapping[str, int] | None = None
) -> list[str]:
    widths = _widths(rows, columns) if widths is None else widths
    lines = []
    for cells in (list(columns), *([row[name] for name in columns] for row in rows)):
        for parts in itertools.zip_longest(*(cell.split("\n") for cell in cells), fillvalue=""):
            padded = (part.ljust(widths[name]) for part, name in zip(parts, columns, strict=True))
            lines.append(_GAP.join(padded).rstrip())
    return lines
