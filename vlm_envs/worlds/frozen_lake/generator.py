"""Random lakes whose shortest way has a wanted length.

Source: VAGEN, Section 3 (random maps with random start and goal) and Gymnasium's `frozen_probability`.
Deviation: every cell but the goal is frozen or a hole by chance first; the start is then drawn among the
frozen cells at a fitting distance, so that no map is thrown away for an unlucky start.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from vlm_envs.worlds.frozen_lake.solver import distances_to
from vlm_envs.worlds.frozen_lake.state import FrozenLakeState
from vlm_envs.worlds.grids.directions import Cell

_MOST_REMEMBERED_CELLS = 9
"""Of a split's few small lakes the same maps are drawn again and again, mostly those of another split."""


def lakes(
    rng: np.random.Generator, size: int, frozen_probability: float, min_length: int, max_length: int
) -> Iterator[FrozenLakeState]:
    """Yields one random lake whose shortest way lies in a band, or none if the map that was drawn has no such way.

    Args:
        rng: Where chance comes from.
        size: Rows, and columns.
        frozen_probability: Of each cell but the goal, to be no hole.
        min_length: Fewest moves of the shortest way.
        max_length: Most of them.
    """
    num_cells = size * size
    is_hole = rng.random(num_cells) >= frozen_probability
    target_cell = int(rng.integers(num_cells))
    is_hole[target_cell] = False
    looked_at = _remembered if num_cells <= _MOST_REMEMBERED_CELLS else _looked_at
    holes, distances = looked_at(is_hole.tobytes(), target_cell, size)
    starts = [c for c, moves in enumerate(distances) if min_length <= moves <= max_length]
    if starts:
        player = divmod(starts[int(rng.integers(len(starts)))], size)
        yield FrozenLakeState(player=player, target=divmod(target_cell, size), holes=holes, size=size)


def _looked_at(is_hole: bytes, target_cell: int, size: int) -> tuple[tuple[Cell, ...], tuple[int, ...]]:
    """Returns the holes of a map, one byte a cell, and how far each cell is from the goal."""
    holes = tuple(divmod(cell, size) for cell, each in enumerate(is_hole) if each)
    return holes, distances_to(divmod(target_cell, size), holes, size)


_remembered = lru_cache(maxsize=4096)(_looked_at)
