"""FrozenLake: cross the ice to the goal without falling into a hole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlm_envs.errors import ConfigError, LevelError
from vlm_envs.spaces import MAX_GRID
from vlm_envs.validation import require_flag, require_positive
from vlm_envs.worlds.grids.grid_levels import (
    Cell,
    Direction,
    GridDynamics,
    Relation,
    descend,
    find_single,
    find_symbols,
    longest_solution,
    moves_of,
    named_cells,
    parse_rows,
    relations_of,
    walk_distances,
)
from vlm_envs.worlds.grids.grid_vector import DELTAS, BatchStep, GridBatch
from vlm_envs.worlds.grids.grid_world import STEP_PENALTY, GridTask, GridView, GridWorld, representation_help

SYMBOLS = {
    "_": "ice",
    "O": "hole",
    "G": "goal",
    "P": "player",
    "X": "player in a hole",
    "*": "player on the goal",
}
"""Meanings of level symbols. Source: VAGEN, Appendix C.1."""

_GYMNASIUM_SYMBOLS = {"F": "ice (Gymnasium)", "H": "hole (Gymnasium)", "S": "player (Gymnasium)"}
"""Gymnasium's letters for a map; its G means the goal in both alphabets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenLakeState:
    """A lake at one moment; hashable, comparable, and picklable.

    Attributes:
        player: (row, column) of the player.
        target: (row, column) of the goal.
        holes: (row, column) of each hole, sorted.
        size: Number of rows and columns of the square lake.
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
        """Returns the lake after one move, or the same object if the player does not move.

        Source: Gymnasium's FrozenLake-v1. The player cannot leave the lake, a hole, or the goal.
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
    """Parses a lake, possibly unsolvable, also in Gymnasium's letters; the inverse of `FrozenLakeState.level_text`.

    Raises:
        LevelError: If the text is not one square lake with one player and one goal.
    """
    rows = parse_rows(level, SYMBOLS | _GYMNASIUM_SYMBOLS)
    if len(rows) != len(rows[0]):
        raise LevelError(f"A lake must be square; got {len(rows)} rows with {len(rows[0])} symbols.")
    return FrozenLakeState(
        player=find_single(rows, "PSX*", "player"),
        target=find_single(rows, "G*", "goal"),
        holes=find_symbols(rows, "OHX"),
        size=len(rows),
    )


def _distances_to(target: Cell, holes: tuple[Cell, ...], size: int) -> list[int]:
    """Returns the number of moves from each cell to the goal, -1 for holes and cells without a path.

    The result includes a border of one cell, so cell (row, column) is at (row + 1) * (size + 2) + column + 1.
    """
    width = size + 2
    edge = b"\1" * width
    walls = bytearray(edge + (b"\1" + bytes(size) + b"\1") * size + edge)
    for row, column in holes:
        walls[(row + 1) * width + column + 1] = 1
    return walk_distances(walls, width, (target[0] + 1) * width + target[1] + 1, frozenset())


_remembered_distances = lru_cache(maxsize=4096)(_distances_to)

SLIPPED_ACTIONS = (
    (2, 0, 3),  # up: left, up, right
    (3, 1, 2),  # down: right, down, left
    (1, 2, 0),  # left: down, left, up
    (0, 3, 1),  # right: up, right, down
)
"""The equally likely outcomes of each action on slippery ice: the intended move and the two perpendicular ones.

Source: Gymnasium's FrozenLake-v1 with `is_slippery=True`; the opposite direction never happens.
"""


class FrozenLakeDynamics(GridDynamics[FrozenLakeState]):
    """The rules of one FrozenLake configuration, without episode state.

    Args:
        size: Number of rows and columns of every lake, 2 to 512; overridden by `desc`.
        is_slippery: Whether a move may slip in either perpendicular direction.
        desc: A fixed lake for all splits, as text or rows, in the symbols `_OGP` or Gymnasium's `FHGS`. The
            options for random lakes are then ignored.
        frozen_probability: Probability that a cell of a random lake is ice, in (0, 1].
        min_solution_length: Minimum number of moves from start to goal of a random lake.
        max_solution_length: Maximum number of moves from start to goal of a random lake.

    Raises:
        ConfigError: If a value is out of range.
        LevelError: If `desc` cannot be parsed or solved.

    Source: VAGEN, Table 9 and Section 3, for the defaults and for random maps with random start and goal;
        Gymnasium's FrozenLake-v1 for the rules and `frozen_probability`. Deviation: every cell but the goal
        is first made ice or a hole at random, and the start is then drawn among the ice cells at a suitable
        distance, so that no map is discarded because of an unlucky start.
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
        self.size = require_positive("size", size, minimum=2, maximum=MAX_GRID)
        self.is_slippery = require_flag("is_slippery", is_slippery)
        if not 0 < frozen_probability <= 1:
            raise ConfigError(f"frozen_probability must be in (0, 1]; got {frozen_probability!r}.")
        self.frozen_probability = frozen_probability
        self._fixed: FrozenLakeState | None = None
        if desc is not None:
            self._fixed = self._checked(parse_level(desc))
            self.size = require_positive("size", self._fixed.size, minimum=2, maximum=MAX_GRID)
        super().__init__(
            (self.size, self.size), min_solution_length=min_solution_length, max_solution_length=max_solution_length
        )

    def starts(self, rng: np.random.Generator) -> Iterator[FrozenLakeState]:
        """Returns a start on one random lake, or none if no distance fits; see `GridDynamics.starts`."""
        num_cells = self.size * self.size
        is_hole = rng.random(num_cells) >= self.frozen_probability
        target_cell = int(rng.integers(num_cells))
        is_hole[target_cell] = False
        target = divmod(target_cell, self.size)
        holes = tuple(divmod(cell, self.size) for cell in np.flatnonzero(is_hole).tolist())
        distances = _distances_to(target, holes, self.size)
        fitting = [
            c for c, moves in enumerate(distances) if self.min_solution_length <= moves <= self.max_solution_length
        ]
        if fitting:
            row, column = divmod(fitting[int(rng.integers(len(fitting)))], self.size + 2)
            yield FrozenLakeState(player=(row - 1, column - 1), target=target, holes=holes, size=self.size)

    @property
    def wanted(self) -> tuple[str, str]:
        """A description of the level, and a suggestion, for messages."""
        lake = f"{self.size}x{self.size} lake with frozen_probability={self.frozen_probability}"
        return lake, "enlarge size or raise frozen_probability"

    def generate(self, rng: np.random.Generator, split: str) -> FrozenLakeState:
        """Returns the lake of `desc`, or a random one; see `GridDynamics.generate`."""
        return super().generate(rng, split) if self._fixed is None else self._fixed

    def level_split(self, level: str) -> str | None:
        """Returns the split of a lake; None if `desc` is given, since it is in all splits."""
        return super().level_split(level) if self._fixed is None else None

    def load(self, level: str) -> FrozenLakeState:
        """Returns the start state of a lake given as text; its solution may have any length.

        Args:
            level: Rows of `_` ice, `O` hole, `G` goal and `P` player, joined by newlines; Gymnasium's letters
                S, F, H and G are also accepted.

        Returns:
            A lake with the configured size whose goal can be reached.

        Raises:
            LevelError: If the text cannot be parsed, has another size, is already over, or cannot be solved.
        """
        state = parse_level(level)
        if state.size != self.size:
            raise LevelError(
                f"Expected a lake of size={self.size}; got {state.size}. Make the environment with that size."
            )
        return self._checked(state)

    def _checked(self, state: FrozenLakeState) -> FrozenLakeState:
        if self.is_over(state):
            raise LevelError(f"The player must start on ice (P), not in a hole or on the goal:\n{state.level_text()}")
        if self.cost_to_go(state) is None:
            raise LevelError(
                f"The goal (G) cannot be reached from the player (P); remove a hole (O):\n{state.level_text()}"
            )
        return state

    def step(self, state: FrozenLakeState, action: int, rng: np.random.Generator) -> tuple[FrozenLakeState, bool]:
        """Moves the player by one cell, possibly slipping; see `GridDynamics.step`."""
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
        """Returns a path with the fewest moves, or None if there is none.

        On slippery ice, this is still the shortest path without slipping, which is not necessarily the safest
        one. It measures the remaining distance independently of luck.
        """
        return descend(state, self.cost_to_go, moves_of)

    def suboptimal_plan(self, state: FrozenLakeState) -> tuple[int, ...] | None:
        """Returns the shortest path over the lake without its holes, which may lead into one."""
        return descend(replace(state, holes=()), self.cost_to_go, moves_of)

    def cost_to_go(self, state: FrozenLakeState) -> int | None:
        """Returns the fewest moves left without slipping, or None if the goal is out of reach."""
        distances = _remembered_distances(state.target, state.holes, state.size)
        distance = distances[(state.player[0] + 1) * (state.size + 2) + state.player[1] + 1]
        return None if distance < 0 else distance


SUCCESS_REWARD = 10.0


class FrozenLakeTask(GridTask[FrozenLakeState]):
    """Walk to the goal without falling into a hole. Rewards: VAGEN Table 17."""

    name = "FrozenLake"
    goal = "Walk over the ice to the goal."
    representation_help = representation_help(
        natural_language="the target is above and to the right of the player. "
        "hole0 is at the same row and to the left of the player.",
        symbols="_ ice, O hole, G goal, P you, X you in a hole, * you on the goal",
        structured="{player_position: (3, 2), target_position: (0, 3), hole_positions: [(1, 2)], grid_size: (4, 4)}",
    )

    def __init__(self, *, is_slippery: bool) -> None:
        slip = ("The ice is slippery: a move may go to either side instead.",) if is_slippery else ()
        self.rules = ("A step into a hole ends the game.", *slip)

    def reward_terms(self, state: FrozenLakeState, next_state: FrozenLakeState, *, success: bool) -> dict[str, float]:
        """Returns the success reward on the goal, the step penalty otherwise."""
        return {"success": SUCCESS_REWARD} if success else {"step": STEP_PENALTY}

    def best_return(self, state: FrozenLakeState, num_actions: int) -> float:
        """Returns the return for reaching the goal with the last of `num_actions` moves."""
        return SUCCESS_REWARD + STEP_PENALTY * (num_actions - 1)


class FrozenLakeView(GridView[FrozenLakeState]):
    """Images and texts of lakes."""

    tiles_of = "frozen_lake"

    def structured(self, state: FrozenLakeState) -> dict[str, Any]:
        """Returns the lake as plain data; positions are (row, column). Source: VAGEN, Appendix C.2."""
        return {
            "player_position": state.player,
            "target_position": state.target,
            "hole_positions": list(state.holes),
            "grid_size": (state.size, state.size),
        }

    def relations(self, state: FrozenLakeState) -> tuple[Relation, ...]:
        """Returns the positions of the target and then each hole relative to the player."""
        things = {"the target": state.target} | named_cells("hole", state.holes)
        return relations_of(things, {"the player": state.player})


_SLIPPED = np.array(SLIPPED_ACTIONS, np.intp)
_HOLE, _GOAL = 1, 2


class FrozenLakeBatch(GridBatch):
    """A batch of N lakes."""

    symbols = "_OGPX*"

    def move(self, actions: NDArray[np.intp], draws: NDArray[np.float64] | None) -> BatchStep:
        """Moves every player; see `GridBatch.move`."""
        if draws is not None:
            actions = _SLIPPED[actions, (draws * 3).astype(np.intp)]
        ahead = self.player + DELTAS[actions]
        is_inside = ((ahead >= 0) & (ahead < self.cells.shape[1:])).all(axis=1)
        is_held = self.cells[self.at(self.player)] > 0
        self.player = np.where((is_inside & ~is_held)[:, None], ahead, self.player)
        below = self.cells[self.at(self.player)]
        success = below == _GOAL
        return BatchStep(np.where(success, SUCCESS_REWARD, STEP_PENALTY), success, below > 0)


class FrozenLakeWorld(GridWorld[FrozenLakeState]):
    """FrozenLake: walk over the ice to the goal, shown as an image, with several moves per turn.

    ## Description
    A square lake with holes. The player walks in four directions; the border stops it. Unlike Gymnasium's
    world with this name, the map, the start, and the goal are drawn at random on every reset.

    ## Action Space
    `FreeText`: the model's whole response in the strategy's format. The answer contains moves from Up, Down,
        Left, Right, separated by commas; moves beyond `max_actions_per_turn` are dropped.

    ## Observation Space
    `Dict(text=FreeText, image=Box(uint8[size * cell_px, size * cell_px, 3]))`; without `image` in text mode.

    ## Rewards
    +10 on the goal, -0.1 for every other move (and for a turn without moves), +0.5 per turn for a response in
    the format (VAGEN Table 17). The trainer adds reasoning rewards.

    ## Starting State
    A random lake of the split: each cell is ice with probability `frozen_probability`, start and goal are
    random, and the shortest safe path takes `min_solution_length` to `max_solution_length` moves.

    ## Episode End
    Terminated on the goal or in a hole. Truncated after `max_turns` turns.

    ## Arguments
    `size=4`; `is_slippery=False`, True moves in the intended or either perpendicular direction with
    probability 1/3 each, as in Gymnasium; `desc=None`, or rows of `_OGP` (or Gymnasium's `SFHG`) that fix the
    map for every seed and split; `frozen_probability=0.8`; `min_solution_length=5`;
    `max_solution_length=None`, by default the move budget, `max_turns * max_actions_per_turn`; `cell_px=28`;
    and those of every world: `prompt_format`, `representation`, `obs_mode`, `split`, `max_turns=3`,
    `max_actions_per_turn=3`, `max_steps=None`, `format_reward=0.5`, `prompt_example=True`,
    `system_prompt=False`, `format_reminder=False`, `reading="strict"`, `render_mode`. Defaults: VAGEN Table
    9. `reset(options={"level": text})` takes rows of the symbols `_OGP`.

    ## Version History
    * v0: first version.
    """

    batch_type = FrozenLakeBatch

    def __init__(
        self,
        *,
        size: int = 4,
        is_slippery: bool = False,
        desc: str | Sequence[str] | None = None,
        frozen_probability: float = 0.8,
        min_solution_length: int = 5,
        max_solution_length: int | None = None,
        max_turns: int = 3,
        max_actions_per_turn: int = 3,
        cell_px: int = 28,
        **world_kwargs: Any,
    ) -> None:
        dynamics = FrozenLakeDynamics(
            size=size,
            is_slippery=is_slippery,
            desc=desc,
            frozen_probability=frozen_probability,
            min_solution_length=min_solution_length,
            max_solution_length=longest_solution(
                max_solution_length, min_solution_length, max_turns, max_actions_per_turn
            ),
        )
        super().__init__(
            dynamics,
            FrozenLakeView(cell_px=cell_px),
            FrozenLakeTask(is_slippery=is_slippery),
            max_turns=max_turns,
            max_actions_per_turn=max_actions_per_turn,
            **world_kwargs,
        )
