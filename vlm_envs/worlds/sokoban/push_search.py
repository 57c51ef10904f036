"""Fewest-moves search for rooms with several boxes.

A* over pushes: a node is the room right after a push, an edge is the shortest walk to the next push plus the
push itself. The bound is the cheapest assignment of boxes to targets, in pushes, plus the walk to the nearest
box; it never over-estimates and never drops by more than an edge costs, so the first solution is optimal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush

from vlm_envs.errors import SolverLimitError
from vlm_envs.worlds.sokoban.state import SokobanLayout

Boxes = tuple[int, ...]
Node = tuple[int, Boxes]
"""Flat player cell and sorted flat box cells; cell = row * num_cols + column."""

_FAR = 1 << 20
_MAX_CACHED_BOUNDS = 200_000


class PushSearch:
    """Optimal search in one room; what depends on the room alone is computed once.

    Args:
        layout: A closed room.
    """

    def __init__(self, layout: SokobanLayout) -> None:
        """Measures the push distance from every cell to every target."""
        self._walls = layout.walls
        self._num_cols = layout.num_cols
        self._steps = (-layout.num_cols, layout.num_cols, -1, 1)
        self._targets: Boxes = tuple(row * layout.num_cols + column for row, column in layout.targets)
        self._push_distances = [self._distances_by_push(target) for target in self._targets]
        self._is_dead = [min(distances) >= _FAR for distances in zip(*self._push_distances, strict=True)]
        self._bounds: dict[Boxes, int | None] = {}

    def search(self, start: Node, *, max_num_nodes: int, max_cost: int | None = None) -> tuple[int, ...] | None:
        """Returns a shortest solution as action numbers, or None if none (of at most `max_cost` moves) exists.

        Raises:
            SolverLimitError: If more nodes than the limit had to be expanded.
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
                raise SolverLimitError(
                    f"No answer within {max_num_nodes} search nodes for a room with "
                    f"{len(self._targets)} boxes. Use a smaller room, fewer boxes, or a higher node limit."
                )
            for successor, direction, edge_cost in self._pushes(node):
                cost = edge_cost - negative_cost
                if cost >= costs.get(successor, _FAR):
                    continue
                bound = self._estimate(successor)
                if bound is None or (max_cost is not None and cost + bound > max_cost):
                    continue
                costs[successor] = cost
                came_by[successor] = (node, direction)
                # Ties go to the deeper node, which is closer to a solution.
                heappush(frontier, (cost + bound, -cost, successor))
        return None

    def is_dead(self, boxes: Boxes) -> bool:
        """Returns whether the boxes can be seen to be stuck, without a search.

        True is always right; False means only that no simple sign of a deadlock was found.
        """
        return self._push_bound(boxes) is None

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
        """Returns a lower bound on the moves left, or None if the boxes are stuck."""
        player, boxes = node
        pushes = self._push_bound(boxes)
        if not pushes:
            return pushes
        row, column = divmod(player, self._num_cols)
        offsets = (divmod(box, self._num_cols) for box in boxes)
        nearest = min(abs(row - box_row) + abs(column - box_column) for box_row, box_column in offsets)
        return pushes + nearest - 1

    def _push_bound(self, boxes: Boxes) -> int | None:
        """Returns the cheapest assignment of boxes to targets in pushes, or None if the boxes are stuck."""
        if boxes not in self._bounds:
            if len(self._bounds) >= _MAX_CACHED_BOUNDS:
                self._bounds.clear()
            self._bounds[boxes] = None if self._has_frozen_box(boxes) else self._assignment_cost(boxes)
        return self._bounds[boxes]

    def _assignment_cost(self, boxes: Boxes) -> int | None:
        """Solves the assignment exactly, box by box, over the sets of targets already taken."""
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
        """Returns whether a box can never again move usefully along either axis.

        Boxes already under question count as walls: if they hold each other, none of them can move first.
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
        """Returns the pushes a lone box needs from each cell to a target, `_FAR` where it cannot."""
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
        """Spells out the walks and pushes that lead from the start to a node."""
        backwards: list[int] = []
        while (edge := came_by[node]) is not None:
            previous, direction = edge
            backwards.append(direction)
            # After the push the player stands where the box was, one step past where the push began.
            push_cell = node[0] - self._steps[direction]
            backwards.extend(reversed(self._walk(previous, push_cell)))
            node = previous
        return tuple(reversed(backwards))

    def _walk(self, node: Node, goal: int) -> list[int]:
        """Returns a shortest walk of the player to a cell, found by going down the distances from it."""
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


def walk_distances(walls: bytes, num_cols: int, player: int, occupied: frozenset[int]) -> list[int]:
    """Returns the player's moves to each flat cell without pushing, -1 where it cannot get; boxes are on `occupied`."""
    distances = [-1] * len(walls)
    distances[player] = 0
    frontier = deque([player])
    while frontier:
        cell = frontier.popleft()
        for step in (-num_cols, num_cols, -1, 1):
            neighbour = cell + step
            if distances[neighbour] < 0 and not walls[neighbour] and neighbour not in occupied:
                distances[neighbour] = distances[cell] + 1
                frontier.append(neighbour)
    return distances
