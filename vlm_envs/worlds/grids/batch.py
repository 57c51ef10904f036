"""Many equally large levels of a grid world as arrays, moved by array operations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from vlm_envs.worlds.grids.directions import Direction
from vlm_envs.worlds.grids.state import GridState

DELTAS = np.array([direction.delta for direction in Direction], np.intp)


class BatchStep(NamedTuple):
    """What one move of each level brought, equal to what scalar steps bring.

    Attributes:
        rewards: float64[N], without what a format earns.
        success: bool[N], whether the level is solved.
        over: bool[N], whether it has ended, solved or not.
    """

    rewards: NDArray[np.float64]
    success: NDArray[np.bool_]
    over: NDArray[np.bool_]


class GridBatch(ABC):
    """N levels.

    Args:
        cells: uint8[N, num_rows, num_cols], what is on each cell besides the player.
        player: int[N, 2], (row, column).

    Attributes:
        symbols: The symbol of each content of a cell, first without the player and then with.
    """

    symbols: ClassVar[str]

    def __init__(self, cells: NDArray[np.uint8], player: NDArray[np.intp]) -> None:
        self.cells, self.player = cells, player
        self._envs = np.arange(len(cells))

    @classmethod
    def of(cls, states: Sequence[GridState]) -> Self:
        """Returns states as arrays."""
        table = bytes(max(cls.symbols.find(chr(symbol)), 0) for symbol in range(256))
        rows = [[list(row.encode().translate(table)) for row in state.level_text().split("\n")] for state in states]
        contents = np.array(rows, np.uint8)
        player = np.array([state.player for state in states], np.intp)
        return cls(contents % np.uint8(len(cls.symbols) // 2), player)

    def put(self, where: NDArray[np.intp], others: Self, which: NDArray[np.intp]) -> None:
        """Puts levels of another batch into places of this one."""
        self.cells[where], self.player[where] = others.cells[which], others.player[which]

    def contents(self) -> NDArray[np.uint8]:
        """Returns the place in `symbols` of every cell, uint8[N, num_rows, num_cols]."""
        contents = self.cells.copy()
        contents[self.at(self.player)] += len(self.symbols) // 2
        return contents

    def at(self, cell: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Returns the index of one cell of each level, given as int[N, 2]."""
        return self._envs, cell[:, 0], cell[:, 1]

    @abstractmethod
    def move(self, actions: NDArray[np.intp], draws: NDArray[np.float64] | None) -> BatchStep:
        """Moves every player.

        Args:
            actions: int[N], 0 up, 1 down, 2 left, 3 right.
            draws: float64[N] in [0, 1), one per player on slippery ground; None if nobody slips.
        """
