"""The state of a Sokoban room, its symbols and its one rule of motion."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from vlm_envs.errors import LevelError
from vlm_envs.worlds.grids.directions import Cell, Direction
from vlm_envs.worlds.grids.level_text import cells_of, find_single, find_symbols, parse_rows

SYMBOLS = {
    "#": "wall",
    "_": "floor",
    "O": "target",
    "X": "box",
    "P": "player",
    "*": "box on target",
    "S": "player on target",
}
"""Meaning of each level symbol. Source: VAGEN, Appendix C.1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SokobanLayout:
    """What never moves in a room.

    Attributes:
        walls: One byte per cell in reading order; 1 is a wall. The border is all walls.
        targets: (row, column) of each target, sorted.
        num_rows: Height in cells.
        num_cols: Width in cells.
    """

    walls: bytes
    targets: tuple[Cell, ...]
    num_rows: int
    num_cols: int

    def is_wall(self, cell: Cell) -> bool:
        """Returns whether a cell of the room is a wall."""
        return bool(self.walls[cell[0] * self.num_cols + cell[1]])

    @property
    def inner_walls(self) -> tuple[Cell, ...]:
        """(row, column) of each wall that is not part of the border, in reading order."""
        inner = itertools.product(range(1, self.num_rows - 1), range(1, self.num_cols - 1))
        return tuple(cell for cell in inner if self.is_wall(cell))


@dataclass(frozen=True, slots=True, kw_only=True)
class SokobanState:
    """A whole room at one moment; hashable, comparable and picklable.

    Attributes:
        layout: Walls and targets.
        player: (row, column) of the player.
        boxes: (row, column) of each box, sorted.
    """

    layout: SokobanLayout
    player: Cell
    boxes: tuple[Cell, ...]

    @property
    def num_boxes_on_target(self) -> int:
        """How many boxes stand on a target."""
        return sum(box in self.layout.targets for box in self.boxes)

    @property
    def is_solved(self) -> bool:
        """Whether every box stands on a target."""
        return self.boxes == self.layout.targets

    def move(self, direction: Direction) -> SokobanState:
        """Returns the room after one move: a step, a push, or the same object if the way is blocked.

        Source: the push action of gym-sokoban 0.0.6. A box moves one cell if the cell behind it is free of
        walls and boxes; otherwise nothing moves.
        """
        ahead = direction.from_cell(self.player)
        if self.layout.is_wall(ahead):
            return self
        if ahead not in self.boxes:
            return SokobanState(layout=self.layout, player=ahead, boxes=self.boxes)
        behind = direction.from_cell(ahead)
        if self.layout.is_wall(behind) or behind in self.boxes:
            return self
        boxes = tuple(sorted(behind if box == ahead else box for box in self.boxes))
        return SokobanState(layout=self.layout, player=ahead, boxes=boxes)

    def level_text(self) -> str:
        """Returns the room as rows of symbols joined by newlines; equal states give equal text."""
        width = self.layout.num_cols
        symbols = ["#" if wall else "_" for wall in self.layout.walls]
        for row, column in self.layout.targets:
            symbols[row * width + column] = "O"
        for row, column in self.boxes:
            index = row * width + column
            symbols[index] = "*" if symbols[index] == "O" else "X"
        index = self.player[0] * width + self.player[1]
        symbols[index] = "S" if symbols[index] == "O" else "P"
        return "\n".join("".join(symbols[start : start + width]) for start in range(0, len(symbols), width))


def parse_level(level: str) -> SokobanState:
    """Reads a drawn room, which may be solved or unsolvable; the inverse of `SokobanState.level_text`.

    Raises:
        LevelError: If the drawing is not one closed room with one player and as many boxes as targets.
    """
    rows = parse_rows(level, SYMBOLS)
    for row, column in cells_of(rows):
        on_border = row in (0, len(rows) - 1) or column in (0, len(rows[0]) - 1)
        if on_border and rows[row][column] != "#":
            raise LevelError(
                f"A Sokoban room must be closed: the border cell (row, column) {(row, column)} is "
                f"{rows[row][column]!r}. Surround the room with '#'."
            )
    player, boxes, targets = (
        find_single(rows, "PS", "player"),
        find_symbols(rows, "X*"),
        find_symbols(rows, "O*S"),
    )
    if not boxes or len(boxes) != len(targets):
        raise LevelError(
            f"A Sokoban room needs at least one box and as many boxes (X, *) as targets (O, *, S); got "
            f"{len(boxes)} boxes and {len(targets)} targets."
        )
    walls = bytes(rows[row][column] == "#" for row, column in cells_of(rows))
    layout = SokobanLayout(walls=walls, targets=targets, num_rows=len(rows), num_cols=len(rows[0]))
    return SokobanState(layout=layout, player=player, boxes=boxes)
