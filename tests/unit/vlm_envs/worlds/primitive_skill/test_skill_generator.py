"""Random tables."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.unit.vlm_envs.worlds.primitive_skill.skill_tables import TABLES
from vlm_envs.errors import ConfigError
from vlm_envs.registration import make
from vlm_envs.splits import SPLITS, split_of
from vlm_envs.worlds.primitive_skill.skill_levels import APART_MM, generate, level_key, level_text, parse_level
from vlm_envs.worlds.primitive_skill.skill_planner import plan
from vlm_envs.worlds.primitive_skill.skill_state import is_in_workspace, point_mm, request


@pytest.mark.parametrize("task", TABLES)
@pytest.mark.parametrize("split", SPLITS)
def test_tables_are_in_their_split_apart_and_solvable_within_the_budget(task: str, split: str) -> None:
    num_actions = set()
    for seed in range(60):
        state = generate(np.random.default_rng(seed), split, task)
        assert split_of(level_key(state)) == split
        assert parse_level(level_text(state)) == state
        places = [point_mm(cube.position) for cube in state.cubes]
        assert all(is_in_workspace(place, task) for place in places)
        assert all(math.dist(a, b) >= APART_MM for a, b in itertools.combinations(places, 2))
        steps = plan(state)
        assert steps and all(step.is_within(task) for step in steps)
        num_actions.add(len(steps))
    assert num_actions == {3 if task == "align" else 4}


def test_equal_seeds_give_equal_tables_and_others_differ() -> None:
    tables = [generate(np.random.default_rng(seed), "train", "place") for seed in (1, 1, 2)]
    assert tables[0] == tables[1] != tables[2]


def test_the_order_of_positions_gives_no_color_away() -> None:
    first = {generate(np.random.default_rng(seed), "train", "place").cubes[0].color for seed in range(60)}
    assert len(first) == 5


@pytest.mark.parametrize(
    ("task", "grid_mm"),
    [("place", 20), ("place", 50), ("stack", 20), ("stack", 50), ("drawer", 20), ("drawer", 50), ("align", 10)],
)
def test_things_stand_on_the_grid_that_is_asked_for(task: str, grid_mm: int) -> None:
    for seed in range(20):
        state = generate(np.random.default_rng(seed), "train", task, grid_mm=grid_mm)
        things = [point_mm(cube.position)[:2] for cube in state.cubes] + [
            target.position_mm for target in state.targets
        ]
        assert all(coordinate % grid_mm == 0 for thing in things for coordinate in thing)
        assert plan(state) is not None


@pytest.mark.parametrize(("task", "grid_mm"), [("place", 0), ("place", 3), ("place", 40), ("align", 20), ("align", 50)])
def test_a_grid_that_does_not_fit_is_refused(task: str, grid_mm: int) -> None:
    with pytest.raises(ConfigError, match="grid_mm"):
        make("VLM/PrimitiveSkill-v0", task=task, grid_mm=grid_mm)


def test_the_placing_task_may_have_no_other_cubes() -> None:
    for seed in range(20):
        state = generate(np.random.default_rng(seed), "train", "place", num_cubes=2)
        assert {goal.cube for goal in state.goals} == {0, 1} and len(state.cubes) == 2
        assert parse_level(level_text(state)) == state
        assert len(plan(state) or ()) == 4


def test_the_placing_task_may_have_one_cube_for_one_of_two_targets() -> None:
    asked = set()
    for seed in range(60):
        state = generate(np.random.default_rng(seed), "train", "place", num_cubes=1)
        assert len(state.cubes) == len(state.goals) == 1 and len(state.targets) == 2
        assert parse_level(level_text(state)) == state
        assert len(plan(state) or ()) == 2
        sentence = request(state)
        assert state.cubes[0].name in sentence and state.targets[state.goals[0].where].name in sentence
        assert state.targets[1 - state.goals[0].where].name not in sentence
        asked.add((state.phrasing, state.goals[0].where))
    assert len(asked) == 8, "all wordings, both targets"


@pytest.mark.parametrize(("task", "num_cubes"), [("place", 4), ("place", 2.0), ("stack", 2), ("drawer", 3)])
def test_a_number_of_cubes_that_a_task_has_not_is_refused(task: str, num_cubes: int) -> None:
    with pytest.raises(ConfigError, match="num_cubes"):
        make("VLM/PrimitiveSkill-v0", task=task, num_cubes=num_cubes)
