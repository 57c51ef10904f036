"""Every registered world plays its episodes to the end in Gymnasium's own vector environments, and its `info` fits."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import vlm_envs
from tests.contract.test_worlds import ASKING, missing_engine
from vlm_envs import registration
from vlm_envs.splits import split_seeds

NUM_ENVS = 2
_CHEAP: dict[str, dict[str, Any]] = {
    **{env_id: {**settings, "max_turns": 2} for env_id, (_, settings) in ASKING.items()},
    "VLM/DocQA-v0": {"num_pages": 5, "max_turns": 2},
    "VLM/RewardJudging-v0": {**ASKING["VLM/RewardJudging-v0"][1], "tracks": "fine_grained", "max_turns": 2},
    "VLM/PrimitiveSkill-v0": {"resolution": 32, "max_turns": 2},
    "VLM/Navigation-v0": {"resolution": 32},
}
WORLDS = [env_id for env_id in vlm_envs.env_ids() if env_id in registration.WORLDS]
_NUMBER = numbers.Number | np.bool_


@pytest.fixture(autouse=True)
def _needs_its_engine(env_id: str) -> None:
    if reason := missing_engine(env_id):
        pytest.skip(reason)


@cache
def responses_of(env_id: str, seed: int) -> tuple[str, ...]:
    """Returns an episode's responses: by the planner in even seeds, at random in odd ones, one that is unreadable."""
    world = vlm_envs.make(env_id, disable_env_checker=True, **_CHEAP.get(env_id, {})).unwrapped
    rng, said, over = np.random.default_rng(seed), [], False
    world.reset(seed=seed)
    plan = list(world.dynamics.plan(world.state) or ()) if seed % 2 == 0 else []
    while not over:
        size = world.max_actions_per_turn
        actions, plan = plan[:size], plan[size:]
        if not actions and said:
            actions = [world.task.sample_action(world.state, rng) for _ in range(size)]
        said.append(world.write_response(actions) if actions else "unreadable")
        *_, terminated, truncated, _ = world.step(said[-1])
        over = terminated or truncated
    world.close()
    return tuple(said)


def leaves(info: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in info.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


@pytest.mark.parametrize("env_id", WORLDS)
def test_a_number_of_info_has_one_type_and_is_never_none(env_id: str) -> None:
    """Gymnasium makes arrays of the first type that comes: 2.5 would become 2, and None would raise."""
    types: dict[tuple[str, ...], set[type]] = {}
    world = vlm_envs.make(env_id, disable_env_checker=True, **_CHEAP.get(env_id, {}))
    for seed in split_seeds("train", NUM_ENVS):
        infos = [world.reset(seed=seed)[1], *(world.step(said)[-1] for said in responses_of(env_id, seed))]
        for info in infos:
            for path, value in leaves(info):
                types.setdefault(path, set()).add(type(value))
    world.close()
    mixed = {path: found for path, found in types.items() if len(found) > 1 and any(map(_is_number, found))}
    assert not mixed


def _is_number(type_: type) -> bool:
    return issubclass(type_, _NUMBER)


@pytest.mark.parametrize("env_id", WORLDS)
def test_gymnasiums_sync_vector_plays_to_the_end(env_id: str) -> None:
    play_to_the_end(env_id, "sync")


@pytest.mark.soak
@pytest.mark.parametrize("env_id", WORLDS)
def test_gymnasiums_async_vector_plays_to_the_end(env_id: str) -> None:
    play_to_the_end(env_id, "async", vector_kwargs={"shared_memory": False})


def play_to_the_end(env_id: str, mode: str, **kwargs: Any) -> None:
    """Plays two episodes side by side, one that ends well and one that does not, and what follows their ends."""
    envs = gym.make_vec(env_id, NUM_ENVS, vectorization_mode=mode, **_CHEAP.get(env_id, {}), **kwargs)
    try:
        seeds = list(split_seeds("train", NUM_ENVS))
        envs.reset(seed=seeds)
        said = [list(responses_of(env_id, seed)) for seed in seeds]
        ended = np.zeros(NUM_ENVS, bool)
        while not ended.all():
            texts = tuple(lines.pop(0) if lines else "unreadable" for lines in said)
            _, _, terminated, truncated, infos = envs.step(texts)
            ended |= terminated | truncated
            assert infos["success"].dtype == bool
        envs.step(("unreadable",) * NUM_ENVS)
    finally:
        envs.close()
