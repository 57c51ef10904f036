"""The batched step must be the scalar step, env by env, with the same luck."""

from __future__ import annotations

import numpy as np
import pytest

from vlm_envs.worlds.frozen_lake.batched import step_batch
from vlm_envs.worlds.frozen_lake.dynamics import FrozenLakeDynamics


class FixedDraw:
    """Stands in for a generator and gives one number."""

    def __init__(self, draw: float) -> None:
        self._draw = draw

    def random(self) -> float:
        return self._draw


@pytest.mark.parametrize("is_slippery", [False, True])
def test_batched_walks_equal_scalar_walks(is_slippery: bool) -> None:
    num_envs = 64
    dynamics = FrozenLakeDynamics(size=5, is_slippery=is_slippery, max_solution_length=12)
    rng = np.random.default_rng(0)
    states = [dynamics.generate(rng, "train") for _ in range(num_envs)]
    holes = np.zeros((num_envs, 5, 5), dtype=bool)
    for index, state in enumerate(states):
        for hole in state.holes:
            holes[index][hole] = True
    target, player = np.array([s.target for s in states]), np.array([s.player for s in states])
    for _ in range(60):
        actions, draws = rng.integers(0, 4, num_envs), rng.random(num_envs)
        result = step_batch(holes, target, player, actions, draws if is_slippery else None)
        for index in range(num_envs):
            luck = FixedDraw(float(draws[index]))
            after, effective = dynamics.step(states[index], int(actions[index]), luck)  # type: ignore[arg-type]
            assert tuple(result.player[index]) == after.player
            assert result.effective[index] == effective
            assert (result.on_goal[index], result.in_hole[index]) == (after.is_on_goal, after.is_in_hole)
            states[index] = after
        player = result.player
    assert result.on_goal.any() and result.in_hole.any(), "the walks must end both ways"


def test_shapes_that_do_not_fit_are_named() -> None:
    places = np.zeros((2, 2), dtype=int)
    with pytest.raises(ValueError, match=r"actions as \[N\]; got .*\(3,\)"):
        step_batch(np.zeros((2, 4, 4), dtype=bool), places, places, np.zeros(3, dtype=int))
