"""Exact shortest ways over the ice, for a player who does not slip."""

from __future__ import annotations

from collections import deque
from functools import lru_cache

from vlm_envs.worlds.frozen_lake.state import FrozenLakeState
from vlm_envs.worlds.grids.directions import Cell
from vlm_envs.worlds.grids.state import descend

UNREACHABLE = -1


@lru_cache(maxsize=4)
def _neighbours(size: int) -> tuple[tuple[int, ...], ...]:
    """Returns the cells beside each cell: above, below, left and right of it."""
    beside = []
    for cell in range(size * size):
        column = cell % size
        left, right = ([cell - 1] if column > 0 else []), ([cell + 1] if column < size - 1 else [])
        beside.append(tuple(c for c in (cell - size, cell + size, *left, *right) if 0 <= c < size * size))
    return tuple(beside)


def distances_to(target: Cell, holes: tuple[Cell, ...], size: int) -> tuple[int, ...]:
    """Returns the moves from each cell, in reading order, to the goal; `UNREACHABLE` for holes and cut-off cells."""
    distances = [UNREACHABLE] * (size * size)
    blocked = {row * size + column for row, column in holes}
    start = target[0] * size + target[1]
    distances[start] = 0
    frontier = deque([start])
    neighbours = _neighbours(size)
    while frontier:
        cell = frontier.popleft()
        for neighbour in neighbours[cell]:
            if distances[neighbour] < 0 and neighbour not in blocked:
                distances[neighbour] = distances[cell] + 1
                frontier.append(neighbour)
    return tuple(distances)


_remembered_distances = lru_cache(maxsize=4096)(distances_to)


def moves_left(state: FrozenLakeState) -> int | None:
    """Returns the fewest moves to the goal without slipping, or None if it cannot be reached."""
    distances = _remembered_distances(state.target, state.holes, state.size)
    distance = distances[state.player[0] * state.size + state.player[1]]
    return None if distance == UNREACHABLE else distance


def shortest_way(state: FrozenLakeState) -> tuple[int, ...] | None:
    """Returns a shortest way as action numbers, or None if there is none; equal states give equal plans."""
    return descend(state, moves_left)
