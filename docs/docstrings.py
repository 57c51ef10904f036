"""Docstrings as the API reference needs them: their tables and bars are Markdown, Sphinx reads reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_ROW = re.compile(r"\s*\|.*\|\s*$")
_RULE = re.compile(r"\s*\|[-:| ]+\|\s*$")
_CODE = re.compile(r"(`+[^`]*`+)")


def as_restructured_text(lines: Sequence[str]) -> list[str]:
    """Returns a docstring's lines with Markdown tables as list tables, and with every other bar escaped."""
    return list(_converted(lines))


def _converted(lines: Sequence[str]) -> Iterator[str]:
    number = 0
    while number < len(lines):
        if number + 1 < len(lines) and _ROW.match(lines[number]) and _RULE.match(lines[number + 1]):
            end = number + 2
            while end < len(lines) and _ROW.match(lines[end]):
                end += 1
            yield from _list_table([lines[number], *lines[number + 2 : end]])
            number = end
        else:
            yield _without_bars(lines[number])
            number += 1


def _list_table(rows: Sequence[str]) -> Iterator[str]:
    indent = rows[0][: len(rows[0]) - len(rows[0].lstrip())]
    yield from ("", f"{indent}.. list-table::", f"{indent}   :header-rows: 1", "")
    for row in rows:
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
        for number, cell in enumerate(cells):
            yield f"{indent}   {'*' if number == 0 else ' '} - {cell}"
    yield ""


def _without_bars(line: str) -> str:
    parts = _CODE.split(line)
    return "".join(part if part.startswith("`") else part.replace("|", r"\|") for part in parts)
