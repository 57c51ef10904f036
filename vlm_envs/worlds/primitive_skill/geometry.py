"""Sizes, limits and frames: metres and radians inside, whole millimetres wherever an agent reads or writes.

Axes are ManiSkill's: x towards the camera, y to the right of the picture, z up, the table's top at z = 0. The arm
stands at the far side of the table. Coordinates count from ManiSkill's origin, but in the drawer task from a point
`FRAME_X_M` nearer to the camera, so that what it is about lies within the paper's limits. States, actions and texts use
the coordinates of their task; the simulator alone uses ManiSkill's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
"""(w, x, y, z)."""
Millimetres = tuple[int, int, int]

CUBE_HALF_M = 0.02
TARGET_RADIUS_M = 0.035

BASE_X_M = -0.615
"""x of the arm's base, from ManiSkill's origin."""
GRASP_RADIUS_M = 0.03
"""How far from the middle between the fingers the centre of a cube may be that they grasp or hold."""
HELD_GAP_M = 0.01
"""How far the fingers are apart at least when there is something between them."""

Workspace = tuple[tuple[int, int], ...]
_TABLE: Workspace = ((-100, 150), (-200, 200), (10, 200))
WORKSPACES_MM: Mapping[str, Workspace] = {
    "place": _TABLE,
    "stack": _TABLE,
    "drawer": ((-500, -100), (-600, 200), (10, 650)),
    "align": _TABLE,
}
"""Lowest and highest x, y and z of an action, by task. Source: VAGEN, Appendix B, prompts of the align and of the
drawer task; it prints none for the other two, whose examples lie within align's."""

FRAME_X_M: Mapping[str, float] = {"place": 0.0, "stack": 0.0, "drawer": -0.25, "align": 0.0}
"""x of ManiSkill's origin in the coordinates of a task."""

DRAWER_TRAVEL_M = 0.13
DRAWER_FLOOR_M = 0.006
"""Height of the top of the drawer's floor over the table."""
DRAWER_HALF_SIZE_M = (0.065, 0.07)
"""Half of the inside of the drawer, along x and y."""
DRAWER_CENTRE_X_M = -0.165
"""x of the middle of the shut drawer, from ManiSkill's origin."""
HANDLE_X_M = -0.01
HANDLE_Z_M = 0.04
"""The middle of the handle of a shut drawer, from ManiSkill's origin. It is as thick along x as a cube, so that a push
treats both alike."""


def to_mm(metres: Sequence[float]) -> tuple[int, ...]:
    """Returns lengths in whole millimetres."""
    return tuple(round(1000 * value) for value in metres)


def point_mm(position_m: Vector) -> Millimetres:
    """Returns a point in whole millimetres."""
    x, y, z = to_mm(position_m)
    return x, y, z


def is_in_workspace(point: Sequence[int], task: str) -> bool:
    """Returns whether a point in mm lies within the limits of a task, borders included."""
    return all(low <= value <= high for value, (low, high) in zip(point, WORKSPACES_MM[task], strict=True))


def yaw_quaternion(yaw_rad: float) -> Quaternion:
    """Returns the rotation by an angle about the vertical."""
    return math.cos(yaw_rad / 2), 0.0, 0.0, math.sin(yaw_rad / 2)


def face_yaw(rotation: Quaternion) -> float:
    """Returns the yaw in radians, within 45 degrees of 0, at which a gripper closes on the faces of a cube.

    A cube that lies on another of its faces looks the same to a gripper, so the yaw is taken from whichever of its
    axes lies flattest.
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
    """Returns the rotation of a gripper that points down and closes along y, turned by a yaw."""
    # (yaw about z) * (half a turn about x)
    return 0.0, math.cos(yaw_rad / 2), math.sin(yaw_rad / 2), 0.0
