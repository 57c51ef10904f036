"""The state of the table: what lies where, what is asked for, and how far the agent has come.

It is a whole snapshot of the simulation between two primitives, when everything is at rest: the engine starts every
primitive from these numbers and from nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from vlm_envs.worlds.primitive_skill.geometry import (
    CUBE_HALF_M,
    DRAWER_CENTRE_X_M,
    DRAWER_FLOOR_M,
    DRAWER_HALF_SIZE_M,
    FRAME_X_M,
    HANDLE_X_M,
    HANDLE_Z_M,
    Quaternion,
    Vector,
)

COLORS = ("red", "green", "yellow", "blue", "purple")
MAX_NUM_CUBES = 3

HOME_QPOS: tuple[float, ...] = (0.0, -0.3354, 0.0, -2.6761, 0.0, 2.3408, math.pi / 4, 0.04, 0.04)
"""Joint positions of the arm between primitives, in rad, and of the two fingers, in m: drawn back from the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cube:
    """A cube with sides of 40 mm.

    Attributes:
        color: One of `COLORS`.
        position: Its centre in m.
        rotation: Its rotation (w, x, y, z).
    """

    color: str
    position: Vector
    rotation: Quaternion

    @property
    def name(self) -> str:
        """What a sentence calls it."""
        return f"{self.color} cube"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A disc on the table.

    Attributes:
        side: `"left"` or `"right"`.
        position_mm: x and y of its middle.
    """

    side: str
    position_mm: tuple[int, int]

    @property
    def name(self) -> str:
        """What a sentence calls it."""
        return f"{self.side} target"

    @property
    def point(self) -> Vector:
        """Its middle in m."""
        return self.position_mm[0] / 1000, self.position_mm[1] / 1000, 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawer:
    """The drawer of a cabinet, which opens towards the camera.

    Attributes:
        y_mm: y of its middle.
        open_m: How far it stands open.
    """

    y_mm: int
    open_m: float

    @property
    def handle(self) -> Vector:
        """The middle of its handle in m."""
        return FRAME_X_M["drawer"] + HANDLE_X_M + self.open_m, self.y_mm / 1000, HANDLE_Z_M

    @property
    def inside(self) -> Vector:
        """Where the centre of a cube in its middle is, in m."""
        x = FRAME_X_M["drawer"] + DRAWER_CENTRE_X_M + self.open_m
        return x, self.y_mm / 1000, DRAWER_FLOOR_M + CUBE_HALF_M

    def holds(self, point: Vector) -> bool:
        """Returns whether a cube with this centre (in m) lies in it."""
        x, y, z = self.inside
        half_x, half_y = DRAWER_HALF_SIZE_M
        return abs(point[0] - x) < half_x and abs(point[1] - y) < half_y and abs(point[2] - z) < CUBE_HALF_M


class GoalKind(StrEnum):
    """What can be asked for."""

    ON_TARGET = "on_target"
    ON_CUBE = "on_cube"
    ALIGNED = "aligned"
    IN_DRAWER = "in_drawer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One thing that is asked for.

    Attributes:
        kind: What.
        cube: Index of the cube that it is about.
        where: Index of the target or of the cube below, the x in mm of an aligned cube, 0 for the drawer.
    """

    kind: GoalKind
    cube: int
    where: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveSkillState:
    """A table at one moment; hashable, comparable and picklable.

    Attributes:
        task: `"place"`, `"stack"`, `"drawer"` or `"align"`.
        cubes: The cubes, in the order in which their positions are told.
        targets: The discs, from left to right.
        drawer: The drawer, or None.
        goals: What is asked for.
        phrasing: Which wording asks for it.
        held: Index of the cube in the gripper, or None.
        highest_stage: The highest stage reached so far, -1 for none.
        outcome: Why the last primitive did nothing, in words; empty if it did something.
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
