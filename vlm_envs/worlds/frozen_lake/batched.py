"""Many equally large frozen lakes stepped at once with array operations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlm_envs.worlds.frozen_lake.slipping import SLIPPED_ACTIONS

_DELTAS = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)], dtype=np.int64)
_SLIPPED = np.array(SLIPPED_ACTIONS, dtype=np.int64)


class FrozenLakeBatchStep(NamedTuple):
    """What one step changed.

    Attributes:
        player: int64[N, 2], (row, column) of each player now.
        effective: bool[N], whether the player moved.
        on_goal: bool[N], whether the player stands on the goal.
        in_hole: bool[N], whether the player has fallen into a hole.
    """

    player: NDArray[np.int64]
    effective: NDArray[np.bool_]
    on_goal: NDArray[np.bool_]
    in_hole: NDArray[np.bool_]


def step_batch(
    holes: NDArray[np.bool_],
    target: NDArray[np.integer],
    player: NDArray[np.integer],
    actions: NDArray[np.integer],
    uniform_draws: NDArray[np.float64] | None = None,
) -> FrozenLakeBatchStep:
    """Moves N players by one action each; the arguments are left as they are.

    Args:
        holes: bool[N, S, S].
        target: int[N, 2], (row, column) of each goal.
        player: int[N, 2], (row, column) of each player.
        actions: int[N], 0 up, 1 down, 2 left, 3 right.
        uniform_draws: float[N] in [0, 1), one per player on slippery ice; None if nobody slips.

    Returns:
        The new places and what changed, equal to N scalar steps with the same draws.

    Raises:
        ValueError: If the shapes do not fit together.
    """
    num_envs = len(actions)
    shapes = (holes.shape, target.shape, player.shape, actions.shape)
    if holes.ndim != 3 or len(holes) != num_envs or target.shape != (num_envs, 2) or player.shape != target.shape:
        raise ValueError(f"Expected holes as [N, S, S], target and player as [N, 2] and actions as [N]; got {shapes}.")
    if uniform_draws is not None:
        actions = _SLIPPED[actions, (uniform_draws * 3).astype(np.int64)]
    ahead = player + _DELTAS[actions]
    env = np.arange(num_envs)
    stays_inside = ((ahead >= 0) & (ahead < np.array(holes.shape[1:]))).all(axis=1)
    was_over = holes[env, player[:, 0], player[:, 1]] | (player == target).all(axis=1)
    effective = stays_inside & ~was_over
    player_now = np.where(effective[:, None], ahead, player)
    return FrozenLakeBatchStep(
        player=player_now,
        effective=effective,
        on_goal=(player_now == target).all(axis=1),
        in_hole=holes[env, player_now[:, 0], player_now[:, 1]],
    )
