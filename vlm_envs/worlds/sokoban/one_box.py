"""Exact costs of every position of a room with one box, found once per room.

A one-box room has at most (floor cells)^2 positions, so a backward search from the solved ones is cheaper
than a single forward search and answers every later question by a look-up.
"""

from __future__ import annotations

from array import array
from collections import deque

from vlm_envs.worlds.grids.directions import Cell
from vlm_envs.worlds.sokoban.state import SokobanLayout

UNSOLVABLE = -1


class OneBoxCosts:
    """Fewest moves to the solution from each (player, box) of one room.

    Args:
        layout: A closed room with one target.
    """

    def __init__(self, layout: SokobanLayout) -> None:
        """Searches backwards from every position with the box on the target."""
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
        """Returns every (player, box) whose cost lies in a band, both ends included."""
        return [
            (
                divmod(index % self._num_cells, self._num_cols),
                divmod(index // self._num_cells, self._num_cols),
            )
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
            # Two pasts lead here: a plain step, and a push if the box stands right ahead of the player.
            boxes_before = (box, player) if box == player + step else (box,)
            for box_before in boxes_before:
                index = box_before * num_cells + came_from
                if costs[index] == UNSOLVABLE:
                    costs[index] = cost
                    frontier.append((came_from, box_before))
    return costs
