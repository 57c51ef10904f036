"""Sokoban's dynamics: levels in, moves out, and an exact oracle beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from vlm_envs.errors import ConfigError, LevelError, SolverLimitError
from vlm_envs.spaces import MAX_GRID
from vlm_envs.validation import require_positive
from vlm_envs.worlds.grids.dynamics import GridDynamics
from vlm_envs.worlds.sokoban import solver
from vlm_envs.worlds.sokoban.generator import is_within, rooms
from vlm_envs.worlds.sokoban.state import SokobanState, parse_level


class SokobanDynamics(GridDynamics[SokobanState]):
    """The rules of one Sokoban configuration; holds no state of an episode.

    Args:
        dim_room: (rows, columns) of every room, walls included; 3 to 512 each.
        num_boxes: Boxes (and targets) of generated rooms.
        min_solution_length: Fewest moves a generated room's shortest solution may take.
        max_solution_length: Most moves it may take.

    Raises:
        ConfigError: If the values do not allow any room.

    Source: VAGEN, Table 7, for the defaults; gym-sokoban 0.0.6 for the rules.
    """

    num_tries = 3_000

    def __init__(
        self,
        *,
        dim_room: tuple[int, int] = (6, 6),
        num_boxes: int = 1,
        min_solution_length: int = 5,
        max_solution_length: int,
    ) -> None:
        """Checks the configuration."""
        if len(dim_room) != 2:
            raise ConfigError(f"dim_room must be (rows, columns), e.g. (6, 6); got {dim_room!r}.")
        self.dim_room = (
            require_positive("dim_room[0]", dim_room[0], minimum=3, maximum=MAX_GRID),
            require_positive("dim_room[1]", dim_room[1], minimum=3, maximum=MAX_GRID),
        )
        self.num_boxes = require_positive("num_boxes", num_boxes)
        super().__init__(
            self.dim_room, min_solution_length=min_solution_length, max_solution_length=max_solution_length
        )
        num_inner = (self.dim_room[0] - 2) * (self.dim_room[1] - 2)
        if num_inner < 2 * self.num_boxes + 1:
            raise ConfigError(
                f"{self.num_boxes} boxes, as many targets and the player need {2 * self.num_boxes + 1} cells "
                f"inside the walls; dim_room={self.dim_room} has {num_inner}. "
                "Enlarge dim_room or use fewer boxes."
            )

    def starts(self, rng: np.random.Generator) -> Iterator[SokobanState]:
        """Returns starts in one random room, no box on a target; see `GridDynamics.starts`."""
        return rooms(rng, self.dim_room, self.num_boxes, self.min_solution_length, self.max_solution_length)

    def fits(self, state: SokobanState) -> bool:
        """Returns whether a start is proved to be in the band; see `GridDynamics.fits`."""
        return is_within(state, self.min_solution_length, self.max_solution_length)

    @property
    def wanted(self) -> tuple[str, str]:
        """What is generated and what to change, for messages."""
        room = f"{self.dim_room[0]}x{self.dim_room[1]} Sokoban room with {self.num_boxes} box(es)"
        return room, "enlarge dim_room or change num_boxes"

    def load(self, level: str) -> SokobanState:
        """Returns the start state of a drawn room; its number of boxes and its length are free.

        Args:
            level: Rows of `#` wall, `_` floor, `O` target, `X` box, `P` player, `*` box on target and `S`
                player on target, joined by newlines.

        Returns:
            A solvable, unsolved room of this configuration's size.

        Raises:
            LevelError: If the drawing cannot be read, has another size, is already solved, cannot be solved,
                or is too hard for the exact solver.
        """
        state = parse_level(level)
        if (size := (state.layout.num_rows, state.layout.num_cols)) != self.dim_room:
            raise LevelError(f"Expected a room of dim_room={self.dim_room}; got {size}. Make the env with {size}.")
        if state.is_solved:
            raise LevelError("Every box is already on a target. Move at least one box (X) off its target (O).")
        try:
            if solver.is_deadlocked(state):
                raise LevelError(f"This room has no solution; move the boxes, targets or walls:\n{state.level_text()}")
        except SolverLimitError as error:
            raise LevelError(f"It could not be checked that this room has a solution. {error}") from error
        return state

    def is_success(self, state: SokobanState) -> bool:
        """Returns whether every box stands on a target."""
        return state.is_solved

    def plan(self, state: SokobanState) -> tuple[int, ...] | None:
        """Returns a solution with the fewest moves, or None if there is none.

        Raises:
            SolverLimitError: If the node limit was reached (several boxes only).
        """
        return solver.plan(state)

    def suboptimal_plan(self, state: SokobanState) -> tuple[int, ...] | None:
        """Returns a solution of the room without its inner walls; None if that has none either."""
        layout, walls = state.layout, bytearray(state.layout.walls)
        for row, column in layout.inner_walls:
            walls[row * layout.num_cols + column] = 0
        return solver.plan(replace(state, layout=replace(layout, walls=bytes(walls))))

    def cost_to_go(self, state: SokobanState) -> int | None:
        """Returns the fewest moves left, or None if the room can no longer be solved.

        Raises:
            SolverLimitError: If the node limit was reached (several boxes only).
        """
        return solver.cost_to_go(state)
