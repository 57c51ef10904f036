"""What the states of all grid worlds can do, and the shortest solution that follows from costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from vlm_envs.worlds.grids.directions import Cell, Direction


class GridState(Protocol):
    """A whole level at one moment; states do not change."""

    @property
    def player(self) -> Cell:
        """(row, column) of the player."""

    def level_text(self) -> str:
        """Returns the level as rows of symbols joined by newlines; equal states give equal text."""

    def move(self, direction: Direction) -> Self:
        """Returns the level after one move, or the same object if nothing moves."""


GridStateT = TypeVar("GridStateT", bound=GridState)


def descend(state: GridStateT, cost_to_go: Callable[[GridStateT], int | None]) -> tuple[int, ...] | None:
    """Returns a shortest solution as action numbers, the first of equals in the order of the directions.

    None if `cost_to_go`, which gives the fewest moves left from a state, knows no way.
    """
    cost = cost_to_go(state)
    if cost is None:
        return None
    moves: list[int] = []
    while cost > 0:
        cost -= 1
        for direction in Direction:
            successor = state.move(direction)
            if cost_to_go(successor) == cost:
                moves.append(int(direction))
                state = successor
                break
    return tuple(moves)
