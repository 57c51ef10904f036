"""Random Sokoban rooms whose shortest solution has a wanted length.

Rooms are carved by a wandering brush, so they differ in shape. With one box, the start is drawn among all
positions of the room whose exact cost fits. With more boxes, they are pulled away from the targets at random
(the game played backwards, which keeps the room solvable) and the exact solver then checks the length.

Source: gym-sokoban's idea of carving and reverse play (after Racaniere et al. 2017). Deviations: own carving;
randomness comes only from the given generator; lengths are exact; a failure is an error, not an easier room.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from vlm_envs.errors import SolverLimitError
from vlm_envs.worlds.grids.directions import Cell, Direction
from vlm_envs.worlds.sokoban import solver
from vlm_envs.worlds.sokoban.one_box import OneBoxCosts
from vlm_envs.worlds.sokoban.push_search import walk_distances
from vlm_envs.worlds.sokoban.state import SokobanLayout, SokobanState

_STARTS_PER_ROOM = 16
_NODES_PER_TRY = 2_000
_MIN_FLOOR_SHARE, _MAX_FLOOR_SHARE = 0.5, 0.95
_TURN_PROBABILITY = 0.35
_UNPULLED_PREFERENCE = 0.5
# A brush is the set of cells carved around the walker: a point, a bar, an upright bar, a corner.
_BRUSHES: tuple[tuple[Cell, ...], ...] = (
    ((0, 0),),
    ((0, 0), (0, 1)),
    ((0, 0), (1, 0)),
    ((0, 0), (1, 0), (0, 1)),
)


def rooms(
    rng: np.random.Generator, dim_room: tuple[int, int], num_boxes: int, min_length: int, max_length: int
) -> Iterator[SokobanState]:
    """Yields random starts in one carved room, none with a box on a target; `is_within` accepts those of the band.

    Args:
        rng: Where chance comes from.
        dim_room: Rows and columns, walls included.
        num_boxes: And as many targets.
        min_length: Fewest moves of a shortest solution, pushes included.
        max_length: Most of them.
    """
    layout = _carve_layout(rng, dim_room, num_boxes)
    yield from (_one_box_starts if num_boxes == 1 else _pulled_starts)(rng, layout, min_length, max_length)


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
    """Yields random starts of a room whose exact cost fits, none of them with the player on the target."""
    fitting = OneBoxCosts(layout).positions_within(min_length, max_length)
    fitting = [(player, box) for player, box in fitting if player not in layout.targets]
    num_starts = min(len(fitting), _STARTS_PER_ROOM)
    for index in rng.choice(len(fitting), num_starts, replace=False) if fitting else ():
        player, box = fitting[index]
        yield SokobanState(layout=layout, player=player, boxes=(box,))


def _pulled_starts(
    rng: np.random.Generator, layout: SokobanLayout, min_length: int, max_length: int
) -> Iterator[SokobanState]:
    """Yields at most one start: the solved room played backwards until no box is on a target.

    The player walks to a random pull, with a preference for boxes that still stand on a target, until the
    moves made reach a length drawn from the band; those moves played forwards solve the room, so its shortest
    solution is no longer than that.
    """
    max_num_moves = int(rng.integers(min_length, max_length + 1))
    targets = {row * layout.num_cols + column for row, column in layout.targets}
    free = [cell for cell, wall in enumerate(layout.walls) if not wall and cell not in targets]
    player, boxes, num_moves = free[int(rng.integers(len(free)))], set(targets), 0
    while pulls := _reachable_pulls(layout, player, boxes):
        on_target = [pull for pull in pulls if pull.box in targets]
        choices = on_target if on_target and rng.random() < _UNPULLED_PREFERENCE else pulls
        pull = choices[int(rng.integers(len(choices)))]
        # The walk to the first pull comes after the last push of the solution, so it costs nothing.
        num_pull_moves = 1 + (pull.num_walked if num_moves else 0)
        if num_moves + num_pull_moves > max_num_moves:
            break
        num_moves += num_pull_moves
        boxes = boxes - {pull.box} | {pull.player_from}
        player = pull.player_to
    if boxes & targets:
        return
    walked = walk_distances(layout.walls, layout.num_cols, player, frozenset(boxes))
    cells = [cell for cell in free if 0 <= walked[cell] <= max_num_moves - num_moves]
    if cells:
        player = cells[int(rng.integers(len(cells)))]
        box_cells = tuple(divmod(box, layout.num_cols) for box in sorted(boxes))
        yield SokobanState(layout=layout, player=divmod(player, layout.num_cols), boxes=box_cells)


class _Pull(NamedTuple):
    """A push played backwards: the player steps away from a box and takes it along."""

    num_walked: int
    box: int
    player_from: int
    player_to: int


def _reachable_pulls(layout: SokobanLayout, player: int, boxes: set[int]) -> list[_Pull]:
    """Returns every pull the player can walk to, in a fixed order."""
    walked = walk_distances(layout.walls, layout.num_cols, player, frozenset(boxes))
    pulls = []
    for box in sorted(boxes):
        for step in (-layout.num_cols, layout.num_cols, -1, 1):
            player_from, player_to = box + step, box + 2 * step
            if walked[player_from] >= 0 and not layout.walls[player_to] and player_to not in boxes:
                pulls.append(_Pull(walked[player_from], box, player_from, player_to))
    return pulls


def is_within(state: SokobanState, min_length: int, max_length: int) -> bool:
    """Returns whether a start's shortest solution lies in a band; starts with one box do without a check."""
    if len(state.boxes) == 1:
        return True
    try:
        cost = solver.cost_to_go(state, max_num_nodes=_NODES_PER_TRY)
    except SolverLimitError:
        return False  # An undecided room is drawn again, never assumed to fit.
    return cost is not None and min_length <= cost <= max_length
