"""Reading levels drawn with one symbol per cell.

A level comes from a person or a file, so every fault is reported with its place and its cure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlm_envs.errors import LevelError
from vlm_envs.worlds.grids.directions import Cell


def parse_rows(level: str | Sequence[str], symbols: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the rows, at least one, of a rectangular level made only of known symbols.

    Blank lines around the level and blanks around a row are dropped; no symbol is a blank.

    Raises:
        LevelError: If the level is empty or ragged, or holds an unknown symbol.
    """
    lines = level.strip().split("\n") if isinstance(level, str) else list(level)
    rows = tuple(line.strip() for line in lines)
    if not rows or not rows[0]:
        raise LevelError(f"A level needs at least one row; got {level!r}. Draw it with: {_legend(symbols)}.")
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise LevelError(
                f"All rows of a level must be equally long: row 0 has {len(rows[0])} symbols, "
                f"row {index} ({row!r}) has {len(row)}. Pad the shorter ones."
            )
    for cell in cells_of(rows):
        symbol = rows[cell[0]][cell[1]]
        if symbol not in symbols:
            raise LevelError(f"Unknown symbol {symbol!r} at (row, column) {cell}. Use: {_legend(symbols)}.")
    return rows


def find_symbols(rows: Sequence[str], symbols: str) -> tuple[Cell, ...]:
    """Returns the cells that hold one of `symbols`, in reading order."""
    return tuple(cell for cell in cells_of(rows) if rows[cell[0]][cell[1]] in symbols)


def find_single(rows: Sequence[str], symbols: str, what: str) -> Cell:
    """Returns the one cell that holds one of `symbols`.

    Raises:
        LevelError: If there is no such cell or more than one; it says `what` was looked for.
    """
    cells = find_symbols(rows, symbols)
    if len(cells) != 1:
        drawn_as = " or ".join(repr(symbol) for symbol in symbols)
        raise LevelError(f"A level needs exactly one {what} ({drawn_as}); got {len(cells)}: {list(cells)}.")
    return cells[0]


def cells_of(rows: Sequence[str]) -> list[Cell]:
    """Returns every (row, column) of a rectangular level in reading order."""
    return [(row, column) for row in range(len(rows)) for column in range(len(rows[row]))]


def _legend(symbols: Mapping[str, str]) -> str:
    return ", ".join(f"{symbol} {meaning}" for symbol, meaning in symbols.items())
