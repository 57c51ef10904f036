"""Sokoban: push every box onto a target; boxes cannot be pulled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlm_envs.errors import ConfigError, LevelError, SolverLimitError
from vlm_envs.spaces import MAX_GRID
from vlm_envs.validation import require, require_flag, require_positive
from vlm_envs.worlds import sokoban_solver
from vlm_envs.worlds.grids.grid_levels import (
    Cell,
    Direction,
    GridDynamics,
    Relation,
    longest_solution,
    named_cells,
    relations_of,
    walk_distances,
)
from vlm_envs.worlds.grids.grid_vector import DELTAS, BatchStep, GridBatch
from vlm_envs.worlds.grids.grid_world import STEP_PENALTY, GridTask, GridView, GridWorld, representation_help
from vlm_envs.worlds.sokoban_solver import OneBoxCosts, SokobanLayout, SokobanState, parse_level

_STARTS_PER_ROOM = 16
_NODES_PER_TRY = 2_000
_MIN_FLOOR_SHARE, _MAX_FLOOR_SHARE = 0.5, 0.95
_TURN_PROBABILITY = 0.35
_UNPULLED_PREFERENCE = 0.5
# A brush is the set of cells carved around the walker: a point, a horizontal bar, a vertical bar, or a
# corner.
_BRUSHES: tuple[tuple[Cell, ...], ...] = (
    ((0, 0),),
    ((0, 0), (0, 1)),
    ((0, 0), (1, 0)),
    ((0, 0), (1, 0), (0, 1)),
)


def _carve_layout(rng: np.random.Generator, dim_room: tuple[int, int], num_boxes: int) -> SokobanLayout:
    """Returns a room with a connected random floor and random targets on it."""
    num_rows, num_cols = dim_room
    num_inner = (num_rows - 2) * (num_cols - 2)
    share = rng.uniform(_MIN_FLOOR_SHARE, _MAX_FLOOR_SHARE)
    num_floor = max(2 * num_boxes + 1, round(share * num_inner))
    floor = sorted(_carve_floor(rng, num_rows, num_cols, num_floor))
    targets = tuple(sorted(floor[index] for index in rng.choice(len(floor), num_boxes, replace=False)))
    walls = bytearray(b"\1" * (num_rows * num_cols))
    for row, column in floor:
        walls[row * num_cols + column] = 0
    return SokobanLayout(walls=bytes(walls), targets=targets, num_rows=num_rows, num_cols=num_cols)


def _carve_floor(rng: np.random.Generator, num_rows: int, num_cols: int, num_floor: int) -> set[Cell]:
    """Walks at random, carving with a random brush, until enough cells are floor."""
    cell = (int(rng.integers(1, num_rows - 1)), int(rng.integers(1, num_cols - 1)))
    direction = Direction(int(rng.integers(4)))
    floor: set[Cell] = set()
    while len(floor) < num_floor:
        for row, column in _BRUSHES[int(rng.integers(len(_BRUSHES)))]:
            floor.add((min(cell[0] + row, num_rows - 2), min(cell[1] + column, num_cols - 2)))
        if rng.random() < _TURN_PROBABILITY:
            direction = Direction(int(rng.integers(4)))
        row, column = direction.from_cell(cell)
        if 1 <= row <= num_rows - 2 and 1 <= column <= num_cols - 2:
            cell = row, column
        else:
            direction = Direction(int(rng.integers(4)))
    return floor


def _one_box_starts(
    rng: np.random.Generator, layout: SokobanLayout, min_length: int, max_length: int
) -> Iterator[SokobanState]:
    """Yields random starts of a room with a suitable exact cost, with the player off the target."""
    fitting = OneBoxCosts(layout).positions_within(min_length, max_length)
    fitting = [(player, box) for player, box in fitting if player not in layout.targets]
    num_starts = min(len(fitting), _STARTS_PER_ROOM)
    for index in rng.choice(len(fitting), num_starts, replace=False) if fitting else ():
        player, box = fitting[index]
        yield SokobanState(layout=layout, player=player, boxes=(box,))


def _pulled_starts(
    rng: np.random.Generator, layout: SokobanLayout, min_length: int, max_length: int
) -> Iterator[SokobanState]:
    """Yields at most one start: the solved room played backward until no box is on a target.

    The player walks to random pulls, with a preference for boxes that are still on a target, until the number
    of moves reaches a random length from the range. Those moves played forward solve the room, so its
    shortest solution is no longer than that.
    """
    max_num_moves = int(rng.integers(min_length, max_length + 1))
    targets = {row * layout.num_cols + column for row, column in layout.targets}
    free = [cell for cell, wall in enumerate(layout.walls) if not wall and cell not in targets]
    player, boxes, num_moves = free[int(rng.integers(len(free)))], set(targets), 0
    while pulls := _reachable_pulls(layout, player, boxes):
        on_target = [pull for pull in pulls if pull[1] in targets]
        choices = on_target if on_target and rng.random() < _UNPULLED_PREFERENCE else pulls
        num_walked, box, step = choices[int(rng.integers(len(choices)))]
        # The walk to the first pull would come after the last push of the solution, so it costs nothing
        num_pull_moves = 1 + (num_walked if num_moves else 0)
        if num_moves + num_pull_moves > max_num_moves:
            break
        num_moves += num_pull_moves
        boxes = boxes - {box} | {box + step}
        player = box + 2 * step
    if boxes & targets:
        return
    walked = walk_distances(layout.walls, layout.num_cols, player, frozenset(boxes))
    cells = [cell for cell in free if 0 <= walked[cell] <= max_num_moves - num_moves]
    if cells:
        player = cells[int(rng.integers(len(cells)))]
        box_cells = tuple(divmod(box, layout.num_cols) for box in sorted(boxes))
        yield SokobanState(layout=layout, player=divmod(player, layout.num_cols), boxes=box_cells)


def _reachable_pulls(layout: SokobanLayout, player: int, boxes: set[int]) -> list[tuple[int, int, int]]:
    """Returns every pull the player can walk to, in a fixed order.

    A pull is a push played backward: the player steps away from a box and drags it along.

    Returns:
        The number of moves of the walk, the box, and the step from the box to the player.
    """
    walked = walk_distances(layout.walls, layout.num_cols, player, frozenset(boxes))
    pulls = []
    for box in sorted(boxes):
        for step in (-layout.num_cols, layout.num_cols, -1, 1):
            player_to = box + 2 * step
            if walked[box + step] >= 0 and not layout.walls[player_to] and player_to not in boxes:
                pulls.append((walked[box + step], box, step))
    return pulls


class SokobanDynamics(GridDynamics[SokobanState]):
    """The rules of one Sokoban configuration, without episode state.

    Rooms are carved by a wandering brush, so their shapes differ. With one box, the start is drawn among all
    positions of the room with a suitable exact cost. With more boxes, they are pulled away from the targets
    at random (the game played backward, which keeps the room solvable), and the exact solver then checks the
    length.

    Args:
        dim_room: (rows, columns) of every room, including walls; 3 to 512 each.
        num_boxes: Number of boxes, and of targets, in generated rooms.
        min_solution_length: Minimum length of a generated room's shortest solution, in moves.
        max_solution_length: Maximum length of it.

    Raises:
        ConfigError: If no room satisfies the values.

    Source: VAGEN, Table 7, for the defaults; gym-sokoban 0.0.6 for the rules and the idea of carving and
        reverse play (after Racaniere et al. 2017). Deviations: different carving; only the given generator is
        used; lengths are exact; failure raises an error instead of returning an easier room.
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
        if len(dim_room) != 2:
            raise ConfigError(f"dim_room must be (rows, columns), e.g. (6, 6); got {dim_room!r}.")
        num_rows, num_cols = (
            require_positive(f"dim_room[{axis}]", side, minimum=3, maximum=MAX_GRID)
            for axis, side in enumerate(dim_room)
        )
        self.dim_room = num_rows, num_cols
        self.num_boxes = require_positive("num_boxes", num_boxes)
        super().__init__(
            self.dim_room, min_solution_length=min_solution_length, max_solution_length=max_solution_length
        )
        num_inner, num_needed = (num_rows - 2) * (num_cols - 2), 2 * self.num_boxes + 1
        require(
            num_inner >= num_needed,
            f"{self.num_boxes} boxes, as many targets, and the player need {num_needed} cells inside the walls; "
            f"dim_room={self.dim_room} has {num_inner}. Enlarge dim_room or use fewer boxes.",
        )

    def starts(self, rng: np.random.Generator) -> Iterator[SokobanState]:
        """Returns starts in one random room with all boxes off target; see `GridDynamics.starts`."""
        layout = _carve_layout(rng, self.dim_room, self.num_boxes)
        drawn = _one_box_starts if self.num_boxes == 1 else _pulled_starts
        return drawn(rng, layout, self.min_solution_length, self.max_solution_length)

    def fits(self, state: SokobanState) -> bool:
        """Returns whether a start is proven to have a solution length in the range; see `GridDynamics.fits`."""
        if len(state.boxes) == 1:
            return True  # drawn by its exact cost
        try:
            cost = sokoban_solver.cost_to_go(state, max_num_nodes=_NODES_PER_TRY)
        except SolverLimitError:
            return False  # an undecided room is drawn again, never assumed to fit
        return cost is not None and self.min_solution_length <= cost <= self.max_solution_length

    @property
    def wanted(self) -> tuple[str, str]:
        """A description of the level, and a suggestion, for messages."""
        room = f"{self.dim_room[0]}x{self.dim_room[1]} Sokoban room with {self.num_boxes} box(es)"
        return room, "enlarge dim_room or change num_boxes"

    def load(self, level: str) -> SokobanState:
        """Returns the start state of a room given as text; its number of boxes and solution length may be arbitrary.

        Args:
            level: Rows of `#` wall, `_` floor, `O` target, `X` box, `P` player, `*` box on target and `S`
                player on target, joined by newlines.

        Returns:
            A solvable, unsolved room with the configured size.

        Raises:
            LevelError: If the text cannot be parsed, has another size, is already solved, cannot be solved,
                or is too hard for the exact solver.
        """
        state = parse_level(level)
        if (size := (state.layout.num_rows, state.layout.num_cols)) != self.dim_room:
            raise LevelError(
                f"Expected a room of dim_room={self.dim_room}; got {size}. Make the environment with {size}."
            )
        try:
            cost = self.cost_to_go(state)
        except SolverLimitError as error:
            raise LevelError(f"Could not verify that this room has a solution. {error}") from error
        if not cost:
            fault = "has no solution" if cost is None else "is already solved"
            raise LevelError(f"This room {fault}; move the boxes, targets or walls:\n{state.level_text()}")
        return state

    def is_success(self, state: SokobanState) -> bool:
        """Returns whether every box stands on a target."""
        return state.is_solved

    def plan(self, state: SokobanState) -> tuple[int, ...] | None:
        """Returns a solution with the fewest moves, or None if there is none.

        Raises:
            SolverLimitError: If the node limit was reached (several boxes only).
        """
        return sokoban_solver.plan(state)

    def suboptimal_plan(self, state: SokobanState) -> tuple[int, ...] | None:
        """Returns a solution of the room without its inner walls, or None if there is none."""
        layout, walls = state.layout, bytearray(state.layout.walls)
        for row, column in layout.inner_walls:
            walls[row * layout.num_cols + column] = 0
        return sokoban_solver.plan(replace(state, layout=replace(layout, walls=bytes(walls))))

    def cost_to_go(self, state: SokobanState) -> int | None:
        """Returns the fewest moves left, or None if the room can no longer be solved.

        Raises:
            SolverLimitError: If the node limit was reached (several boxes only).
        """
        return sokoban_solver.cost_to_go(state)


BOX_REWARD = 1.0
SUCCESS_REWARD = 10.0


_HELP = {
    "natural_language": "box0 is above and to the left of the player. "
    "target0 is at the same row and to the right of box0.",
    "symbols": "# wall, _ floor, O target, X box, P you, * box on target, S you on target",
    "structured": "{player_position: (4, 2), box_positions: [(3, 2)], target_positions: [(3, 1)], grid_size: (6, 6)}",
}


class SokobanTask(GridTask[SokobanState]):
    """Push every box onto a target. Rewards: VAGEN Table 16.

    Args:
        tell_walls: Whether structured states list the inner walls.
    """

    name = "Sokoban"
    goal = "Push every box onto a target."
    rules = ("You can push a box by walking into it, but not pull it. Walls and other boxes stop it.",)
    representation_help = representation_help(**_HELP)

    def __init__(self, *, tell_walls: bool = False) -> None:
        if tell_walls:
            structured = f"{_HELP['structured'][:-1]}, wall_positions: [(1, 4), (2, 2)]}}"
            told = representation_help(**{**_HELP, "structured": structured})
            self.representation_help = {**told, "structured": f"{told['structured']} Walls of the border are left out."}

    def reward_terms(self, state: SokobanState, next_state: SokobanState, *, success: bool) -> dict[str, float]:
        """Returns step, box, and success rewards; the last move also has a step penalty."""
        terms = {"step": STEP_PENALTY}
        pushed_on = next_state.num_boxes_on_target - state.num_boxes_on_target
        if pushed_on:
            terms["boxes"] = BOX_REWARD * pushed_on
        if success:
            terms["success"] = SUCCESS_REWARD
        return terms

    def intention(self, state: SokobanState, plan: Sequence[int]) -> str:
        """Returns the cells that the plan pushes boxes to, ignoring inner walls like the plan does."""
        boxes, player = set(state.boxes), state.player
        ways: list[list[Cell]] = []
        for direction in map(Direction, plan):
            player = direction.from_cell(player)
            if player in boxes:
                if not ways or ways[-1][-1] != player:  # another box than before
                    ways.append([])
                ways[-1].append(direction.from_cell(player))
                boxes ^= {player, ways[-1][-1]}
        return "; ".join(f"box to {', '.join(map(str, way))}" for way in ways)

    def best_return(self, state: SokobanState, num_actions: int) -> float:
        """Returns the return for solving the room in `num_actions` moves."""
        num_left = len(state.boxes) - state.num_boxes_on_target
        return SUCCESS_REWARD + BOX_REWARD * num_left + STEP_PENALTY * num_actions


class SokobanView(GridView[SokobanState]):
    """Images and texts of rooms.

    Args:
        cell_px: Side of one cell in pixels; 8 to 256.
        tell_walls: Whether structured states list the inner walls.
    """

    tiles_of = "sokoban"

    def __init__(self, cell_px: int = 28, *, tell_walls: bool = False) -> None:
        super().__init__(cell_px)
        self.tell_walls = tell_walls

    def structured(self, state: SokobanState) -> dict[str, Any]:
        """Returns the room as plain data; positions are (row, column).

        Source: VAGEN, Appendix C.2, without walls by default.
        """
        layout = state.layout
        told: dict[str, Any] = {
            "player_position": state.player,
            "box_positions": list(state.boxes),
            "target_positions": list(layout.targets),
            "grid_size": (layout.num_rows, layout.num_cols),
        }
        if self.tell_walls:
            told["wall_positions"] = list(layout.inner_walls)
        return told

    def relations(self, state: SokobanState) -> tuple[Relation, ...]:
        """Returns positions of boxes and targets relative to the player, then of targets relative to boxes."""
        player = {"the player": state.player}
        boxes, targets = named_cells("box", state.boxes), named_cells("target", state.layout.targets)
        return relations_of(boxes, player) + relations_of(targets, player) + relations_of(targets, boxes)


_WALL, _TARGET, _BOX = 1, 2, 4


class SokobanBatch(GridBatch):
    """A batch of N rooms; a cell's value is the sum of its wall, target, and box flags."""

    symbols = "_#O?X?*?P?S?????"

    def move(self, actions: NDArray[np.intp], draws: NDArray[np.float64] | None) -> BatchStep:
        """Moves every player, pushing at most one box; see `GridBatch.move`."""
        ahead = self.player + DELTAS[actions]
        # The cell beyond an outer wall is outside the room; nothing is ever pushed there, so any cell will do
        behind = np.clip(ahead + DELTAS[actions], 0, np.array(self.cells.shape[1:]) - 1)
        at_ahead, at_behind = self.at(ahead), self.at(behind)
        here, there = self.cells[at_ahead], self.cells[at_behind]
        has_box = here & _BOX > 0
        moves = (here & _WALL == 0) & ~(has_box & (there & (_WALL | _BOX) > 0))
        pushed = has_box & moves
        self.cells[at_ahead] ^= pushed * np.uint8(_BOX)
        self.cells[at_behind] ^= pushed * np.uint8(_BOX)
        self.player = np.where(moves[:, None], ahead, self.player)
        pushed_on = pushed * ((there & _TARGET) // _TARGET - (here & _TARGET) // float(_TARGET))
        solved = ~(self.cells & (_TARGET | _BOX) == _BOX).any(axis=(1, 2))
        return BatchStep(STEP_PENALTY + BOX_REWARD * pushed_on + SUCCESS_REWARD * solved, solved, solved)


class SokobanWorld(GridWorld[SokobanState]):
    """Sokoban: push every box onto a target, shown as an image, with several moves per turn.

    ## Description
    A room of walls, boxes, and targets. The player walks in four directions and pushes single boxes. Pushing
    one into a corner can make the level unsolvable; the episode then continues until the budget ends.
    Dynamics and symbols are those of gym-sokoban; levels are generated here and verified by an exact solver.

    ## Action Space
    `FreeText`: the model's whole response in the strategy's format. The answer contains moves from Up, Down,
        Left, Right, separated by commas; moves beyond `max_actions_per_turn` are dropped.

    ## Observation Space
    `Dict(text=FreeText, image=Box(uint8[rows * cell_px, columns * cell_px, 3]))`; without `image` in text
    mode.

    ## Rewards
    -0.1 per move (and for a turn without moves), +1 per box pushed onto a target and -1 off it, +10 when
    solved, +0.5 per turn for a response in the format (VAGEN Table 16). The trainer adds reasoning rewards.

    ## Starting State
    A random level of the split whose shortest solution takes `min_solution_length` to `max_solution_length`
    moves. Drawing a level takes about a millisecond with one or two boxes and tens of milliseconds with
    three.

    ## Episode End
    Terminated when every box is on a target. Truncated after `max_turns` turns or `max_steps` moves.

    ## Arguments
    `dim_room=(6, 6)` rows and columns, including the outer wall; `num_boxes=1`; `min_solution_length=5`;
    `max_solution_length=None`, by default the move budget, `max_turns * max_actions_per_turn`;
    `max_steps=100`; `cell_px=28`; `tell_walls=False`, whether structured states list the inner walls, which
    the paper's do not and no judge scores; and those of every world: `prompt_format`, `representation`,
    `obs_mode`, `split`, `max_turns=3`, `max_actions_per_turn=3`, `format_reward=0.5`, `prompt_example=True`,
    `system_prompt=False`, `format_reminder=False`, `reading="strict"`, `render_mode`. Defaults: VAGEN Table
    7. `reset(options={"level": text})` takes rows of the symbols `#_OXP*S`.

    ## Version History
    * v0: first version.
    """

    batch_type = SokobanBatch

    def __init__(
        self,
        *,
        dim_room: tuple[int, int] = (6, 6),
        num_boxes: int = 1,
        min_solution_length: int = 5,
        max_solution_length: int | None = None,
        max_steps: int = 100,
        max_turns: int = 3,
        max_actions_per_turn: int = 3,
        cell_px: int = 28,
        tell_walls: bool = False,
        **world_kwargs: Any,
    ) -> None:
        require_flag("tell_walls", tell_walls)
        dynamics = SokobanDynamics(
            dim_room=dim_room,
            num_boxes=num_boxes,
            min_solution_length=min_solution_length,
            max_solution_length=longest_solution(
                max_solution_length, min_solution_length, max_turns, max_actions_per_turn
            ),
        )
        super().__init__(
            dynamics,
            SokobanView(cell_px, tell_walls=tell_walls),
            SokobanTask(tell_walls=tell_walls),
            max_steps=max_steps,
            max_turns=max_turns,
            max_actions_per_turn=max_actions_per_turn,
            **world_kwargs,
        )
        require(
            not tell_walls or self.representation != "natural_language",
            "tell_walls lists walls in structured states only: symbolic ones already draw them, and sentences "
            "describe "
            "boxes and targets alone. Use representation='structured'.",
        )
