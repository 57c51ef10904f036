"""Exact answers about any room: the shortest solution, its length, and whether there is one.

Answers are optimal in moves (not pushes). Rooms with one box are solved once as a whole, so asking at every
step of an episode is a look-up; rooms with more boxes are searched, and what a search finds is remembered.
"""

from __future__ import annotations

from functools import lru_cache

from vlm_envs.errors import SolverLimitError
from vlm_envs.worlds.grids.directions import Direction
from vlm_envs.worlds.grids.state import descend
from vlm_envs.worlds.sokoban.one_box import OneBoxCosts
from vlm_envs.worlds.sokoban.push_search import Node, PushSearch
from vlm_envs.worlds.sokoban.state import SokobanLayout, SokobanState

MAX_NUM_NODES = 200_000
"""Nodes one search may expand; tens of seconds in the worst case."""

_MAX_REMEMBERED = 100_000


def plan(state: SokobanState, *, max_num_nodes: int = MAX_NUM_NODES) -> tuple[int, ...] | None:
    """Returns a shortest solution of a closed room as action numbers, or None; equal states have equal plans.

    Raises:
        SolverLimitError: If the limit on nodes, for more than one box, was reached before the answer was known.
    """
    if len(state.boxes) == 1:
        return descend(state, cost_to_go)
    return _many_box_solver(state.layout).plan(state, max_num_nodes)


def cost_to_go(state: SokobanState, *, max_num_nodes: int = MAX_NUM_NODES) -> int | None:
    """Returns the length of a shortest solution in moves, or None if there is none.

    Raises:
        SolverLimitError: If the limit on nodes, for more than one box, was reached before the answer was known.
    """
    if len(state.boxes) == 1:
        return one_box_costs(state.layout).cost(state.player, state.boxes[0])
    return _many_box_solver(state.layout).cost(state, max_num_nodes)


def is_deadlocked(state: SokobanState, *, max_num_nodes: int = MAX_NUM_NODES) -> bool:
    """Returns whether the room can no longer be solved; stuck boxes are seen without a search.

    Raises:
        SolverLimitError: If the node limit was reached before the answer was known.
    """
    if len(state.boxes) > 1 and _many_box_solver(state.layout).is_seen_dead(state):
        return True
    return cost_to_go(state, max_num_nodes=max_num_nodes) is None


@lru_cache(maxsize=1024)
def one_box_costs(layout: SokobanLayout) -> OneBoxCosts:
    """Returns the table of costs of a one-box room, computed at the first call."""
    return OneBoxCosts(layout)


class _ManyBoxSolver:
    """A search in one room with a memory of the costs along the solutions it found."""

    def __init__(self, layout: SokobanLayout) -> None:
        self._num_cols = layout.num_cols
        self._search = PushSearch(layout)
        self._costs: dict[SokobanState, int | None] = {}
        self._given_up: dict[SokobanState, tuple[int, str]] = {}

    def plan(self, state: SokobanState, max_num_nodes: int) -> tuple[int, ...] | None:
        moves = self._moves(state, max_num_nodes)
        if len(self._costs) >= _MAX_REMEMBERED:
            self._costs.clear()
        if moves is None:
            self._costs[state] = None
            return None
        # Every state on a shortest solution lies on its own shortest solution.
        for moves_made, action in enumerate(moves):
            self._costs[state] = len(moves) - moves_made
            state = state.move(Direction(action))
        self._costs[state] = 0
        return moves

    def _moves(self, state: SokobanState, max_num_nodes: int) -> tuple[int, ...] | None:
        """Searches, unless an earlier search of the state stopped at this limit or a higher one."""
        limit, why = self._given_up.get(state, (0, ""))
        if max_num_nodes <= limit:
            raise SolverLimitError(why)
        try:
            return self._search.search(self._node(state), max_num_nodes=max_num_nodes)
        except SolverLimitError as error:
            if len(self._given_up) >= _MAX_REMEMBERED:
                self._given_up.clear()
            self._given_up[state] = max_num_nodes, str(error)
            raise

    def cost(self, state: SokobanState, max_num_nodes: int) -> int | None:
        try:
            return self._costs[state]
        except KeyError:
            moves = self.plan(state, max_num_nodes)
            return None if moves is None else len(moves)

    def is_seen_dead(self, state: SokobanState) -> bool:
        return self._search.is_dead(self._node(state)[1])

    def _node(self, state: SokobanState) -> Node:
        row, column = state.player
        boxes = tuple(row * self._num_cols + column for row, column in state.boxes)
        return row * self._num_cols + column, boxes


@lru_cache(maxsize=128)
def _many_box_solver(layout: SokobanLayout) -> _ManyBoxSolver:
    return _ManyBoxSolver(layout)
