"""Stages of the tasks, and states as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.vlm_envs.worlds.primitive_skill.skill_tables import ALIGN, DRAWER, ONE_CUBE, PLACE, STACK, TABLES, cube
from vlm_envs.errors import ConfigError
from vlm_envs.worlds.primitive_skill import skill_state
from vlm_envs.worlds.primitive_skill.primitive_skill_world import PrimitiveSkillTask
from vlm_envs.worlds.primitive_skill.skill_planner import parse_primitive
from vlm_envs.worlds.primitive_skill.skill_state import (
    NUM_STAGES,
    Drawer,
    PrimitiveSkillState,
    instruction,
    is_solved,
    reached_stage,
)

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
    assert reached_stage(state) == NUM_STAGES[state.task] - 1


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


def test_structured_data_is_that_of_the_paper() -> None:
    assert skill_state.structured(PLACE) == {
        "red_cube_position": (-60, -120, 20),
        "green_cube_position": (-47, 95, 20),
        "left_target_position": (80, -100, 0),
        "right_target_position": (80, 100, 0),
        "held_cube": "none",
    }


def test_texts_name_what_is_held_and_how_far_the_drawer_is_open() -> None:
    state = replace(DRAWER, held=0, drawer=Drawer(y_mm=-90, open_m=0.1))
    assert skill_state.describe(state, "natural_language") == (
        "the blue cube is at (-175, 80, 20). the purple cube is at (-290, 150, 20). "
        "the drawer handle is at (-160, -90, 40). the drawer inside is at (-315, -90, 26). "
        "the drawer is open by 100 mm. the gripper holds the blue cube."
    )
    assert skill_state.describe(state, "structured").endswith("held_cube: blue_cube, drawer_open_mm: 100}")


def test_the_hint_tells_positions_without_names() -> None:
    assert skill_state.hint(PLACE) == "Object positions: [(-60,-120,20), (-47,95,20), (80,-100,0), (80,100,0)]"
    assert not any(word in skill_state.hint(DRAWER) for word in ("blue", "purple", "cube"))


def test_there_is_no_symbolic_representation() -> None:
    with pytest.raises(ConfigError, match="representation must be one of"):
        skill_state.describe(PLACE, "symbolic")


@pytest.mark.parametrize(
    ("state", "actions", "reasons"),
    [
        (
            PLACE,
            ("pick(-60,-120,20)", "place(80,-100,40)"),
            "pick(-60,-120,20): take the red cube; place(80,-100,40): put the red cube at the left target",
        ),
        (replace(PLACE, held=1), ("place(80,100,40)",), "place(80,100,40): put the green cube at the right target"),
        (PLACE, ("pick(0,0,20)",), "pick(0,0,20): nothing is there"),
        # The held cube is nearest to where it is put, and is not what it is put on
        (replace(STACK, held=0), ("place(-10,60,60)",), "place(-10,60,60): put the red cube at the green cube"),
        (DRAWER, ("push(-260,-90,40,-130,-90,40)",), "push(-260,-90,40,-130,-90,40): push the drawer handle"),
    ],
)
def test_an_experts_reasons_are_what_it_means_to_do(state, actions, reasons) -> None:
    def never(num_actions: int) -> PrimitiveSkillState:
        raise AssertionError("nothing needs to be simulated")

    parsed = [parse_primitive(text) for text in actions]
    task = PrimitiveSkillTask(task=state.task)
    assert task.reasoning(state, [each for each in parsed if each is not None], never) == reasons


def test_the_instruction_names_goals_and_limits() -> None:
    for phrasing in range(4):
        text = instruction(replace(PLACE, phrasing=phrasing))
        assert all(name in text for name in ("red cube", "left target", "green cube", "right target"))
        assert "x (-100, 150), y (-200, 200), z (10, 200)" in text
