"""FrozenLake's dynamics: lakes in, moves out, and an exact oracle beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from vlm_envs.errors import ConfigError, LevelError, require_flag, require_positive
from vlm_envs.spaces import MAX_GRID
from vlm_envs.worlds.frozen_lake.generator import lakes
from vlm_envs.worlds.frozen_lake.solver import moves_left, shortest_way
from vlm_envs.worlds.frozen_lake.state import FrozenLakeState, parse_level
from vlm_envs.worlds.grids.dynamics import GridDynamics

SLIPPED_ACTIONS = (
    (2, 0, 3),  # up: left, up, right
    (3, 1, 2),  # down: right, down, left
    (1, 2, 0),  # left: down, left, up
    (0, 3, 1),  # right: up, right, down
)
"""For each action the equally likely ones that happen on slippery ice: the intended and the two perpendicular ones.

Source: Gymnasium's FrozenLake-v1 with `is_slippery=True`; the opposite direction never happens.
"""


class FrozenLakeDynamics(GridDynamics[FrozenLakeState]):
    """The rules of one FrozenLake configuration; holds no state of an episode.

    Args:
        size: Rows, and columns, of every lake, 2 to 512; a given `desc` sets it instead.
        is_slippery: Whether a move may go astray to either perpendicular direction.
        desc: A fixed lake, as text or as rows, drawn with `_OGP` or with Gymnasium's `FHGS`. It is then the
            only lake, whatever the split, and the options for random lakes are not used.
        frozen_probability: Chance of each cell of a random lake to be ice, in (0, 1].
        min_solution_length: Fewest moves from start to goal of a random lake.
        max_solution_length: Most moves from start to goal of a random lake.

    Raises:
        ConfigError: If a value is out of range.
        LevelError: If `desc` cannot be read or solved.

    Source: VAGEN, Table 9 and Section 3, for the defaults; Gymnasium's FrozenLake-v1 for the rules.
    """

    num_tries = 5_000

    def __init__(
        self,
        *,
        size: int = 4,
        is_slippery: bool = False,
        desc: str | Sequence[str] | None = None,
        frozen_probability: float = 0.8,
        min_solution_length: int = 5,
        max_solution_length: int,
    ) -> None:
        """Checks the configuration and reads `desc`."""
        self.size = require_positive("size", size, minimum=2, maximum=MAX_GRID)
        self.is_slippery = require_flag("is_slippery", is_slippery)
        if not 0 < frozen_probability <= 1:
            raise ConfigError(f"frozen_probability must be in (0, 1]; got {frozen_probability!r}.")
        self.frozen_probability = frozen_probability
        self._fixed: FrozenLakeState | None = None
        if desc is not None:
            self._fixed = _checked(parse_level(desc))
            self.size = require_positive("size", self._fixed.size, minimum=2, maximum=MAX_GRID)
        super().__init__(
            (self.size, self.size), min_solution_length=min_solution_length, max_solution_length=max_solution_length
        )

    def starts(self, rng: np.random.Generator) -> Iterator[FrozenLakeState]:
        """Returns the start on one random lake, if one fits; see `GridDynamics.starts`."""
        return lakes(rng, self.size, self.frozen_probability, self.min_solution_length, self.max_solution_length)

    @property
    def wanted(self) -> tuple[str, str]:
        """What is generated and what to change, for messages."""
        lake = f"{self.size}x{self.size} lake with frozen_probability={self.frozen_probability}"
        return lake, "enlarge size or raise frozen_probability"

    def generate(self, rng: np.random.Generator, split: str) -> FrozenLakeState:
        """Returns the lake of `desc`, or a random one; see `GridDynamics.generate`."""
        return super().generate(rng, split) if self._fixed is None else self._fixed

    def level_split(self, level: str) -> str | None:
        """Returns the split of a lake; the one of `desc` is in all of them."""
        return super().level_split(level) if self._fixed is None else None

    def load(self, level: str) -> FrozenLakeState:
        """Returns the start state of a drawn lake; the length of its shortest way is free.

        Args:
            level: Rows of `_` ice, `O` hole, `G` goal and `P` player, joined by newlines; Gymnasium's
                letters S, F, H and G work too.

        Returns:
            A lake of this configuration's size whose goal can be reached.

        Raises:
            LevelError: If the drawing cannot be read, has another size, is already over or cannot be solved.
        """
        state = parse_level(level)
        if state.size != self.size:
            raise LevelError(f"Expected a lake of size={self.size}; got {state.size}. Make the env with that size.")
        return _checked(state)

    def step(self, state: FrozenLakeState, action: int, rng: np.random.Generator) -> tuple[FrozenLakeState, bool]:
        """Moves the player by one cell, perhaps astray; see `GridDynamics.step`."""
        if self.is_slippery:
            action = SLIPPED_ACTIONS[action][int(rng.random() * 3)]
        return super().step(state, action, rng)

    def is_success(self, state: FrozenLakeState) -> bool:
        """Returns whether the player stands on the goal."""
        return state.is_on_goal

    def is_over(self, state: FrozenLakeState) -> bool:
        """Returns whether the player has reached the goal or fallen into a hole."""
        return state.is_on_goal or state.is_in_hole

    def plan(self, state: FrozenLakeState) -> tuple[int, ...] | None:
        """Returns a way with the fewest moves, or None if there is none.

        On slippery ice this is still the shortest way of a player who does not slip, which need not be the
        safest one: it measures the distance left, and it does not depend on luck.
        """
        return shortest_way(state)

    def suboptimal_plan(self, state: FrozenLakeState) -> tuple[int, ...] | None:
        """Returns the shortest way over a lake without holes, which the real one may well have."""
        return shortest_way(replace(state, holes=()))

    def cost_to_go(self, state: FrozenLakeState) -> int | None:
        """Returns the fewest moves left without slipping, or None if the goal is out of reach."""
        return moves_left(state)


def _checked(state: FrozenLakeState) -> FrozenLakeState:
    if state.is_on_goal or state.is_in_hole:
        raise LevelError(f"The player must start on ice (P), not in a hole or on the goal:\n{state.level_text()}")
    if moves_left(state) is None:
        raise LevelError(f"No way leads from the player (P) to the goal (G); remove a hole (O):\n{state.level_text()}")
    return state
