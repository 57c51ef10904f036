"""Goals, stages and rewards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.vlm_envs.worlds.primitive_skill.tables import ALIGN, DRAWER, ONE_CUBE, PLACE, STACK, TABLES, cube
from vlm_envs.worlds.primitive_skill.primitive_skill_world import PrimitiveSkillTask
from vlm_envs.worlds.primitive_skill.skill_state import STAGES, Drawer, PrimitiveSkillState, is_solved, reached_stage

RED_PLACED = replace(PLACE, cubes=(cube("red", 83, -102), PLACE.cubes[1]))
OPEN = replace(DRAWER, drawer=Drawer(y_mm=-90, open_m=0.13))
INSIDE = replace(OPEN, cubes=(cube("blue", -285, -90, 26), DRAWER.cubes[1]))
TOWER = replace(STACK, cubes=(cube("red", -20, 150, 60), *STACK.cubes[1:]))


@pytest.mark.parametrize(
    ("state", "stage"),
    [
        *((table, -1) for table in TABLES.values()),
        (replace(PLACE, held=0), 0),
        (RED_PLACED, 1),
        (replace(RED_PLACED, held=1), 2),
        (replace(RED_PLACED, held=0), 0),
        (replace(ONE_CUBE, held=0), 0),
        (replace(ONE_CUBE, cubes=(cube("red", 80, -100),)), -1),
        (TOWER, 1),
        (replace(STACK, held=1), -1),
        (OPEN, 0),
        (replace(OPEN, held=0), 1),
        (replace(DRAWER, held=0), -1),
        (INSIDE, 2),
        (replace(ALIGN, cubes=(cube("red", 10, -120), *ALIGN.cubes[1:])), 0),
        (replace(ALIGN, cubes=(cube("red", 11, -120), *ALIGN.cubes[1:])), -1),
        (replace(ALIGN, cubes=(cube("red", 0, -120, 60), *ALIGN.cubes[1:])), -1),
    ],
)
def test_stages(state: PrimitiveSkillState, stage: int) -> None:
    assert reached_stage(state) == stage
    assert not is_solved(state)


@pytest.mark.parametrize(
    "state",
    [
        replace(RED_PLACED, cubes=(RED_PLACED.cubes[0], cube("green", 80, 119))),
        replace(TOWER, cubes=(*TOWER.cubes[:2], cube("yellow", 80, -100))),
        replace(DRAWER, cubes=(cube("blue", -415, -90, 26), DRAWER.cubes[1])),
        replace(ALIGN, cubes=(cube("red", 10, -120), cube("green", -10, 0), cube("yellow", 0, 130))),
    ],
)
def test_solved_tables(state: PrimitiveSkillState) -> None:
    assert is_solved(state)
    assert reached_stage(state) == max(STAGES[state.task])


@pytest.mark.parametrize(
    ("task", "num_actions", "expected"),
    # 10 at the end, 2 + 4 (+ 6) for the stages, -0.1 for every action but the last. Source: VAGEN, Table 19
    [("place", 4, 21.7), ("stack", 4, 21.7), ("drawer", 4, 21.7), ("align", 3, 15.8)],
)
def test_the_best_return(task: str, num_actions: int, expected: float) -> None:
    assert PrimitiveSkillTask(task=task).best_return(TABLES[task], num_actions) == pytest.approx(expected)


def test_a_stage_is_paid_once() -> None:
    task = PrimitiveSkillTask(task="place")
    held = replace(PLACE, held=0, highest_stage=0)
    assert task.reward_terms(PLACE, held, success=False) == {"step": -0.1, "stage": 2.0}
    assert task.reward_terms(held, replace(PLACE, highest_stage=0), success=False) == {"step": -0.1}
    assert task.reward_terms(held, replace(held, highest_stage=2), success=False) == {"step": -0.1, "stage": 6.0}
    assert task.reward_terms(held, held, success=True) == {"success": 10.0}


def test_with_one_cube_there_is_one_stage_on_the_way() -> None:
    solved = replace(ONE_CUBE, cubes=(cube("red", 80, 100),))
    assert is_solved(solved) and reached_stage(solved) == 0
    # Picking it up pays 2, less 0.1, and placing it 10
    assert PrimitiveSkillTask(task="place").best_return(ONE_CUBE, 2) == pytest.approx(11.9)
