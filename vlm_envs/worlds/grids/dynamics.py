"""What the dynamics of all grid worlds share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from vlm_envs.errors import GenerationError
from vlm_envs.parts import Dynamics
from vlm_envs.splits import split_of
from vlm_envs.validation import require, require_positive
from vlm_envs.worlds.grids.directions import Direction
from vlm_envs.worlds.grids.state import GridStateT

_DIRECTIONS = tuple(Direction)


def budgeted_length(shortest: int, max_turns: int, max_actions_per_turn: int) -> int:
    """Returns the most moves that the budget of an episode allows.

    Raises:
        ConfigError: If these are fewer than the shortest solution takes.
    """
    budget = require_positive("max_turns", max_turns) * require_positive("max_actions_per_turn", max_actions_per_turn)
    require(
        budget >= require_positive("min_solution_length", shortest),
        f"max_turns={max_turns} of max_actions_per_turn={max_actions_per_turn} are {budget} moves, and no level takes "
        f"fewer than min_solution_length={shortest}. Allow more turns or actions, or lower min_solution_length.",
    )
    return budget


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

    num_tries: ClassVar[int]
    """Maps drawn before a level of the band is given up."""

    def __init__(self, shape: tuple[int, int], *, min_solution_length: int, max_solution_length: int) -> None:
        self.shape = shape
        self.min_solution_length = require_positive("min_solution_length", min_solution_length)
        self.max_solution_length = require_positive(
            "max_solution_length", max_solution_length, minimum=self.min_solution_length
        )

    @abstractmethod
    def starts(self, rng: np.random.Generator) -> Iterable[GridStateT]:
        """Returns start states of one random map, perhaps none; those that `fits` accepts can be solved in the band."""

    def fits(self, state: GridStateT) -> bool:
        """Returns whether a start's shortest solution is in the band; by default, `starts` gives no other."""
        return True

    @property
    @abstractmethod
    def wanted(self) -> tuple[str, str]:
        """What is generated, and what to change besides the band where there is none, for messages."""

    def generate(self, rng: np.random.Generator, split: str) -> GridStateT:
        """Returns a random level whose content belongs to a split and whose shortest solution lies within the band.

        Raises:
            GenerationError: If no such level was found.
        """
        for _ in range(self.num_tries):
            for state in self.starts(rng):
                if split_of(self.level_key(state)) == split and self.fits(state):
                    return state
        what, remedy = self.wanted
        raise GenerationError(
            f"No {what} and a shortest solution of {self.min_solution_length} to {self.max_solution_length} moves was "
            f"found for split {split!r} in {self.num_tries} tries. Widen the band (min_solution_length, "
            f"max_solution_length), {remedy}."
        )

    def dump(self, state: GridStateT) -> str:
        """Returns the level as rows of symbols; `load` reads it back."""
        return state.level_text()

    def step(self, state: GridStateT, action: int, rng: np.random.Generator) -> tuple[GridStateT, bool]:
        """Returns the level after a move (0 up, 1 down, 2 left, 3 right), and whether anything moved.

        `rng` gives one uniform draw a step if the ground is slippery; unused otherwise.
        """
        successor = state.move(_DIRECTIONS[action])
        return successor, successor is not state
