"""When a goal is met, when a task is solved, and the ordered stages on the way there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum

from vlm_envs.worlds.primitive_skill.geometry import CUBE_HALF_M
from vlm_envs.worlds.primitive_skill.state import Cube, Goal, GoalKind, PrimitiveSkillState

NEAR_M = 0.02
"""How far a cube's centre may be from the middle of its target, or of the cube below it, sideways."""
LEVEL_M = 0.008
"""How far its height may be from that of a cube that stands there."""
ALIGNED_MM = 10
"""How far the x of an aligned cube may be off. Source: VAGEN, Appendix B, prompt of the align task."""
DRAWER_SHUT_M, DRAWER_OPEN_M = 0.01, 0.1


class PlaceStage(IntEnum):
    """Stages of `place`, before it is solved; also those of `stack`."""

    FIRST_CUBE_HELD = 0
    FIRST_CUBE_PLACED = 1
    SECOND_CUBE_HELD = 2


class DrawerStage(IntEnum):
    """Stages of `drawer`, before it is solved."""

    DRAWER_OPEN = 0
    CUBE_HELD = 1
    CUBE_INSIDE = 2


class AlignStage(IntEnum):
    """Stages of `align`, before it is solved."""

    ONE_ALIGNED = 0
    TWO_ALIGNED = 1


STAGES: Mapping[str, type[IntEnum]] = {
    "place": PlaceStage,
    "stack": PlaceStage,
    "drawer": DrawerStage,
    "align": AlignStage,
}
"""The stages of each task, in order. The last goal is no stage: meeting it solves the task."""


def is_met(state: PrimitiveSkillState, goal: Goal) -> bool:
    """Returns whether a goal is met."""
    if state.held == goal.cube:
        return False
    cube = state.cubes[goal.cube]
    if goal.kind is GoalKind.ON_TARGET:
        x, y, _ = state.targets[goal.where].point
        return _stands_at(cube, (x, y, CUBE_HALF_M))
    if goal.kind is GoalKind.ON_CUBE:
        x, y, z = state.cubes[goal.where].position
        return state.held != goal.where and _stands_at(cube, (x, y, z + 2 * CUBE_HALF_M))
    if goal.kind is GoalKind.ALIGNED:
        is_on_table = abs(cube.position[2] - CUBE_HALF_M) < LEVEL_M
        return is_on_table and abs(round(1000 * cube.position[0]) - goal.where) <= ALIGNED_MM
    return is_in_drawer(state, goal.cube) and state.drawer is not None and state.drawer.open_m <= DRAWER_SHUT_M


def is_in_drawer(state: PrimitiveSkillState, cube: int) -> bool:
    """Returns whether a cube lies in the drawer, shut or not."""
    return state.drawer is not None and state.held != cube and state.drawer.holds(state.cubes[cube].position)


def is_solved(state: PrimitiveSkillState) -> bool:
    """Returns whether all goals are met."""
    return all(is_met(state, goal) for goal in state.goals)


def stages_of(state: PrimitiveSkillState) -> list[IntEnum]:
    """Returns the stages on the way to a state's goals, in order: all of its task, but for `place` with one cube."""
    stages = list(STAGES[state.task])
    return stages[: 2 * len(state.goals) - 1] if state.task == "place" else stages


def reached_stage(state: PrimitiveSkillState) -> int:
    """Returns the stage a state is at, -1 for none; for a solved task the last one."""
    if state.task == "drawer":
        stage = _drawer_stage(state)
    else:
        num_met = sum(is_met(state, goal) for goal in state.goals)
        if state.task == "align":
            stage = num_met - 1
        else:
            is_on_the_way = any(goal.cube == state.held for goal in state.goals)
            stage = 2 * num_met + is_on_the_way - 1
    return min(stage, max(stages_of(state)))


def _drawer_stage(state: PrimitiveSkillState) -> int:
    cube = state.goals[0].cube
    if is_in_drawer(state, cube):
        return DrawerStage.CUBE_INSIDE
    if state.drawer is None or state.drawer.open_m < DRAWER_OPEN_M:
        return -1
    return DrawerStage.CUBE_HELD if state.held == cube else DrawerStage.DRAWER_OPEN


def _stands_at(cube: Cube, place: tuple[float, float, float]) -> bool:
    x, y, z = cube.position
    return math.hypot(x - place[0], y - place[1]) <= NEAR_M and abs(z - place[2]) <= LEVEL_M
