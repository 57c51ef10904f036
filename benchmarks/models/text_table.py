"""Tables of text for terminals and logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def text_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Returns rows under their columns' names, numbers to the right; empty columns are left out."""
    columns = [name for name in (rows[0] if rows else ()) if any(row[name] for row in rows)]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in columns}
    lines = ["  ".join(name.ljust(widths[name]) for name in columns)]
    lines += ["  ".join(row[name].ljust(widths[name]) for name in columns) for row in rows]
    return "\n".join(line.rstrip() for line in lines)
