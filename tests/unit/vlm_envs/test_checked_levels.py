"""`check` draws levels of each split, within limits, of the declared shape."""

from __future__ import annotations

import functools
import re
from typing import Any
from unittest.mock import Mock

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
from tests.unit.vlm_envs.test_testing import build, only
from vlm_envs.cli.commands import main
from vlm_envs.errors import ConfigError, WorldContractError
from vlm_envs.splits import SPLITS
from vlm_envs.testing.contract import check_world, run_checks
from vlm_envs.testing.world_under_test import Planner, WorldUnderTest
from vlm_envs.world import World
from vlm_envs.worlds.frozen_lake import FrozenLakeView


class AnySplitDynamics(CorridorDynamics):
    """Ignores the split; its level space is so large that no level is drawn twice."""

    def generate(self, rng: np.random.Generator, split: str) -> CorridorState:
        player = int(rng.integers(10**9))
        return CorridorState(player=player, goal=player + 2)


class RemainderDynamics(AnySplitDynamics):
    """Splits levels by a rule of its own: the remainder of the player's cell."""

    def generate(self, rng: np.random.Generator, split: str) -> CorridorState:
        player = 3 * int(rng.integers(10**9)) + SPLITS.index(split)
        return CorridorState(player=player, goal=player + 2)

    def level_split(self, level: str) -> str:
        return SPLITS[self.load(level).player % 3]


class EndlessSearchDynamics(CorridorDynamics):
    """Raises what Ctrl-C raises during a search for a test level."""

    def generate(self, rng: np.random.Generator, split: str) -> CorridorState:
        if split == "test":
            raise KeyboardInterrupt
        return super().generate(rng, split)


class WrongShapeView(CorridorView):
    def image(self, state: CorridorState) -> npt.NDArray[np.uint8]:
        return np.zeros((2, 2, 3), np.uint8)


class UndeclaredWorld(World[CorridorState, int]):
    """Its constructor does not call `set_picture_shape`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(CorridorDynamics(), CorridorView(), CorridorTask(), **kwargs)


def test_levels_of_another_split_fail_although_no_level_occurs_twice(register: Any) -> None:
    with pytest.raises(WorldContractError, match=r"splits_are_disjoint: \d+ of 64 .* seed \d+ .* '(val|test)':\n\d+ "):
        check_world(register(functools.partial(build, AnySplitDynamics)), skip=only("splits_are_disjoint"))


def test_levels_may_be_split_by_a_rule_of_the_world(register: Any) -> None:
    check_world(register(functools.partial(build, RemainderDynamics)), skip=only("splits_are_disjoint"))


def test_a_plan_that_does_not_fit_names_the_limit(register: Any) -> None:
    env_id = register(CorridorWorld)
    for kwargs, needed in [
        ({"max_turns": 5, "max_actions_per_turn": 1}, "max_turns=6"),
        ({"max_turns": 1, "max_actions_per_turn": 5}, "max_turns=2"),
        ({"max_steps": 5}, "max_steps below 6"),
    ]:
        with pytest.raises(WorldContractError, match=rf"- oracle_is_maximal: \d+ of 64 .*{needed}\b"):
            check_world(env_id, skip=only("oracle_is_maximal"), **kwargs)
    check_world(env_id, skip=only("oracle_is_maximal"), max_turns=6, max_actions_per_turn=1, max_steps=6)


def test_every_level_drawn_must_fit_not_only_those_played_by_responses(register: Any) -> None:
    class MostlyShortDynamics(CorridorDynamics):
        """Few levels take six actions, and none of the first four does."""

        def generate(self, rng: np.random.Generator, split: str) -> CorridorState:
            state = super().generate(rng, split)
            is_long = abs(state.goal - state.player) == 6
            return state if not is_long or state.player % 3 == 0 else self.generate(rng, split)

    def num_long(num_seeds: int) -> int:
        world = build(MostlyShortDynamics)
        plans = [len(Planner().plan(world) or ()) for seed in range(num_seeds) if world.reset(seed=seed)]
        return sum(length == 6 for length in plans)

    num = num_long(64)
    assert num and not num_long(4)
    with pytest.raises(WorldContractError, match=rf"- oracle_is_maximal: {num} of 64 .*max_turns=6\b"):
        check_world(
            register(functools.partial(build, MostlyShortDynamics)),
            skip=only("oracle_is_maximal"),
            max_turns=5,
            max_actions_per_turn=1,
        )


def test_ctrl_c_names_the_clause_and_the_line_that_runs(register: Any, capsys: pytest.CaptureFixture[str]) -> None:
    env_id = register(functools.partial(build, EndlessSearchDynamics))
    assert main(["check", env_id]) == 130
    expected = r"splits_are_disjoint .*split 'test', seed 1500000000, .*test_checked_levels.py, line \d+"
    assert re.search(expected, capsys.readouterr().err)


def test_ctrl_c_before_the_first_check_names_the_level(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(FrozenLakeView, "image", Mock(side_effect=KeyboardInterrupt))
    assert main(["check", "VLM/FrozenLake-v0"]) == 130
    assert re.search(r"reset was interrupted: split 'train', seed 0$", capsys.readouterr().err.strip())


def test_ctrl_c_in_a_constructor_names_its_line(register: Any) -> None:
    def interrupted(**world_kwargs: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"making the world .*: .*test_checked_levels.py, line \d+"):
        check_world(register(interrupted))


def test_ctrl_c_in_a_shipped_world_names_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FrozenLakeView, "image", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt, match=r" was interrupted: split 'train', seed \d+$"):
        check_world("VLM/FrozenLake-v0")


@pytest.mark.parametrize(
    ("entry_point", "named"),
    [
        (UndeclaredWorld, ("UndeclaredWorld", "set_picture_shape((height, width, 3))")),
        (functools.partial(build, view=WrongShapeView), ("set_picture_shape((2, 80, 3))", "shape (2, 2, 3)")),
    ],
)
def test_a_shape_that_is_not_declared_is_one_error(entry_point: Any, named: tuple[str, ...], register: Any) -> None:
    failures = {result.failure for result in run_checks(WorldUnderTest(env_id=register(entry_point)))} - {None}
    assert len(failures) == 1
    message = failures.pop()
    assert all(part in message for part in named)
    with pytest.raises(ConfigError, match=r"set_picture_shape"):
        gym.make("Test/Corridor-v0").reset()


def test_one_image_is_not_several() -> None:
    world = World(CorridorDynamics(), CorridorView(), CorridorTask())
    world.set_picture_shape(None)
    with pytest.raises(ConfigError, match="several images"):
        world.reset(seed=0)


@pytest.mark.parametrize("as_given", [list, np.array])
def test_a_shape_may_be_any_sequence_of_three_numbers(as_given: Any) -> None:
    world = World(CorridorDynamics(), CorridorView(), CorridorTask())
    world.set_picture_shape(as_given((2, 80, 3)))
    assert world.reset(seed=0)[0]["image"].shape == (2, 80, 3)
