"""Grid worlds moved by numbers are the worlds that are moved by words, byte for byte."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from vlm_envs.errors import ConfigError, EpisodeOverError
from vlm_envs.vector.make_vec import world_vector
from vlm_envs.worlds.grids.grid_world import ACTION_NAMES

NUM_ENVS = 24
WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "Sokoban": ("VLM/Sokoban-v0", {"num_boxes": 2, "dim_room": (6, 7), "max_steps": 40}),
    "FrozenLake": ("VLM/FrozenLake-v0", {"size": 5}),
    "slippery": ("VLM/FrozenLake-v0", {"is_slippery": True, "frozen_probability": 0.6}),
    "fixed": ("VLM/FrozenLake-v0", {"desc": ("SFFF", "FHFH", "FFFH", "HFFG")}),
}


def discrete(name: str, **kwargs: Any) -> gym.vector.VectorEnv[Any, Any, Any]:
    env_id, its_own = WORLDS[name]
    return gym.make_vec(env_id, num_envs=NUM_ENVS, action_mode="discrete", cell_px=8, **its_own, **kwargs)


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.sample(2)
def test_episodes_are_those_of_the_world_itself(name: str) -> None:
    budget = {"max_turns": 45, "max_solution_length": 12}
    env_id, its_own = WORLDS[name]
    numbers = discrete(name, max_actions_per_turn=1, **budget)
    words = world_vector(
        env_id, NUM_ENVS, cell_px=8, format_reward=0.0, prompt_format="no_think", max_actions_per_turn=1,
        **its_own, **budget,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    shown, _ = words.reset(seed=7)
    pictures, _ = numbers.reset(seed=7)
    over = np.zeros(NUM_ENVS, np.bool_)
    ends = np.zeros(3, np.int64)
    for _ in range(150):
        np.testing.assert_array_equal(pictures, np.stack([each["image"] for each in shown]))
        actions = rng.integers(0, 4, NUM_ENVS)
        pictures, rewards, terminated, truncated, infos = numbers.step(actions)
        if over.any():
            words.reset(options={"reset_mask": over})
        responses = [None if o else f"<answer>{ACTION_NAMES[a]}</answer>" for o, a in zip(over, actions, strict=True)]
        shown, *expected, theirs = words.step(responses)
        np.testing.assert_array_equal(rewards, expected[0])
        np.testing.assert_array_equal(terminated, expected[1] & ~over)
        np.testing.assert_array_equal(truncated, expected[2] & ~over)
        np.testing.assert_array_equal(infos["success"], theirs["success"] & ~over)
        over = terminated | truncated
        ends += [infos["success"].sum(), (terminated & ~infos["success"]).sum(), truncated.sum()]
    assert ends[0] and (ends[1] or name == "Sokoban") and (ends[2] or name != "Sokoban"), "every end must occur"


def test_it_is_a_vector_env_with_arrays() -> None:
    envs = discrete("FrozenLake", num_levels=3)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert envs.spec is not None and envs.spec.id == "VLM/FrozenLake-v0"
    assert envs.single_action_space == gym.spaces.Discrete(4)
    pictures, _ = envs.reset(seed=0)
    assert pictures in envs.observation_space and pictures.shape == (NUM_ENVS, 40, 40, 3)
    assert len({picture.tobytes() for picture in pictures}) == 3, "one picture a level, and no more levels"
    assert (envs.reset(seed=0)[0] == pictures).all()
    wrapped = RecordEpisodeStatistics(envs)
    wrapped.reset(seed=0)
    assert any("episode" in wrapped.step(envs.action_space.sample())[4] for _ in range(12))


def test_misuse_is_told() -> None:
    envs = discrete("Sokoban")
    with pytest.raises(EpisodeOverError, match="call reset"):
        envs.step(np.zeros(NUM_ENVS, np.int64))
    envs.reset(seed=0)
    for actions in (np.full(NUM_ENVS, 4), np.zeros(3, np.int64), "Up"):
        with pytest.raises(ConfigError, match="0 to 3"):
            envs.step(actions)
    with pytest.raises(ConfigError, match="no reset options"):
        envs.reset(options={"level": "P"})
    with pytest.raises(ConfigError, match="24 seeds"):
        envs.reset(seed=[1])
    with pytest.raises(ConfigError, match="needs obs_mode='image'"):
        discrete("Sokoban", obs_mode="text")
    with pytest.raises(ConfigError, match="lists no named actions"):
        gym.make_vec("VLM/SVG-v0", action_mode="discrete")
    with pytest.raises(ConfigError, match="num_levels"):
        gym.make_vec("VLM/Sokoban-v0", num_levels=3)
