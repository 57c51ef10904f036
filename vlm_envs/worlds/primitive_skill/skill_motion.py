"""Execution of primitives: straight lines of the tool between poses, at the speed of `pd_ee_pose`.

Every 50 ms, the tool's next pose is converted to joint targets, which the joints follow with ManiSkill's
gains. ManiSkill's own planner, mplib, is not used because it does not support numpy 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from vlm_envs.worlds.primitive_skill.sapien_engine import Engine, Floats
from vlm_envs.worlds.primitive_skill.skill_planner import Primitive, Skill
from vlm_envs.worlds.primitive_skill.skill_state import (
    CUBE_HALF_M,
    GRASP_RADIUS_M,
    HELD_GAP_M,
    HOME_QPOS,
    NUM_ARM_JOINTS,
    face_yaw,
    tool_down,
)

CONTROL_PERIOD_S = 0.05
TRAVEL_S = 0.8
"""Duration of a sweep through the air."""
LOWER_M_PER_S, PUSH_M_PER_S, FEEL_M_PER_S = 0.25, 0.15, 0.08
GRIP_S = 0.3
REST_TIMEOUT_S = 3.0

CLEAR_M, HIGHEST_CLEAR_M = 0.18, 0.22
"""Minimum height of sideways motion; above high points, up to the second one."""
LOWEST_TOOL_M = 0.012
FINGERS_OPEN, FINGERS_APART, FINGERS_RELEASE, FINGERS_CLOSED = 0.04, 0.015, 0.034, -0.01
"""Finger targets in m: to grasp, to push with a wide front, to release, and to hold."""
FINGER_HALF_WIDTH_M = 0.008
PUSH_CLEARANCE_M = 0.015
FINGER_REACH_M, FINGER_ROOM_M = 0.048, 0.04
"""Distance of an open finger from the tool's center, and of a cube's center from a finger that it does not
obstruct."""


class UnreachableError(Exception):
    """The arm cannot take a pose; the primitive does nothing."""


def carry_out(engine: Engine, primitive: Primitive, held: int | None) -> int | None:
    """Executes a primitive within the workspace and returns home, starting from the engine's current state.

    Returns the index of the cube in the gripper afterwards, or None; `held` is the one before.

    Raises:
        UnreachableError: Before anything has moved, if a pose is out of reach.
    """
    arm = _Arm(engine, held)
    points = [engine.scene_point(point) for point in (primitive.point, primitive.end) if point is not None]
    skills: dict[Skill, Callable[..., None]] = {Skill.PICK: arm.pick, Skill.PLACE: arm.place, Skill.PUSH: arm.push}
    skills[primitive.skill](*points)
    arm.rest()
    return arm.held


class _Arm:
    """The arm during one primitive."""

    def __init__(self, engine: Engine, held: int | None) -> None:
        self._engine = engine
        self.held = held
        self._yaw = 0.0
        self._tool = np.zeros(3)

    def pick(self, point: Floats) -> None:
        """Closes the gripper at a point, aligned with the faces of the cube there, if any."""
        self._go_above(point, self._yaw_at(point), FINGERS_OPEN)
        self._line_to([point[0], point[1], max(point[2], LOWEST_TOOL_M)], LOWER_M_PER_S)
        self._set_fingers(FINGERS_CLOSED)
        self._rise()
        self.held = self._cube_between_fingers()
        if self.held is None:
            self._set_fingers(FINGERS_OPEN)

    def place(self, point: Floats) -> None:
        """Lowers the held thing over a point until it rests on something, and releases it.

        The descent starts at the arm's travel height, so any higher point is equivalent.
        """
        point = np.minimum(point, [np.inf, np.inf, HIGHEST_CLEAR_M])
        self._go_above(point, 0.0, FINGERS_CLOSED)
        self._line_to([point[0], point[1], max(point[2], CUBE_HALF_M)], LOWER_M_PER_S, until_touch=True)
        self._line_to([point[0], point[1], CUBE_HALF_M], FEEL_M_PER_S, until_touch=True)
        self._set_fingers(FINGERS_RELEASE)
        self._rise()
        self._set_fingers(FINGERS_OPEN)
        self.held = None

    def push(self, start: Floats, end: Floats) -> None:
        """Moves a thing as thick as a cube from one point to another with the backs of the fingers."""
        way = end[:2] - start[:2]
        length = float(np.linalg.norm(way))
        ahead = way / length if length > 1e-6 else np.array([1.0, 0.0])
        behind = CUBE_HALF_M + FINGER_HALF_WIDTH_M
        height = max(start[2], LOWEST_TOOL_M)
        first = [*(start[:2] - (behind + PUSH_CLEARANCE_M) * ahead), height]
        last = [*(end[:2] - behind * ahead), height]
        # The fingers are side by side across the direction of motion, so that the cube does not rotate
        self._yaw = (math.atan2(ahead[1], ahead[0]) + math.pi / 2) % math.pi - math.pi / 2  # half a turn is equivalent
        self._joints_at(last)
        self._go_above(np.array(first), self._yaw, FINGERS_APART)
        self._line_to(first, LOWER_M_PER_S)
        self._line_to(last, PUSH_M_PER_S)
        self._line_to([*(end[:2] - (behind + PUSH_CLEARANCE_M) * ahead), height], PUSH_M_PER_S)
        self._rise()
        self._set_fingers(FINGERS_OPEN)

    def rest(self) -> None:
        """Returns home and waits until nothing moves."""
        home = np.array(HOME_QPOS)
        home[NUM_ARM_JOINTS:] = self._engine.targets[NUM_ARM_JOINTS:]
        self._sweep_to(home)
        for _ in range(round(REST_TIMEOUT_S / CONTROL_PERIOD_S)):
            self._engine.advance(CONTROL_PERIOD_S)
            if self._engine.is_at_rest():
                break

    def _yaw_at(self, point: Floats) -> float:
        """Returns the yaw for grasping the cube at a point, or 0 if there is none.

        Of the cube's two pairs of faces, it selects the one with more room for the fingers.
        """
        cubes = self._engine.cube_positions
        distances = np.linalg.norm(cubes - point, axis=1)
        nearest = int(np.argmin(distances))
        if distances[nearest] > GRASP_RADIUS_M:
            return 0.0
        yaw = face_yaw(self._engine.take().cubes[nearest].rotation)
        across = yaw - math.copysign(math.pi / 2, yaw)
        others = np.delete(cubes, nearest, axis=0)
        others = others[np.abs(others[:, 2] - point[2]) < 2 * CUBE_HALF_M, :2]
        return across if _room(point, across, others) > _room(point, yaw, others) else yaw

    def _joints_at(self, position: Sequence[float]) -> Floats:
        """Returns the joints that bring the tool to a position; raises `UnreachableError` if it is out of reach."""
        joints = self._engine.joints_for(position, tool_down(self._yaw), np.array(HOME_QPOS))
        if joints is None:
            raise UnreachableError
        return joints

    def _go_above(self, point: Floats, yaw: float, fingers: float) -> None:
        """Sweeps through the air to above a point; raises before moving if a pose is out of reach."""
        self._yaw = yaw
        clear = min(max(CLEAR_M, point[2] + 0.1), HIGHEST_CLEAR_M)
        above = [point[0], point[1], clear]
        self._joints_at(point.tolist())
        joints = self._joints_at(above)
        joints[NUM_ARM_JOINTS:] = fingers
        self._sweep_to(joints)
        self._tool = np.array(above)

    def _sweep_to(self, joints: Floats) -> None:
        """Moves all joints at once, with smooth acceleration."""
        start = self._engine.targets.copy()
        start[NUM_ARM_JOINTS:] = joints[NUM_ARM_JOINTS:]
        num_periods = round(TRAVEL_S / CONTROL_PERIOD_S)
        for period in range(1, num_periods + 1):
            part = period / num_periods
            self._engine.aim(start + (joints - start) * part * part * (3 - 2 * part))
            self._engine.advance(CONTROL_PERIOD_S)
        self._engine.advance(2 * CONTROL_PERIOD_S)

    def _line_to(self, position: Sequence[float], speed_m_per_s: float, *, until_touch: bool = False) -> None:
        """Moves the tool along a straight line, as far as the arm reaches, and waits until it arrives."""
        start, end = self._tool.copy(), np.array(position)
        num_periods = math.ceil(float(np.linalg.norm(end - start)) / (speed_m_per_s * CONTROL_PERIOD_S))
        for period in range(1, num_periods + 1):
            if not self._aim_at(start + (end - start) * period / num_periods):
                break
            self._engine.advance(CONTROL_PERIOD_S)
            if until_touch and self.held is not None and self._engine.touches(self.held):
                self._aim_at(self._engine.tool_position)  # stops pressing
                return
        for _ in range(6):
            if np.abs(self._engine.tool_position - self._tool).max() < 0.001:
                break
            self._engine.advance(CONTROL_PERIOD_S)

    def _aim_at(self, position: Floats) -> bool:
        joints = self._engine.joints_for(position.tolist(), tool_down(self._yaw), self._engine.targets)
        if joints is None:
            return False
        self._engine.aim(joints)
        self._tool = position
        return True

    def _rise(self) -> None:
        self._line_to([self._tool[0], self._tool[1], max(CLEAR_M, self._tool[2])], LOWER_M_PER_S)

    def _set_fingers(self, target: float) -> None:
        joints = self._engine.targets.copy()
        joints[NUM_ARM_JOINTS:] = target
        self._engine.aim(joints)
        self._engine.advance(GRIP_S)

    def _cube_between_fingers(self) -> int | None:
        """Returns the index of the cube that the closed gripper holds, or None."""
        if self._engine.finger_gap_m < HELD_GAP_M:
            return None
        distances = np.linalg.norm(self._engine.cube_positions - self._engine.tool_position, axis=1)
        nearest = int(np.argmin(distances))
        return nearest if distances[nearest] < GRASP_RADIUS_M else None


def _room(point: Floats, yaw: float, others: Floats) -> float:
    """Returns the distance of the open fingers from the centers of other cubes, in m, at most `FINGER_ROOM_M`."""
    closing = np.array([-math.sin(yaw), math.cos(yaw)])
    fingers = point[:2] + np.outer((-FINGER_REACH_M, FINGER_REACH_M), closing)
    distances = np.linalg.norm(fingers[:, None] - others[None], axis=-1)
    return float(distances.min(initial=FINGER_ROOM_M))
