"""Many equally large Sokoban rooms stepped at once with array operations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_DELTAS = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)], dtype=np.int64)


class SokobanBatchStep(NamedTuple):
    """What one step changed.

    Attributes:
        boxes: bool[N, H, W], where boxes are now.
        player: int64[N, 2], (row, column) of each player now.
        effective: bool[N], whether the player moved.
        solved: bool[N], whether every box stands on a target.
        boxes_delta: int64[N], boxes on a target now less those before; -1, 0 or 1.
    """

    boxes: NDArray[np.bool_]
    player: NDArray[np.int64]
    effective: NDArray[np.bool_]
    solved: NDArray[np.bool_]
    boxes_delta: NDArray[np.int64]


def step_batch(
    walls: NDArray[np.bool_],
    targets: NDArray[np.bool_],
    boxes: NDArray[np.bool_],
    player: NDArray[np.integer],
    actions: NDArray[np.integer],
) -> SokobanBatchStep:
    """Moves N players by one action each; the arguments are left as they are.

    Args:
        walls: bool[N, H, W]; the border of every room is all walls.
        targets: bool[N, H, W].
        boxes: bool[N, H, W].
        player: int[N, 2], (row, column) on a free cell.
        actions: int[N], 0 up, 1 down, 2 left, 3 right.

    Returns:
        The new rooms and what changed, equal to N scalar steps.

    Raises:
        ValueError: If the shapes do not fit together.
    """
    num_envs = len(actions)
    shapes = (walls.shape, targets.shape, boxes.shape)
    if walls.ndim != 3 or len(set(shapes)) != 1 or player.shape != (num_envs, 2) or len(walls) != num_envs:
        raise ValueError(
            "Expected walls, targets and boxes as [N, H, W], player as [N, 2] and actions as [N]; got "
            f"{', '.join(map(str, (*shapes, player.shape, actions.shape)))}."
        )
    env = np.arange(num_envs)
    ahead = player + _DELTAS[actions]
    # The cell behind an outer wall lies outside the room; it is never pushed into, so any cell will do.
    behind = np.clip(ahead + _DELTAS[actions], 0, np.array(walls.shape[1:]) - 1)
    at_ahead, at_behind = (env, ahead[:, 0], ahead[:, 1]), (env, behind[:, 0], behind[:, 1])
    has_box = boxes[at_ahead]
    effective = ~walls[at_ahead] & ~(has_box & (walls[at_behind] | boxes[at_behind]))
    pushed = has_box & effective

    new_boxes = boxes.copy()
    new_boxes[at_ahead] &= ~pushed
    new_boxes[at_behind] |= pushed
    return SokobanBatchStep(
        boxes=new_boxes,
        player=np.where(effective[:, None], ahead, player),
        effective=effective,
        solved=(new_boxes == targets).all(axis=(1, 2)),
        boxes_delta=pushed * (targets[at_behind].astype(np.int64) - targets[at_ahead]),
    )
