"""Random lakes whose shortest way has a wanted length.

Source: VAGEN, Section 3 (random maps with random start and goal) and Gymnasium's `frozen_probability`.
Deviation: every cell but the goal is frozen or a hole by chance first; the start is then drawn among the
frozen cells at a fitting distance, so that no map is thrown away for an unlucky start.
"""

from __future__ import annotations

import numpy as np

from vlm_envs.errors import GenerationError
from vlm_envs.splits import split_of
from vlm_envs.worlds.frozen_lake.solver import distances_to
from vlm_envs.worlds.frozen_lake.state import FrozenLakeState

NUM_TRIES = 5_000


def generate(
    rng: np.random.Generator,
    split: str,
    *,
    size: int,
    frozen_probability: float,
    min_solution_length: int,
    max_solution_length: int,
) -> FrozenLakeState:
    """Returns a random lake of a split whose shortest way lies in a band.

    Args:
        rng: The only source of randomness.
        split: The split the lake's content must belong to.
        size: Rows, and columns, of the lake.
        frozen_probability: Chance of each cell to be ice, in (0, 1].
        min_solution_length: Fewest moves from start to goal.
        max_solution_length: Most moves from start to goal.

    Returns:
        A solvable lake that meets all of the above.

    Raises:
        GenerationError: If no lake was found within `NUM_TRIES` maps.
    """
    num_cells = size * size
    for _ in range(NUM_TRIES):
        is_hole = rng.random(num_cells) >= frozen_probability
        target_cell = int(rng.integers(num_cells))
        is_hole[target_cell] = False
        holes = tuple(divmod(cell, size) for cell in np.flatnonzero(is_hole).tolist())
        target = divmod(target_cell, size)
        distances = distances_to(target, holes, size)
        starts = [c for c, moves in enumerate(distances) if min_solution_length <= moves <= max_solution_length]
        if not starts:
            continue
        player = divmod(starts[int(rng.integers(len(starts)))], size)
        state = FrozenLakeState(player=player, target=target, holes=holes, size=size)
        if split_of(state.level_text().encode()) == split:
            return state
    raise GenerationError(
        f"No {size}x{size} lake with frozen_probability={frozen_probability} and a shortest way of "
        f"{min_solution_length} to {max_solution_length} moves was found for split {split!r} in "
        f"{NUM_TRIES} tries. Widen the band (min_solution_length, max_solution_length), "
        "enlarge size or raise frozen_probability."
    )
