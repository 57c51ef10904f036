"""The four moves of a grid world.

Their numbers are the order in which the worlds list their actions: Up, Down, Left, Right.
"""

from __future__ import annotations

from enum import IntEnum

Cell = tuple[int, int]
"""A grid position as (row, column), counted from the top left."""


class Direction(IntEnum):
    """One move on the grid; the value is the action number."""

    UP = 0
    DOWN = 1
    LEFT = 2
    RIGHT = 3

    @property
    def delta(self) -> Cell:
        """Change of (row, column) caused by one move."""
        return _DELTAS[self]

    @property
    def title(self) -> str:
        """The action's name as an agent writes it, e.g. `"Up"`."""
        return self.name.capitalize()

    def from_cell(self, cell: Cell) -> Cell:
        """Returns the neighbour of `cell` in this direction."""
        row_change, column_change = _DELTAS[self]
        return cell[0] + row_change, cell[1] + column_change


_DELTAS: tuple[Cell, ...] = ((-1, 0), (1, 0), (0, -1), (0, 1))
