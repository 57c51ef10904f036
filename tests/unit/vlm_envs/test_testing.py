"""`check_world`: a sound world passes, and each broken one fails the clause it breaks."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.vlm_envs.corridor import (
    CorridorDynamics,
    CorridorState,
    CorridorTask,
    CorridorView,
    CorridorWorld,
)
from vlm_envs.errors import ConfigError, WorldContractError
from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.testing.checks import CHECKS
from vlm_envs.testing.contract import check_world
from vlm_envs.world import World

PROCESS_CHECK = "same_seed_gives_the_same_bytes"


class GlobalRandomDynamics(CorridorDynamics):
    def generate(self, rng: np.random.Generator, split: str) -> CorridorState:
        return super().generate(np.random.default_rng(), split)


class OneSplitDynamics(CorridorDynamics):
    def generate(self, rng: np.random.Generator, split: str) -> CorridorState:
        return CorridorState(player=0, goal=int(rng.integers(2, 6)))


class LongPlanDynamics(CorridorDynamics):
    def plan(self, state: CorridorState) -> tuple[int, ...]:
        return () if self.is_success(state) else (-1, 1, *super().plan(state))


class ForgetfulDynamics(CorridorDynamics):
    def load(self, level: str) -> CorridorState:
        return CorridorState(player=0, goal=super().load(level).goal)


class SharedBufferView(CorridorView):
    def __init__(self) -> None:
        self.buffer = np.zeros((2, 80, 3), np.uint8)

    def image(self, state: CorridorState) -> npt.NDArray[np.uint8]:
        self.buffer[:] = super().image(state)
        return self.buffer


class WrongShapeView(CorridorView):
    def image(self, state: CorridorState) -> npt.NDArray[np.uint8]:
        return np.zeros((2, 2, 3), np.uint8)


class SetView(CorridorView):
    """Its state depends on the order of a set of strings, which differs between processes."""

    def structured(self, state: CorridorState) -> dict[str, Any]:
        return {"cells": list({f"cell{number}" for number in range(20)})}


class GenerousTask(CorridorTask):
    def best_return(self, state: CorridorState, num_actions: int) -> float:
        return 11.0 - 0.1 * num_actions


class UnpicklableTask(CorridorTask):
    grammar = ActionGrammar(parse=lambda text: {"left": -1, "right": 1}.get(text.lower()), expected="Left or Right")

    def __init__(self) -> None:
        self.stateful = (number for number in itertools.count())


class IdleIsFreeTask(CorridorTask):
    def noop_terms(self) -> dict[str, float]:
        return {"step": -0.1 if not hasattr(self, "paid") and not setattr(self, "paid", 1) else 0.0}


class LeakyWorld(CorridorWorld):
    def _observe(self, text: str) -> Any:
        return super()._observe(f"{text}\nHint: (0, {self.state.goal})")


class NoTextWorld(CorridorWorld):
    def _observe(self, text: str) -> Any:
        observation = super()._observe("")
        return {**observation, "text": ""}


class UnpaidWorld(CorridorWorld):
    def step(self, action: str) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, reward + 0.01, *rest


class TerseWorld(CorridorWorld):
    def _info(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        info = super()._info(*args, **kwargs)
        del info["state_text"]
        return info


class CrashingWorld(CorridorWorld):
    def step(self, action: str) -> Any:
        action.encode("utf-8")
        return super().step(action)


def build(
    dynamics: type[CorridorDynamics] = CorridorDynamics,
    view: type[CorridorView] = CorridorView,
    task: type[CorridorTask] = CorridorTask,
    **kwargs: Any,
) -> World[CorridorState, int]:
    world = World(dynamics(), view(), task(), **kwargs)
    world.set_picture_shape((2, 80, 3))
    return world


BROKEN = {
    "global random generator": (functools.partial(build, GlobalRandomDynamics), "is_a_gymnasium_env"),
    "one content for all splits": (functools.partial(build, OneSplitDynamics), "splits_are_disjoint"),
    "plan that is not optimal": (functools.partial(build, LongPlanDynamics), "oracle_is_maximal"),
    "level that loads differently": (functools.partial(build, ForgetfulDynamics), "levels_round_trip"),
    "reused picture": (functools.partial(build, view=SharedBufferView), "is_a_gymnasium_env"),
    "picture of another shape": (
        functools.partial(build, view=WrongShapeView),
        "observations_are_in_their_space",
    ),
    "wrong best_return": (functools.partial(build, task=GenerousTask), "oracle_is_maximal"),
    "unpicklable": (functools.partial(build, task=UnpicklableTask), "copies_continue_identically"),
    "free idling": (functools.partial(build, task=IdleIsFreeTask), "noop_earns_the_floor"),
    "leaked goal": (LeakyWorld, "ground_truth_is_where_it_belongs"),
    "unexplained error": (NoTextWorld, "bad_responses_are_data"),
    "unnamed reward": (UnpaidWorld, "reward_terms_sum_to_the_reward"),
    "missing info": (TerseWorld, "info_is_complete"),
    "surrogates raise": (CrashingWorld, "bad_responses_are_data"),
}


@pytest.fixture
def register() -> Any:
    env_id = "Test/Corridor-v0"

    def _register(entry_point: Any) -> str:
        gym.register(env_id, entry_point=entry_point)
        return env_id

    yield _register
    gym.registry.pop(env_id, None)


def test_a_sound_world_passes_every_check(register: Any) -> None:
    env_id = register("tests.unit.vlm_envs.corridor:CorridorWorld")
    results = check_world(env_id)
    assert [result.name for result in results] == [check.__name__ for check in CHECKS]
    assert not [result for result in results if result.skipped]
    assert all(result.clause.endswith(".") for result in results)


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_world_fails_the_clause_it_breaks(fault: str, register: Any) -> None:
    entry_point, clause = BROKEN[fault]
    with pytest.raises(WorldContractError, match=f"- {clause}: "):
        check_world(register(entry_point), skip=(PROCESS_CHECK,))


def test_a_world_that_depends_on_the_hash_seed_fails(register: Any) -> None:
    others = [check.__name__ for check in CHECKS if check.__name__ != PROCESS_CHECK]
    env_id = register("tests.unit.vlm_envs.test_testing:set_world")
    with pytest.raises(WorldContractError, match=f"- {PROCESS_CHECK}: .*another process"):
        check_world(env_id, skip=others)


def set_world(**kwargs: Any) -> World[CorridorState, int]:
    return build(view=SetView, **kwargs)


def test_checks_that_say_nothing_about_a_world_are_reported_as_skipped(register: Any) -> None:
    results = {result.name: result for result in check_world(register(CorridorWorld), max_actions_per_turn=6)}
    assert results[PROCESS_CHECK].skipped == "another process can make a world only from a string entry point"


def test_unknown_check_name() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'splits_are_disjoint'"):
        check_world("VLM/FrozenLake-v0", skip=("splits_disjoint",))
