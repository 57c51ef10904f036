"""Plans on paper, from tidy and from spoilt tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.vlm_envs.worlds.primitive_skill.skill_tables import ALIGN, DRAWER, ONE_CUBE, PLACE, STACK, cube, holding
from vlm_envs.worlds.primitive_skill.skill_planner import plan, suboptimal_plan
from vlm_envs.worlds.primitive_skill.skill_state import Drawer, Goal, GoalKind, PrimitiveSkillState


def written(state: PrimitiveSkillState) -> list[str] | None:
    steps = plan(state)
    return None if steps is None else [str(step) for step in steps]


def test_place_picks_and_places() -> None:
    assert written(PLACE) == ["pick(-60,-120,20)", "place(80,-100,40)", "pick(-47,95,20)", "place(80,100,40)"]


def test_stack_leaves_the_tower_for_last() -> None:
    assert written(STACK) == ["pick(-60,-160,20)", "place(80,-100,40)", "pick(0,-20,20)", "place(-20,150,80)"]


def test_the_drawer_is_opened_filled_and_shut() -> None:
    assert written(DRAWER) == [
        "push(-260,-90,40,-130,-90,40)",
        "pick(-175,80,20)",
        "place(-285,-90,46)",
        "push(-130,-90,40,-260,-90,40)",
    ]
    filled = replace(DRAWER, drawer=Drawer(y_mm=-90, open_m=0.05), cubes=(cube("blue", -365, -90, 26), DRAWER.cubes[1]))
    assert written(filled) == ["push(-210,-90,40,-260,-90,40)"]


def test_align_pushes() -> None:
    assert written(ALIGN) == [
        "push(90,-120,20,0,-120,20)",
        "push(-60,0,20,0,0,20)",
        "push(70,130,20,0,130,20)",
    ]


def test_align_carries_what_it_cannot_push() -> None:
    steps = written(replace(ALIGN, cubes=(cube("red", 140, -120), *ALIGN.cubes[1:])))
    assert steps is not None and steps[0] == "pick(140,-120,20)" and steps[1].startswith("place(0,")


def test_the_held_cube_is_used_first() -> None:
    assert written(replace(PLACE, held=1)) == ["place(80,100,40)", "pick(-60,-120,20)", "place(80,-100,40)"]


def test_a_cube_that_is_in_the_way_is_taken_away() -> None:
    covered = replace(PLACE, cubes=(*PLACE.cubes, cube("blue", 80, -95)))
    steps = written(covered)
    assert steps is not None and len(steps) == 6 and steps[0] == "pick(80,-95,20)"
    on_top = replace(PLACE, cubes=(*PLACE.cubes, cube("blue", -60, -120, 60)))
    steps = written(on_top)
    assert steps is not None and len(steps) == 6 and steps[0] == "pick(-60,-120,60)"


@pytest.mark.parametrize("lost", [cube("red", 200, 0), cube("red", 0, 0, -900)])
def test_there_is_no_plan_for_what_is_out_of_reach(lost: object) -> None:
    assert written(replace(PLACE, cubes=(lost, PLACE.cubes[1]))) is None


def test_a_solved_table_needs_nothing() -> None:
    assert written(replace(PLACE, cubes=(cube("red", 80, -100), cube("green", 80, 100)))) == []


CROSSED = replace(
    PLACE,
    goals=(Goal(kind=GoalKind.ON_TARGET, cube=0, where=1), Goal(kind=GoalKind.ON_TARGET, cube=1, where=0)),
)
"""Each cube stands beside the target of the other."""


def test_the_suboptimal_plan_takes_cubes_to_the_nearer_targets() -> None:
    assert suboptimal_plan(PLACE) == plan(PLACE)
    steps = suboptimal_plan(CROSSED)
    assert steps is not None and steps != plan(CROSSED)
    assert [*map(str, steps)] == ["pick(-60,-120,20)", "place(80,-100,40)", "pick(-47,95,20)", "place(80,100,40)"]
    assert [*map(str, suboptimal_plan(ONE_CUBE) or ())] == ["pick(-60,-120,20)", "place(80,-100,40)"]
    assert [*map(str, plan(ONE_CUBE) or ())] == ["pick(-60,-120,20)", "place(80,100,40)"]
    steps = suboptimal_plan(holding(CROSSED, 1))
    assert steps is not None and [*map(str, steps[:2])] == ["place(80,100,40)", "pick(-60,-120,20)"]


def test_the_suboptimal_plan_mends_what_it_spoilt_and_is_none_out_of_reach() -> None:
    spoilt = replace(CROSSED, cubes=(cube("red", 80, -100), cube("green", 80, 100)))
    assert suboptimal_plan(spoilt) == plan(spoilt) and plan(spoilt)
    solved = replace(CROSSED, cubes=(cube("red", 80, 100), cube("green", 80, -100)))
    assert suboptimal_plan(solved) == ()
    assert suboptimal_plan(replace(PLACE, cubes=(cube("red", 200, 0), PLACE.cubes[1]))) is None


@pytest.mark.parametrize("table", [STACK, DRAWER, ALIGN], ids=lambda table: table.task)
def test_where_a_cube_belongs_on_the_nearer_target_or_on_none_the_suboptimal_plan_is_the_plan(
    table: PrimitiveSkillState,
) -> None:
    assert suboptimal_plan(table) == plan(table)
