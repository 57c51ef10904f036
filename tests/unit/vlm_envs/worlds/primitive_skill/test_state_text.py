"""The table as plain data, in words, and as the prompt tells it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.vlm_envs.worlds.primitive_skill.tables import DRAWER, PLACE, STACK
from vlm_envs.errors import ConfigError
from vlm_envs.worlds.primitive_skill import skill_state
from vlm_envs.worlds.primitive_skill.primitive_skill_world import PrimitiveSkillTask
from vlm_envs.worlds.primitive_skill.skill_planner import parse_primitive
from vlm_envs.worlds.primitive_skill.skill_state import Drawer, PrimitiveSkillState, instruction


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
