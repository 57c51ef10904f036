"""What other vector environments and libraries meet: one clear sentence, or something that works."""

from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import FilterObservation, TransformAction

import vlm_envs
from vlm_envs.errors import ConfigError
from vlm_envs.spaces import FreeText, Pictures
from vlm_envs.vector.env import VectorWorld

LAKE = "VLM/FrozenLake-v0"
MOVES = ("Up", "Down", "Left", "Right")


@pytest.mark.parametrize("env_id", [LAKE, "VLM/ZoomQA-v0"])
def test_gymnasiums_processes_with_shared_memory_say_what_to_do(env_id):
    with pytest.raises(ConfigError) as caught:
        gym.make_vec(env_id, 2, vectorization_mode="async")
    assert "vector_kwargs={'shared_memory': False}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_advice_works():
    envs = gym.make_vec(LAKE, 2, vectorization_mode="async", vector_kwargs={"shared_memory": False})
    try:
        observations, _ = envs.reset(seed=0)
        assert observations["image"].shape == (2, 112, 112, 3)
        assert all(text.startswith("Game: FrozenLake") for text in observations["text"])
        _, rewards, *_ = envs.step(("<answer>Up</answer>", "no tags"))
        assert rewards.tolist()[1] == pytest.approx(-0.1)
    finally:
        envs.close()
    for advised in ({}, {"workers": "process"}):
        own = gym.make_vec(LAKE, 2, **advised)
        assert isinstance(own, VectorWorld)
        own.close()


def test_gymnasiums_other_modes_take_the_spaces():
    envs = gym.make_vec(LAKE, 2, vectorization_mode="sync")
    observations, _ = envs.reset(seed=0)
    assert isinstance(observations["text"], tuple)


@pytest.mark.parametrize("space", [FreeText(), Pictures()])
def test_whoever_needs_an_array_is_told_why_there_is_none(space):
    """As stable-baselines3's `DummyVecEnv` does: `np.zeros((num_envs, *tuple(space.shape)))`."""
    for need in (tuple, len, lambda shape: np.zeros((2, *shape))):
        with pytest.raises(ConfigError, match="such as stable-baselines3, take these worlds only through a wrapper"):
            need(space.shape)
    assert not space.shape
    assert pickle.loads(pickle.dumps(space)) == copy.deepcopy(space) == space


def pixels_and_numbers(env):
    """The wrapper of docs/reference.md."""
    env = FilterObservation(env, ["image"])
    return TransformAction(env, lambda move: f"<answer>{MOVES[move]}</answer>", gym.spaces.Discrete(4))


def test_the_wrapper_of_the_reference_gives_arrays_and_numbers_only():
    env = pixels_and_numbers(vlm_envs.make(LAKE, prompt_format="no_think", max_actions_per_turn=1, max_turns=20))
    assert env.observation_space == gym.spaces.Dict(image=gym.spaces.Box(0, 255, (112, 112, 3), np.uint8))
    check_env(env, skip_render_check=True)
    _, info = env.reset(seed=3)
    *_, info = env.step(3)
    assert info["actions"] == ("Right",)


def test_stable_baselines3_takes_it():
    stable_baselines3 = pytest.importorskip(
        "stable_baselines3", reason="needs stable-baselines3, which is not required"
    )
    env = pixels_and_numbers(vlm_envs.make(LAKE, prompt_format="no_think", max_actions_per_turn=1, max_turns=20))
    stable_baselines3.PPO("MultiInputPolicy", env, n_steps=8, batch_size=8, device="cpu").learn(8)
    with pytest.raises(ConfigError, match="stable-baselines3"):
        stable_baselines3.PPO("MultiInputPolicy", vlm_envs.make(LAKE))
