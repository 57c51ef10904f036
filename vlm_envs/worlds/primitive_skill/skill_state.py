"""The state of the table: geometry, objects, stages of tasks, and texts.

A state is a complete snapshot between two primitives, when everything is at rest: the engine starts every
primitive from these numbers alone. Lengths are in meters and angles in radians internally, and in integer
millimeters for agents.

The axes are ManiSkill's: x toward the camera, y to the right of the image, z up, with the table's top at z =
0. The arm stands at the far side of the table. Coordinates are relative to ManiSkill's origin, except that
the drawer task uses an origin that is `FRAME_X_M` nearer to the camera, so that everything relevant is within
the paper's limits. States, actions, and texts use the coordinates of their task; only the simulator uses
ManiSkill's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vlm_envs.responses.formats import WITHOUT_SYMBOLS, structured_text
from vlm_envs.validation import require_choice

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
"""(w, x, y, z)."""
Millimetres = tuple[int, int, int]

CUBE_HALF_M = 0.02
TARGET_RADIUS_M = 0.035

BASE_X_M = -0.615
"""x of the arm's base, relative to ManiSkill's origin."""
GRASP_RADIUS_M = 0.03
"""Maximum distance between the middle of the fingers and the center of a cube that they grasp or hold."""
HELD_GAP_M = 0.01
"""Minimum distance between the fingers if something is between them."""

Workspace = tuple[tuple[int, int], ...]
_TABLE: Workspace = ((-100, 150), (-200, 200), (10, 200))
WORKSPACES_MM: Mapping[str, Workspace] = {
    "place": _TABLE,
    "stack": _TABLE,
    "drawer": ((-500, -100), (-600, 200), (10, 650)),
    "align": _TABLE,
}
"""Minimum and maximum x, y, and z of an action, by task. Source: VAGEN, Appendix B, prompts of the align and
drawer tasks; it gives none for the other two, whose examples are within align's."""

FRAME_X_M: Mapping[str, float] = {"place": 0.0, "stack": 0.0, "drawer": -0.25, "align": 0.0}
"""x of ManiSkill's origin in the coordinates of a task."""

DRAWER_TRAVEL_M = 0.13
DRAWER_FLOOR_M = 0.006
"""Height of the top of the drawer's floor above the table."""
DRAWER_HALF_SIZE_M = (0.065, 0.07)
"""Half of the inside of the drawer, along x and y."""
DRAWER_CENTRE_X_M = -0.165
"""x of the middle of the shut drawer, relative to ManiSkill's origin."""
HANDLE_X_M = -0.01
HANDLE_Z_M = 0.04
"""The center of the handle of a shut drawer, relative to ManiSkill's origin. It is as thick along x as a
cube, so that pushes treat both alike."""


def point_mm(position_m: Vector) -> Millimetres:
    """Rounds a point to integer millimeters."""
    x, y, z = position_m
    return round(1000 * x), round(1000 * y), round(1000 * z)


def is_in_workspace(point: Sequence[int], task: str) -> bool:
    """Returns whether a point in mm is within the limits of a task, inclusive."""
    return all(low <= value <= high for value, (low, high) in zip(point, WORKSPACES_MM[task], strict=True))


def yaw_quaternion(yaw_rad: float) -> Quaternion:
    """Returns the rotation by an angle about the vertical axis."""
    return math.cos(yaw_rad / 2), 0.0, 0.0, math.sin(yaw_rad / 2)


def face_yaw(rotation: Quaternion) -> float:
    """Returns the yaw in radians, within 45 degrees of 0, at which a gripper closes on the faces of a cube.

    A cube that lies on another face looks the same to a gripper, so the yaw is taken from its most horizontal
    axis.
    """
    w, x, y, z = rotation
    axes = (
        (1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)),
        (2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)),
        (2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)),
    )
    across, along, _ = min(axes, key=lambda axis: abs(axis[2]))
    quarter = math.pi / 2
    return (math.atan2(along, across) + quarter / 2) % quarter - quarter / 2


def tool_down(yaw_rad: float) -> Quaternion:
    """Returns the rotation of a gripper that points down and closes along y, rotated by a yaw."""
    # (yaw about z) * (half a turn about x)
    return 0.0, math.cos(yaw_rad / 2), math.sin(yaw_rad / 2), 0.0


NUM_ARM_JOINTS = 7

COLORS = ("red", "green", "yellow", "blue", "purple")
MAX_NUM_CUBES = 3

HOME_QPOS: tuple[float, ...] = (0.0, -0.3354, 0.0, -2.6761, 0.0, 2.3408, math.pi / 4, 0.04, 0.04)
"""Joint positions of the arm between primitives, in rad, and of the two fingers, in m: drawn back from the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cube:
    """A cube with sides of 40 mm.

    Attributes:
        color: One of `COLORS`.
        position: Its center in m.
        rotation: Its rotation (w, x, y, z).
    """

    color: str
    position: Vector
    rotation: Quaternion

    @property
    def name(self) -> str:
        """Its name in sentences."""
        return f"{self.color} cube"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A disc on the table.

    Attributes:
        side: `"left"` or `"right"`.
        position_mm: x and y of its center.
    """

    side: str
    position_mm: tuple[int, int]

    @property
    def name(self) -> str:
        """Its name in sentences."""
        return f"{self.side} target"

    @property
    def point(self) -> Vector:
        """Its center in m."""
        return self.position_mm[0] / 1000, self.position_mm[1] / 1000, 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawer:
    """The drawer of a cabinet, which opens towards the camera.

    Attributes:
        y_mm: y of its middle.
        open_m: Distance by which it is open.
    """

    y_mm: int
    open_m: float

    @property
    def handle(self) -> Vector:
        """The center of its handle in m."""
        return FRAME_X_M["drawer"] + HANDLE_X_M + self.open_m, self.y_mm / 1000, HANDLE_Z_M

    @property
    def inside(self) -> Vector:
        """The center of a cube in the middle of the drawer, in m."""
        x = FRAME_X_M["drawer"] + DRAWER_CENTRE_X_M + self.open_m
        return x, self.y_mm / 1000, DRAWER_FLOOR_M + CUBE_HALF_M

    def holds(self, point: Vector) -> bool:
        """Returns whether a cube with this center (in m) is inside."""
        x, y, z = self.inside
        half_x, half_y = DRAWER_HALF_SIZE_M
        return abs(point[0] - x) < half_x and abs(point[1] - y) < half_y and abs(point[2] - z) < CUBE_HALF_M


class GoalKind(StrEnum):
    """Kinds of goals."""

    ON_TARGET = "on_target"
    ON_CUBE = "on_cube"
    ALIGNED = "aligned"
    IN_DRAWER = "in_drawer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One goal.

    Attributes:
        kind: Kind of goal.
        cube: Index of the cube.
        where: Index of the target or of the cube below, the x in mm of an aligned cube, 0 for the drawer.
    """

    kind: GoalKind
    cube: int
    where: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveSkillState:
    """A table at one moment; hashable, comparable, and picklable.

    Attributes:
        task: `"place"`, `"stack"`, `"drawer"` or `"align"`.
        cubes: The cubes, in the order in which their positions are listed.
        targets: The discs, from left to right.
        drawer: The drawer, or None.
        goals: The goals.
        phrasing: Index of the instruction's wording.
        held: Index of the cube in the gripper, or None.
        highest_stage: The highest stage reached so far, -1 for none.
        outcome: Why the last primitive had no effect; empty if it had one.
        qpos: Joint positions, in rad, and finger positions, in m.
    """

    task: str
    cubes: tuple[Cube, ...]
    targets: tuple[Target, ...] = ()
    drawer: Drawer | None = None
    goals: tuple[Goal, ...]
    phrasing: int = 0
    held: int | None = None
    highest_stage: int = -1
    outcome: str = ""
    qpos: tuple[float, ...] = HOME_QPOS


NEAR_M = 0.02
"""Maximum horizontal distance of a cube's center from the center of its target, or of the cube below it."""
LEVEL_M = 0.008
"""Maximum deviation of its height from that of a cube resting there."""
ALIGNED_MM = 10
"""Tolerance of the x of an aligned cube. Source: VAGEN, Appendix B, prompt of the align task."""
DRAWER_SHUT_M, DRAWER_OPEN_M = 0.01, 0.1


NUM_STAGES: Mapping[str, int] = {"place": 3, "stack": 3, "drawer": 3, "align": 2}
"""Number of stages of each task before it is solved; meeting the last goal is not a stage.

First cube held, first cube placed, second cube held; drawer open, cube held, cube inside; one aligned, two
aligned.
"""


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
    """Returns whether a cube is in the drawer, open or shut."""
    return state.drawer is not None and state.held != cube and state.drawer.holds(state.cubes[cube].position)


def is_solved(state: PrimitiveSkillState) -> bool:
    """Returns whether all goals are met."""
    return all(is_met(state, goal) for goal in state.goals)


def num_stages(state: PrimitiveSkillState) -> int:
    """Returns the number of stages before a state's goals are met, which `place` with one cube reduces."""
    return 2 * len(state.goals) - 1 if state.task == "place" else NUM_STAGES[state.task]


def reached_stage(state: PrimitiveSkillState) -> int:
    """Returns the current stage of a state, -1 for none; for a solved task the last one."""
    num_met = sum(is_met(state, goal) for goal in state.goals)
    if state.task == "drawer":
        stage = _drawer_stage(state)
    elif state.task == "align":
        stage = num_met - 1
    else:
        stage = 2 * num_met + any(goal.cube == state.held for goal in state.goals) - 1
    return min(stage, num_stages(state) - 1)


def _drawer_stage(state: PrimitiveSkillState) -> int:
    cube = state.goals[0].cube
    if is_in_drawer(state, cube):
        return 2
    if state.drawer is None or state.drawer.open_m < DRAWER_OPEN_M:
        return -1
    return int(state.held == cube)


def _stands_at(cube: Cube, place: tuple[float, float, float]) -> bool:
    x, y, z = cube.position
    return math.hypot(x - place[0], y - place[1]) <= NEAR_M and abs(z - place[2]) <= LEVEL_M


_PHRASES: Mapping[str, tuple[str, ...]] = {
    "place": (
        "Put the {0} on the {1} and the {2} on the {3}.",
        "Bring the {0} to the {1}, then the {2} to the {3}.",
        "The {0} belongs on the {1} and the {2} on the {3}: take them there.",
        "Cover the {1} with the {0} and the {3} with the {2}.",
    ),
    "stack": (
        "Stack the {0} on the {1} and put the {2} on the {3}.",
        "Set the {0} on top of the {1}; the {2} goes to the {3}.",
        "Place the {2} on the {3} and build a tower of the {1} below and the {0} above.",
        "The {0} belongs on the {1}, and the {2} on the {3}.",
    ),
    "drawer": (
        "Put the {0} into the drawer and close the drawer.",
        "Store the {0} in the drawer, and leave the drawer shut.",
        "The {0} belongs inside the drawer; shut it when you are done.",
        "Open the drawer, lay the {0} in it and push it shut.",
    ),
    "align": (
        "Line the cubes up along the y axis: the x of every cube must be {0}, give or take {1}.",
        "Move all cubes to the line x = {0}; each may be off by {1} at most.",
        "Form a row of the cubes: all their x coordinates must be within {1} of {0}.",
        "Make every cube have the x coordinate {0} (+-{1}), wherever its y is.",
    ),
}

_ONE_CUBE: tuple[str, ...] = (
    "Put the {0} on the {1}.",
    "Bring the {0} to the {1}.",
    "The {0} belongs on the {1}: take it there.",
    "Cover the {1} with the {0}.",
)
"""Wordings of `place` with a single cube."""

_NOTES: Mapping[str, str] = {
    "drawer": (
        "The last two positions are the drawer's handle and the inside of the drawer. The drawer opens towards +x, by "
        "130 mm at most: push the handle to open and to shut it."
    ),
}


def num_phrasings(task: str) -> int:
    """Returns the number of wordings of a task."""
    return len(_PHRASES[task])


def request(state: PrimitiveSkillState) -> str:
    """Returns the instruction of a level in one sentence."""
    has_one = state.task == "place" and len(state.goals) == 1
    return (_ONE_CUBE if has_one else _PHRASES[state.task])[state.phrasing].format(*_names(state))


def instruction(state: PrimitiveSkillState) -> str:
    """Returns the instruction of a level, and the workspace limits."""
    limits = ", ".join(f"{axis} {span}" for axis, span in zip("xyz", WORKSPACES_MM[state.task], strict=True))
    lines = [f"Instruction: {request(state)}", f"Workspace limits: {limits}.", _NOTES.get(state.task, "")]
    return "\n".join(filter(None, lines))


def _names(state: PrimitiveSkillState) -> list[str]:
    """Returns the names in the task's wordings, in their order."""
    cubes, targets, goals = state.cubes, state.targets, state.goals
    if state.task == "place":
        return [name for goal in goals for name in (cubes[goal.cube].name, targets[goal.where].name)]
    if state.task == "stack":
        top, other = goals
        return [cubes[top.cube].name, cubes[top.where].name, cubes[other.cube].name, targets[other.where].name]
    if state.task == "align":
        return [str(goals[0].where), str(ALIGNED_MM)]
    return [cubes[goals[0].cube].name]


NOTHING_HELD = "none"

StateDict = dict[str, Millimetres | int | str]
"""Positions by name, such as `red_cube_position: (83, -102, 20)`; `held_cube` is `red_cube` or `none`; with a
drawer also `drawer_handle_position`, `drawer_inside_position`, and `drawer_open_mm`. Source: VAGEN, Appendix
D.1.1."""


def positions(state: PrimitiveSkillState) -> dict[str, Millimetres]:
    """Returns all positions in mm, by names such as `red cube`, in the order listed: cubes, then the rest."""
    places = {cube.name: point_mm(cube.position) for cube in state.cubes}
    places |= {target.name: point_mm(target.point) for target in state.targets}
    if state.drawer is not None:
        places["drawer handle"] = point_mm(state.drawer.handle)
        places["drawer inside"] = point_mm(state.drawer.inside)
    return places


def structured(state: PrimitiveSkillState) -> StateDict:
    """Returns the table as plain data."""
    fields: StateDict = {f"{_key(name)}_position": position for name, position in positions(state).items()}
    fields["held_cube"] = NOTHING_HELD if state.held is None else _key(state.cubes[state.held].name)
    if state.drawer is not None:
        fields["drawer_open_mm"] = round(1000 * state.drawer.open_m)
    return fields


def sentences(state: PrimitiveSkillState) -> str:
    """Returns the table as sentences, such as `the red cube is at (83, -102, 20).`, one after another."""
    parts = [f"the {name} is at {position}." for name, position in positions(state).items()]
    if state.drawer is not None:
        parts.append(f"the drawer is open by {round(1000 * state.drawer.open_m)} mm.")
    holds = "is empty" if state.held is None else f"holds the {state.cubes[state.held].name}"
    return " ".join((*parts, f"the gripper {holds}."))


def describe(state: PrimitiveSkillState, representation: str) -> str:
    """Returns the table as sentences or a dictionary (VAGEN, Table 23 and Appendix C.4); raises for anything else."""
    require_choice("representation", representation, WITHOUT_SYMBOLS)
    return sentences(state) if representation == "natural_language" else structured_text(structured(state))


def hint(state: PrimitiveSkillState) -> str:
    """Returns the unnamed positions, as in VAGEN's prompts."""
    told = ", ".join("({},{},{})".format(*position) for position in positions(state).values())
    opened = "" if state.drawer is None else f"\nDrawer open by: {round(1000 * state.drawer.open_m)} mm"
    return f"Object positions: [{told}]{opened}"


def _key(name: str) -> str:
    return name.replace(" ", "_")
