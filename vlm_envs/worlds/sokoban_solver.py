"""Sokoban rooms, and the exact solver that proves them solvable.

Solutions are optimal in moves, not pushes. Rooms with one box are solved completely once, so later queries
are lookups; rooms with more boxes are searched, and results are cached.
"""

from __future__ import annotations

import itertools
from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush

from vlm_envs.errors import LevelError, SolverLimitError
from vlm_envs.worlds.grids.grid_levels import (
    Cell,
    Direction,
    cells_of,
    descend,
    find_single,
    find_symbols,
    moves_of,
    parse_rows,
    walk_distances,
)

SYMBOLS = {
    "#": "wall",
    "_": "floor",
    "O": "target",
    "X": "box",
    "P": "player",
    "*": "box on target",
    "S": "player on target",
}
"""Meanings of level symbols. Source: VAGEN, Appendix C.1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SokobanLayout:
    """The fixed part of a room.

    Attributes:
        walls: One byte per cell in reading order; 1 is a wall. The border is all walls.
        targets: (row, column) of each target, sorted.
        num_rows: Height in cells.
        num_cols: Width in cells.
    """

    walls: bytes
    targets: tuple[Cell, ...]
    num_rows: int
    num_cols: int

    def is_wall(self, cell: Cell) -> bool:
        """Returns whether a cell of the room is a wall."""
        return bool(self.walls[cell[0] * self.num_cols + cell[1]])

    @property
    def inner_walls(self) -> tuple[Cell, ...]:
        """(row, column) of each wall that is not part of the border, in reading order."""
        inner = itertools.product(range(1, self.num_rows - 1), range(1, self.num_cols - 1))
        return tuple(cell for cell in inner if self.is_wall(cell))


@dataclass(frozen=True, slots=True, kw_only=True)
class SokobanState:
    """A room at one moment; hashable, comparable, and picklable.

    Attributes:
        layout: Walls and targets.
        player: (row, column) of the player.
        boxes: (row, column) of each box, sorted.
    """

    layout: SokobanLayout
    player: Cell
    boxes: tuple[Cell, ...]

    @property
    def num_boxes_on_target(self) -> int:
        """Number of boxes on targets."""
        return sum(box in self.layout.targets for box in self.boxes)

    @property
    def is_solved(self) -> bool:
        """Whether every box stands on a target."""
        return self.boxes == self.layout.targets

    def move(self, direction: Direction) -> SokobanState:
        """Returns the room after one move: a step, a push, or the same object if the way is blocked.

        Source: the push action of gym-sokoban 0.0.6. A box moves one cell if the cell beyond it has no wall
            or box; otherwise nothing moves.
        """
        ahead = direction.from_cell(self.player)
        if self.layout.is_wall(ahead):
            return self
        if ahead not in self.boxes:
            return SokobanState(layout=self.layout, player=ahead, boxes=self.boxes)
        behind = direction.from_cell(ahead)
        if self.layout.is_wall(behind) or behind in self.boxes:
            return self
        boxes = tuple(sorted(behind if box == ahead else box for box in self.boxes))
        return SokobanState(layout=self.layout, player=ahead, boxes=boxes)

    def level_text(self) -> str:
        """Returns the room as rows of symbols joined by newlines; equal states give equal text."""
        width = self.layout.num_cols
        symbols = ["#" if wall else "_" for wall in self.layout.walls]
        for row, column in self.layout.targets:
            symbols[row * width + column] = "O"
        for row, column in self.boxes:
            index = row * width + column
            symbols[index] = "*" if symbols[index] == "O" else "X"
        index = self.player[0] * width + self.player[1]
        symbols[index] = "S" if symbols[index] == "O" else "P"
        return "\n".join("".join(symbols[start : start + width]) for start in range(0, len(symbols), width))


def parse_level(level: str) -> SokobanState:
    """Parses a room, possibly solved or unsolvable; the inverse of `SokobanState.level_text`.

    Raises:
        LevelError: If the text is not one closed room with one player and equally many boxes and targets.
    """
    rows = parse_rows(level, SYMBOLS)
    for row, column in cells_of(rows):
        on_border = row in (0, len(rows) - 1) or column in (0, len(rows[0]) - 1)
        if on_border and rows[row][column] != "#":
            raise LevelError(
                f"A Sokoban room must be closed: the border cell (row, column) {(row, column)} is "
                f"{rows[row][column]!r}. Surround the room with '#'."
            )
    player, boxes, targets = (
        find_single(rows, "PS", "player"),
        find_symbols(rows, "X*"),
        find_symbols(rows, "O*S"),
    )
    if not boxes or len(boxes) != len(targets):
        raise LevelError(
            f"A Sokoban room needs at least one box and equally many boxes (X, *) and targets (O, *, S); got "
            f"{len(boxes)} boxes and {len(targets)} targets."
        )
    walls = bytes(rows[row][column] == "#" for row, column in cells_of(rows))
    layout = SokobanLayout(walls=walls, targets=targets, num_rows=len(rows), num_cols=len(rows[0]))
    return SokobanState(layout=layout, player=player, boxes=boxes)


Boxes = tuple[int, ...]
Node = tuple[int, Boxes]
"""Flat player cell and sorted flat box cells; cell = row * num_cols + column."""

_FAR = 1 << 20
_MAX_CACHED_BOUNDS = 200_000
_MAX_REMEMBERED = 100_000
_LIMIT_REACHED = (
    "No answer within {} search nodes for a room with {} boxes. "
    "Use a smaller room, fewer boxes, or a higher node limit."
)


class PushSearch:
    """Finds the fewest moves in a room with several boxes; precomputes everything that depends on the room alone.

    A* over pushes: a node is the room right after a push, an edge is the shortest walk to the next push plus
    the push itself. The lower bound is the cheapest assignment of boxes to targets, in pushes, plus the walk
    to the nearest box. It never overestimates and never drops by more than an edge's cost, so the first
    solution is optimal.

    Args:
        layout: A closed room.
    """

    def __init__(self, layout: SokobanLayout) -> None:
        self._walls = layout.walls
        self._num_cols = layout.num_cols
        self._steps = (-layout.num_cols, layout.num_cols, -1, 1)
        self._targets: Boxes = tuple(row * layout.num_cols + column for row, column in layout.targets)
        self._push_distances = [self._distances_by_push(target) for target in self._targets]
        self._is_dead = [min(distances) >= _FAR for distances in zip(*self._push_distances, strict=True)]
        self._bounds: dict[Boxes, int | None] = {}
        self._costs: dict[SokobanState, int | None] = {}
        self._given_up: dict[SokobanState, int] = {}

    def plan(self, state: SokobanState, *, max_num_nodes: int) -> tuple[int, ...] | None:
        """Returns a shortest solution as action numbers, or None, and caches the costs along it.

        Raises:
            SolverLimitError: If the search exceeded the node limit, now or in an earlier call.
        """
        (row, column), width = state.player, self._num_cols
        boxes = tuple(box_row * width + box_column for box_row, box_column in state.boxes)
        if max_num_nodes <= self._given_up.get(state, 0):
            raise SolverLimitError(_LIMIT_REACHED.format(max_num_nodes, len(boxes)))
        for memory in (self._costs, self._given_up):
            if len(memory) >= _MAX_REMEMBERED:
                memory.clear()
        try:
            moves = self.search((row * width + column, boxes), max_num_nodes=max_num_nodes)
        except SolverLimitError:  # not before the search: worlds in other threads share this object
            self._given_up[state] = max_num_nodes
            raise
        self._costs[state] = None if moves is None else len(moves)
        # A shortest solution contains a shortest solution of each of its states
        for num_made, action in enumerate(moves or (), start=1):
            state = state.move(Direction(action))
            self._costs[state] = len(moves or ()) - num_made
        return moves

    def cost(self, state: SokobanState, *, max_num_nodes: int) -> int | None:
        """Returns the length of a shortest solution in moves, or None; raises as `plan`."""
        cost = self._costs.get(state, -1)  # None for unsolvable states
        if cost != -1:
            return cost
        moves = self.plan(state, max_num_nodes=max_num_nodes)
        return None if moves is None else len(moves)

    def search(self, start: Node, *, max_num_nodes: int) -> tuple[int, ...] | None:
        """Returns a shortest solution as action numbers, or None if there is none.

        Raises:
            SolverLimitError: If the search exceeded the node limit.
        """
        bound = self._estimate(start)
        if bound is None:
            return None
        came_by: dict[Node, tuple[Node, int] | None] = {start: None}
        costs = {start: 0}
        frontier: list[tuple[int, int, Node]] = [(bound, 0, start)]
        num_expanded = 0
        while frontier:
            _, negative_cost, node = heappop(frontier)
            if -negative_cost > costs[node]:
                continue
            if node[1] == self._targets:
                return self._moves_to(node, came_by)
            num_expanded += 1
            if num_expanded > max_num_nodes:
                raise SolverLimitError(_LIMIT_REACHED.format(max_num_nodes, len(self._targets)))
            for successor, direction, edge_cost in self._pushes(node):
                cost = edge_cost - negative_cost
                if cost >= costs.get(successor, _FAR):
                    continue
                bound = self._estimate(successor)
                if bound is None:
                    continue
                costs[successor] = cost
                came_by[successor] = (node, direction)
                # Ties go to the deeper node, which is closer to a solution
                heappush(frontier, (cost + bound, -cost, successor))
        return None

    def _pushes(self, node: Node) -> Iterator[tuple[Node, int, int]]:
        """Yields (room after the push, direction, moves walked and pushed) for each possible push."""
        player, boxes = node
        occupied = frozenset(boxes)
        walked = walk_distances(self._walls, self._num_cols, player, occupied)
        for index, box in enumerate(boxes):
            for direction, step in enumerate(self._steps):
                behind, ahead = box - step, box + step
                if walked[behind] < 0 or self._walls[ahead] or ahead in occupied or self._is_dead[ahead]:
                    continue
                pushed = tuple(sorted((*boxes[:index], ahead, *boxes[index + 1 :])))
                yield (box, pushed), direction, walked[behind] + 1

    def _estimate(self, node: Node) -> int | None:
        """Returns a lower bound on the remaining moves, or None if the boxes are stuck."""
        player, boxes = node
        pushes = self._push_bound(boxes)
        if not pushes:
            return pushes
        row, column = divmod(player, self._num_cols)
        offsets = (divmod(box, self._num_cols) for box in boxes)
        nearest = min(abs(row - box_row) + abs(column - box_column) for box_row, box_column in offsets)
        return pushes + nearest - 1

    def _push_bound(self, boxes: Boxes) -> int | None:
        """Returns the pushes of the cheapest assignment of boxes to targets, or None if the boxes are stuck."""
        if boxes not in self._bounds:
            if len(self._bounds) >= _MAX_CACHED_BOUNDS:
                self._bounds.clear()
            self._bounds[boxes] = None if self._has_frozen_box(boxes) else self._assignment_cost(boxes)
        return self._bounds[boxes]

    def _assignment_cost(self, boxes: Boxes) -> int | None:
        """Solves the assignment exactly, box by box, over the sets of targets already assigned."""
        best_by_taken = {0: 0}
        for box in boxes:
            extended: dict[int, int] = {}
            for taken, cost in best_by_taken.items():
                for index, distances in enumerate(self._push_distances):
                    if taken >> index & 1 or distances[box] >= _FAR:
                        continue
                    total = cost + distances[box]
                    with_target = taken | 1 << index
                    if total < extended.get(with_target, _FAR):
                        extended[with_target] = total
            best_by_taken = extended
        return min(best_by_taken.values(), default=None)

    def _has_frozen_box(self, boxes: Boxes) -> bool:
        occupied = frozenset(boxes)
        return any(box not in self._targets and self._is_frozen(box, occupied, frozenset()) for box in boxes)

    def _is_frozen(self, box: int, occupied: frozenset[int], as_walls: frozenset[int]) -> bool:
        """Returns whether a box can never move usefully again along either axis.

        Boxes already being examined count as walls: if they block each other, none of them can move first.
        """
        as_walls = as_walls | {box}
        return all(self._is_axis_blocked(box, step, occupied, as_walls) for step in (1, self._num_cols))

    def _is_axis_blocked(self, box: int, step: int, occupied: frozenset[int], as_walls: frozenset[int]) -> bool:
        sides = (box - step, box + step)
        if any(self._walls[side] or side in as_walls for side in sides):
            return True
        if all(self._is_dead[side] for side in sides):
            return True
        return any(side in occupied and self._is_frozen(side, occupied, as_walls) for side in sides)

    def _distances_by_push(self, target: int) -> list[int]:
        """Returns the pushes a lone box needs from each cell to a target, or `_FAR` if it cannot get there."""
        distances = [_FAR] * len(self._walls)
        distances[target] = 0
        frontier = deque([target])
        while frontier:
            cell = frontier.popleft()
            for step in self._steps:
                before = cell - step
                if self._walls[before] or distances[before] < _FAR or self._walls[before - step]:
                    continue
                distances[before] = distances[cell] + 1
                frontier.append(before)
        return distances

    def _moves_to(self, node: Node, came_by: dict[Node, tuple[Node, int] | None]) -> tuple[int, ...]:
        """Returns the moves (walks and pushes) from the start to a node."""
        backwards: list[int] = []
        while (edge := came_by[node]) is not None:
            previous, direction = edge
            backwards.append(direction)
            # After a push, the player stands where the box was, one step past where the push began
            push_cell = node[0] - self._steps[direction]
            backwards.extend(reversed(self._walk(previous, push_cell)))
            node = previous
        return tuple(reversed(backwards))

    def _walk(self, node: Node, goal: int) -> list[int]:
        """Returns a shortest walk of the player to a cell, by descending the distances from it."""
        player, boxes = node
        distances = walk_distances(self._walls, self._num_cols, goal, frozenset(boxes))
        moves: list[int] = []
        while player != goal:
            for direction, step in enumerate(self._steps):
                if distances[player + step] == distances[player] - 1:
                    moves.append(direction)
                    player += step
                    break
        return moves


UNSOLVABLE = -1


class OneBoxCosts:
    """Fewest moves to the solution from each (player, box) of a room, computed once.

    A room with one box has at most (floor cells)^2 positions, so a backward search from the solved ones is
    cheaper than a forward search and turns later queries into lookups.

    Args:
        layout: A closed room with one target.
    """

    def __init__(self, layout: SokobanLayout) -> None:
        self._num_cols = layout.num_cols
        self._num_cells = len(layout.walls)
        (target,) = layout.targets
        self._costs = _backward_costs(layout, target[0] * layout.num_cols + target[1])

    def cost(self, player: Cell, box: Cell) -> int | None:
        """Returns the fewest moves to the solution, or None if there is none."""
        index = (box[0] * self._num_cols + box[1]) * self._num_cells + player[0] * self._num_cols + player[1]
        found = self._costs[index]
        return None if found == UNSOLVABLE else found

    def positions_within(self, min_cost: int, max_cost: int) -> list[tuple[Cell, Cell]]:
        """Returns every (player, box) whose cost is in a range, inclusive."""
        return [
            (divmod(index % self._num_cells, self._num_cols), divmod(index // self._num_cells, self._num_cols))
            for index, cost in enumerate(self._costs)
            if min_cost <= cost <= max_cost
        ]


def _backward_costs(layout: SokobanLayout, target: int) -> array[int]:
    """Returns the cost of each position at index `box * num_cells + player`."""
    walls, num_cells = layout.walls, len(layout.walls)
    steps = (-layout.num_cols, layout.num_cols, -1, 1)
    costs = array("i", [UNSOLVABLE]) * (num_cells * num_cells)
    solved = [(player, target) for player in range(num_cells) if not walls[player] and player != target]
    for player, box in solved:
        costs[box * num_cells + player] = 0
    frontier = deque(solved)
    while frontier:
        player, box = frontier.popleft()
        cost = costs[box * num_cells + player] + 1
        for step in steps:
            came_from = player - step
            if walls[came_from] or came_from == box:
                continue
            # A position has two predecessors: a plain step, and a push if the box is right ahead of the
            # player
            boxes_before = (box, player) if box == player + step else (box,)
            for box_before in boxes_before:
                index = box_before * num_cells + came_from
                if costs[index] == UNSOLVABLE:
                    costs[index] = cost
                    frontier.append((came_from, box_before))
    return costs


MAX_NUM_NODES = 200_000
"""Node limit of one search; takes tens of seconds in the worst case."""


def plan(state: SokobanState, *, max_num_nodes: int = MAX_NUM_NODES) -> tuple[int, ...] | None:
    """Returns a shortest solution of a closed room as action numbers, or None; equal states have equal plans.

    Raises:
        SolverLimitError: If a search, for more than one box, reached its node limit.
    """
    if len(state.boxes) == 1:
        return descend(state, cost_to_go, moves_of)
    return push_search(state.layout).plan(state, max_num_nodes=max_num_nodes)


def cost_to_go(state: SokobanState, *, max_num_nodes: int = MAX_NUM_NODES) -> int | None:
    """Returns the length of a shortest solution in moves, or None if there is none; raises as `plan`."""
    if len(state.boxes) == 1:
        return one_box_costs(state.layout).cost(state.player, state.boxes[0])
    return push_search(state.layout).cost(state, max_num_nodes=max_num_nodes)


one_box_costs = lru_cache(maxsize=1024)(OneBoxCosts)
push_search = lru_cache(maxsize=128)(PushSearch)
