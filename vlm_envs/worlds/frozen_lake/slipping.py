"""Which way a player on slippery ice really goes.

Source: Gymnasium's FrozenLake-v1 with `is_slippery=True`: the intended direction and the two perpendicular
ones have a probability of 1/3 each; the opposite one never happens.
"""

from __future__ import annotations

SLIPPED_ACTIONS: tuple[tuple[int, int, int], ...] = (
    (2, 0, 3),  # up: left, up, right
    (3, 1, 2),  # down: right, down, left
    (1, 2, 0),  # left: down, left, up
    (0, 3, 1),  # right: up, right, down
)
"""For each action, the equally likely actions that happen: turned left, as intended, turned right."""


def slipped_action(action: int, uniform_draw: float) -> int:
    """Returns the action that happens instead of the intended one.

    Args:
        action: The intended action, 0 up, 1 down, 2 left, 3 right.
        uniform_draw: A number drawn uniformly from [0, 1).

    Returns:
        One of the three possible actions, each for a third of the draws.
    """
    return SLIPPED_ACTIONS[action][int(uniform_draw * 3)]
