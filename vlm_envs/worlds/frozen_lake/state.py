"""The state of a frozen lake, its symbols and its one rule of motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlm_envs.errors import LevelError
from vlm_envs.worlds.grids.directions import Cell, Direction
from vlm_envs.worlds.grids.level_text import find_single, find_symbols, parse_rows

SYMBOLS = {
    "_": "ice",
    "O": "hole",
    "G": "goal",
    "P": "player",
    "X": "player in a hole",
    "*": "player on the goal",
}
"""Meaning of each level symbol. Source: VAGEN, Appendix C.1."""

_GYMNASIUM_SYMBOLS = {"F": "ice (Gymnasium)", "H": "hole (Gymnasium)", "S": "player (Gymnasium)"}
"""Gymnasium's own letters for a map; its G means the goal in both alphabets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenLakeState:
    """A whole lake at one moment; hashable, comparable and picklable.

    Attributes:
        player: (row, column) of the player.
        target: (row, column) of the goal.
        holes: (row, column) of each hole, sorted.
        size: Rows, and columns, of the square lake.
    """

    player: Cell
    target: Cell
    holes: tuple[Cell, ...]
    size: int

    @property
    def is_on_goal(self) -> bool:
        """Whether the player stands on the goal."""
        return self.player == self.target

    @property
    def is_in_hole(self) -> bool:
        """Whether the player has fallen into a hole."""
        return self.player in self.holes

    def move(self, direction: Direction) -> FrozenLakeState:
        """Returns the lake after one move, or the same object if the player stays.

        Source: Gymnasium's FrozenLake-v1. The edge of the lake stops the player; a hole and the goal hold them.
        """
        if self.is_on_goal or self.is_in_hole:
            return self
        row, column = direction.from_cell(self.player)
        if not (0 <= row < self.size and 0 <= column < self.size):
            return self
        return FrozenLakeState(player=(row, column), target=self.target, holes=self.holes, size=self.size)

    def level_text(self) -> str:
        """Returns the lake as rows of symbols joined by newlines; equal states give equal text."""
        symbols = ["_"] * (self.size * self.size)
        for row, column in self.holes:
            symbols[row * self.size + column] = "O"
        symbols[self.target[0] * self.size + self.target[1]] = "G"
        index = self.player[0] * self.size + self.player[1]
        symbols[index] = {"_": "P", "O": "X", "G": "*"}[symbols[index]]
        return "\n".join("".join(symbols[start : start + self.size]) for start in range(0, len(symbols), self.size))


def parse_level(level: str | Sequence[str]) -> FrozenLakeState:
    """Reads a drawn lake, in Gymnasium's letters too; the inverse of `FrozenLakeState.level_text`; perhaps unsolvable.

    Raises:
        LevelError: If the drawing is not one square lake with one player and one goal.
    """
    rows = parse_rows(level, SYMBOLS | _GYMNASIUM_SYMBOLS)
    if len(rows) != len(rows[0]):
        raise LevelError(f"A lake must be square; got {len(rows)} rows of {len(rows[0])} symbols.")
    return FrozenLakeState(
        player=find_single(rows, "PSX*", "player"),
        target=find_single(rows, "G*", "goal"),
        holes=find_symbols(rows, "OHX"),
        size=len(rows),
    )
