"""What the dynamics of all grid worlds share."""

from __future__ import annotations

import numpy as np

from vlm_envs.errors import require_positive
from vlm_envs.parts import Dynamics
from vlm_envs.worlds.grids.directions import Direction
from vlm_envs.worlds.grids.state import GridStateT

_DIRECTIONS = tuple(Direction)


class GridDynamics(Dynamics[GridStateT, int]):
    """The rules of one configuration of a grid world; holds no state of an episode.

    Args:
        shape: (rows, columns) of every level.
        min_solution_length: Fewest moves of a generated level's shortest solution.
        max_solution_length: Most moves of it.

    Raises:
        ConfigError: If the lengths are no band.
    """

    is_slippery: bool = False
    """Whether each move takes one uniform draw, for it may go astray."""

    def __init__(self, shape: tuple[int, int], *, min_solution_length: int, max_solution_length: int) -> None:
        self.shape = shape
        self.min_solution_length = require_positive("min_solution_length", min_solution_length)
        self.max_solution_length = require_positive(
            "max_solution_length", max_solution_length, minimum=self.min_solution_length
        )

    def dump(self, state: GridStateT) -> str:
        """Returns the level as rows of symbols; `load` reads it back."""
        return state.level_text()

    def level_key(self, state: GridStateT) -> bytes:
        """Returns canonical bytes of the level's content, equal for equal states only."""
        return state.level_text().encode()

    def step(self, state: GridStateT, action: int, rng: np.random.Generator) -> tuple[GridStateT, bool]:
        """Moves the player.

        Args:
            state: The level now.
            action: 0 up, 1 down, 2 left, 3 right.
            rng: Gives one uniform draw a step if the ground is slippery; unused otherwise.

        Returns:
            The level afterwards, and whether anything moved.
        """
        successor = state.move(_DIRECTIONS[action])
        return successor, successor is not state
