"""The batched step must be the scalar step, env by env."""

from __future__ import annotations

import numpy as np
import pytest

from vlm_envs.worlds.sokoban.batched import step_batch
from vlm_envs.worlds.sokoban.dynamics import SokobanDynamics
from vlm_envs.worlds.sokoban.state import SokobanState


def cells_to_grid(cells: tuple[tuple[int, int], ...], shape: tuple[int, int]) -> np.ndarray:
    grid = np.zeros(shape, dtype=bool)
    for cell in cells:
        grid[cell] = True
    return grid


def test_batched_walks_equal_scalar_walks() -> None:
    num_envs, shape = 48, (7, 7)
    dynamics = SokobanDynamics(dim_room=shape, num_boxes=2, max_solution_length=20)
    rng = np.random.default_rng(0)
    states: list[SokobanState] = [dynamics.generate(rng, "train") for _ in range(num_envs)]
    walls = np.array([np.frombuffer(s.walls, np.uint8).reshape(shape) for s in states], dtype=bool)
    targets = np.array([cells_to_grid(s.targets, shape) for s in states])
    boxes = np.array([cells_to_grid(s.boxes, shape) for s in states])
    player = np.array([s.player for s in states])
    num_deltas = {-1: 0, 0: 0, 1: 0}
    for _ in range(120):
        actions = rng.integers(0, 4, num_envs)
        boxes_before = boxes.copy()
        result = step_batch(walls, targets, boxes, player, actions)
        np.testing.assert_array_equal(boxes, boxes_before)
        for index, (state, action) in enumerate(zip(states, actions.tolist(), strict=True)):
            after, effective = dynamics.step(state, action, rng)
            assert tuple(result.player[index]) == after.player
            np.testing.assert_array_equal(result.boxes[index], cells_to_grid(after.boxes, shape))
            assert result.effective[index] == effective
            assert result.solved[index] == dynamics.is_success(after)
            delta = after.num_boxes_on_target - state.num_boxes_on_target
            assert result.boxes_delta[index] == delta
            num_deltas[delta] += 1
            states[index] = after
        boxes, player = result.boxes, result.player
    assert all(num_deltas.values()), "walks must push boxes onto targets and off them"


def test_shapes_that_do_not_fit_are_named() -> None:
    room = np.zeros((2, 5, 5), dtype=bool)
    with pytest.raises(ValueError, match=r"player as \[N, 2\].*\(3, 2\)"):
        step_batch(room, room, room, np.zeros((3, 2), dtype=int), np.zeros(2, dtype=int))
