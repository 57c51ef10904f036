"""Environments of one package, adapted: the contract, an episode played again, and worlds in other processes."""

import os
from importlib import metadata
from typing import Any

import numpy as np
import pytest

import vlm_envs
from vlm_envs.splits import split_seeds
from vlm_envs.testing.contract import check_world
from vlm_envs.vector.make_vec import world_vector

ENVS = {
    "minigrid": ("MiniGrid-DoorKey-5x5-v0", "MiniGrid-Empty-5x5-v0", "BabyAI-GoToLocal-v0"),
    "gymnasium[toy-text]": ("FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1"),
    "gymnasium[classic-control]": ("CartPole-v1", "MountainCarContinuous-v0", "Acrobot-v1", "Pendulum-v1"),
    "ale-py": ("ale_py:ALE/Pong-v5",),
    "miniworld": ("MiniWorld-OneRoom-v0",),
    "gymnasium[mujoco]": ("Ant-v5", "InvertedPendulum-v5"),
}
ONE_START = {"MiniGrid-Empty-5x5-v0", "FrozenLake-v1", "CliffWalking-v1", "ale_py:ALE/Pong-v5"}
"""Environments whose first observation does not depend on the seed."""

PACKAGE = os.environ.get("ADAPTED_PACKAGE", "")
pytestmark = [
    pytest.mark.skipif(PACKAGE not in ENVS, reason="make test-adapters names the package that is installed"),
    pytest.mark.parametrize("env", ENVS.get(PACKAGE, ())),
]


def made(env: str) -> Any:
    """Returns an adapted world without wrappers."""
    return vlm_envs.make(f"adapt:{env}", disable_env_checker=True).unwrapped


def episode(world: Any, seed: int, responses: list[str]) -> list[tuple[str, float, str, bytes]]:
    """Plays some turns of an episode; draws the responses at random where there are none yet."""
    observation, info = world.reset(seed=seed)
    rng, is_drawn, over = np.random.default_rng(seed), not responses, False
    seen = [(observation["text"], 0.0, info["state_hash"], observation["image"].tobytes())]
    while not over and len(seen) <= 4:
        if is_drawn:
            responses.append(world.write_response([world.task.sample_action(world.state, rng) for _ in range(5)]))
        observation, reward, terminated, truncated, info = world.step(responses[len(seen) - 1])
        seen.append((observation["text"], reward, info["state_hash"], observation["image"].tobytes()))
        over = terminated or truncated
    return seen


def test_the_contract_is_kept(env):
    print(env, *(f"{name} {metadata.version(name)}" for name in (PACKAGE.partition("[")[0], "gymnasium", "numpy")))
    results = check_world(vlm_envs.registration.registered_name(f"adapt:{env}"), max_turns=4)
    skipped = {result.name for result in results if result.skipped}
    expected = {"oracle_is_maximal", "plans_are_shortest", "action_limit_is_kept"} | (
        {"splits_are_disjoint"} if env in ONE_START else set()
    )
    assert skipped == expected


def test_an_episode_is_played_again_to_the_same_hashes(env):
    world = made(env)
    responses: tuple[list[str], list[str]] = ([], [])
    pairs = [*zip(split_seeds("test", 2), responses, strict=True)]
    first = [episode(world, *pair) for pair in pairs]
    assert min(map(len, first)) > 1
    assert [episode(world, *pair) for pair in pairs] == first  # in the same world, after other episodes
    assert [episode(made(env), *pair) for pair in pairs] == first


def test_workers_in_processes_show_the_same(env):
    shown = []
    for settings in ({}, {"workers": "process", "num_workers": 1}):
        worlds = world_vector(f"adapt:{env}", 2, split="val", **settings)
        world = made(env)
        world.reset(seed=0)
        response = world.write_response([world.task.sample_action(world.state, np.random.default_rng(0))])
        first, _ = worlds.reset(seed=[*split_seeds("val", 2)])
        later = worlds.step([response] * 2)[0]
        shown.append([(seen["text"], seen["image"].tobytes()) for seen in (*first, *later)])
        worlds.close()
    assert shown[0] == shown[1]
