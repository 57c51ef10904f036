"""Tables that several tests use."""

from __future__ import annotations

from dataclasses import replace

from vlm_envs.worlds.primitive_skill.skill_state import (
    FRAME_X_M,
    HOME_QPOS,
    Cube,
    Drawer,
    Goal,
    GoalKind,
    PrimitiveSkillState,
    Target,
    yaw_quaternion,
)

TARGETS = (Target(side="left", position_mm=(80, -100)), Target(side="right", position_mm=(80, 100)))


def cube(color: str, x_mm: float, y_mm: float, z_mm: float = 20) -> Cube:
    return Cube(color=color, position=(x_mm / 1000, y_mm / 1000, z_mm / 1000), rotation=yaw_quaternion(0.0))


PLACE = PrimitiveSkillState(
    task="place",
    cubes=(cube("red", -60, -120), cube("green", -47, 95)),
    targets=TARGETS,
    goals=(Goal(kind=GoalKind.ON_TARGET, cube=0, where=0), Goal(kind=GoalKind.ON_TARGET, cube=1, where=1)),
)
"""The scene of VAGEN's Appendix D.1.1, with the red cube not yet on its target."""

ONE_CUBE = replace(PLACE, cubes=PLACE.cubes[:1], goals=(Goal(kind=GoalKind.ON_TARGET, cube=0, where=1),))
"""Its only cube belongs on the target that is farther away."""

STACK = PrimitiveSkillState(
    task="stack",
    cubes=(cube("red", 0, -20), cube("green", -20, 150), cube("yellow", -60, -160)),
    targets=TARGETS,
    goals=(Goal(kind=GoalKind.ON_CUBE, cube=0, where=1), Goal(kind=GoalKind.ON_TARGET, cube=2, where=0)),
)

DRAWER = PrimitiveSkillState(
    task="drawer",
    cubes=(cube("blue", -175, 80), cube("purple", -290, 150)),
    drawer=Drawer(y_mm=-90, open_m=0.0),
    goals=(Goal(kind=GoalKind.IN_DRAWER, cube=0),),
)

ALIGN = PrimitiveSkillState(
    task="align",
    cubes=(cube("red", 90, -120), cube("green", -60, 0), cube("yellow", 70, 130)),
    goals=tuple(Goal(kind=GoalKind.ALIGNED, cube=index, where=0) for index in range(3)),
)

TOOL_AT_HOME_MM = (-220, 0, 240)
"""Where the point between the fingers is when the arm is drawn back, from ManiSkill's origin; measured in SAPIEN."""
HOLDING_QPOS = (*HOME_QPOS[:7], 0.018, 0.018)


def holding(state: PrimitiveSkillState, index: int) -> PrimitiveSkillState:
    """Returns a table with a cube in the gripper, as the simulator leaves it after a pick."""
    x, y, z = TOOL_AT_HOME_MM
    cubes = list(state.cubes)
    cubes[index] = cube(cubes[index].color, x + round(1000 * FRAME_X_M[state.task]), y, z)
    return replace(state, cubes=tuple(cubes), held=index, qpos=HOLDING_QPOS)


TABLES = {"place": PLACE, "stack": STACK, "drawer": DRAWER, "align": ALIGN}
