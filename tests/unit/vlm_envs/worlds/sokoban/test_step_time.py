"""Steps take about as long with many boxes as with one: no planner runs in them."""

from __future__ import annotations

import time

import numpy as np
import pytest

from vlm_envs import make

NUM_EPISODES, MOST_TIMES = 12, 3.0
MOVES = ("Up", "Down", "Left", "Right")


def step_times(side: int, num_boxes: int) -> np.ndarray:
    """Returns the CPU time of each step of random play, in seconds, on levels of the training split."""
    settings = {"dim_room": (side, side), "num_boxes": num_boxes, "max_solution_length": 40, "max_turns": 20}
    world = make("VLM/Sokoban-v0", prompt_format="no_think", disable_env_checker=True, **settings).unwrapped
    rng, times = np.random.default_rng(0), []
    for seed in range(1000, 1000 + NUM_EPISODES):
        world.reset(seed=seed)
        over = False
        while not over:
            response = f"<answer>{', '.join(rng.choice(MOVES, 3))}</answer>"
            began = time.process_time()
            *_, terminated, truncated, _ = world.step(response)
            times.append(time.process_time() - began)
            over = terminated or truncated
    return np.array(times)


@pytest.mark.soak
def test_mean_and_slowest_steps_of_many_boxes_are_near_those_of_one():
    one = min((step_times(6, 1) for _ in range(3)), key=np.mean)  # The machine may be busy
    for num_boxes in (3, 4, 5):
        many = min((step_times(10, num_boxes) for _ in range(3)), key=np.mean)
        assert many.mean() <= MOST_TIMES * one.mean(), num_boxes
        assert np.percentile(many, 99) <= MOST_TIMES * np.percentile(one, 99), num_boxes
