"""The simulator of PrimitiveSkill: load a state, execute a motion, read the resulting state, draw an image.

One engine serves every world of a process because it keeps nothing of an episode: each motion starts from the numbers
of a state alone. PhysX remembers contacts, and even the order in which they first occurred, and what it remembers would
leak into the result; so every state is put into a new scene made of the same bodies.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vlm_envs.errors import EngineUnavailableError
from vlm_envs.tools.data_files import BoundedCache
from vlm_envs.worlds.primitive_skill.sapien_scene import (
    FLOOR_M,
    PARKED_X_M,
    TIMESTEP_S,
    build,
    require_engine,
    use_shaders,
)
from vlm_envs.worlds.primitive_skill.skill_state import (
    BASE_X_M,
    CUBE_HALF_M,
    FRAME_X_M,
    HOME_QPOS,
    NUM_ARM_JOINTS,
    PrimitiveSkillState,
    Quaternion,
    Vector,
)

SUPERSAMPLING = 2
"""Pictures are drawn this much larger along each side and averaged, which smooths edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewpoint:
    """Where a camera stands.

    Attributes:
        eye_m: Its place in the scene.
        look_at_m: What is in the middle of its pictures.
        field_of_view_rad: How wide it sees.
        shows_arm: Whether the arm, which is drawn back in every picture, or its shadow is within its pictures. Drawing
            an arm takes four times as long as all the rest.
    """

    eye_m: tuple[float, float, float]
    look_at_m: tuple[float, float, float]
    field_of_view_rad: float
    shows_arm: bool = True


VIEWPOINTS: Mapping[str, Viewpoint] = {
    "front": Viewpoint(eye_m=(0.66, 0.0, 0.6), look_at_m=(-0.075, 0.0, 0.075), field_of_view_rad=0.62),
    "above": Viewpoint(eye_m=(0.026, 0.0, 1.5), look_at_m=(0.025, 0.0, 0.0), field_of_view_rad=0.31, shows_arm=False),
}
"""Both look towards -x. From above, a picture shows 0.46 m of the table along each side."""


class Camera:
    """A camera for pictures of one size.

    Args:
        scene: A SAPIEN scene; it is lit by the first camera.
        size_px: Side of the pictures.
        viewpoint: Where it stands, a key of `VIEWPOINTS`.
    """

    def __init__(self, scene: Any, size_px: int, viewpoint: str = "front") -> None:
        self._size_px = size_px
        if not scene.get_cameras():
            _light(scene)
        side, place = size_px * SUPERSAMPLING, VIEWPOINTS[viewpoint]
        use_shaders()  # a ManiSkill environment in this process sets its own
        self._camera = scene.add_camera(viewpoint, side, side, place.field_of_view_rad, 0.05, 6.0)
        self._camera.entity.set_pose(_looking(place.eye_m, place.look_at_m))

    def picture(self) -> npt.NDArray[np.uint8]:
        """Returns what it sees, uint8[size_px, size_px, 3], once the render system has taken over all poses."""
        self._camera.take_picture()
        fine: npt.NDArray[np.float32] = np.asarray(self._camera.get_picture("Color"), np.float32)[..., :3]
        size = self._size_px
        coarse = fine.reshape(size, SUPERSAMPLING, size, SUPERSAMPLING, 3).mean(axis=(1, 3))
        picture: npt.NDArray[np.uint8] = (np.clip(coarse, 0.0, 1.0) * 255 + 0.5).astype(np.uint8)
        return picture


def _light(scene: Any) -> None:
    """Adds sky light and a sun whose shadows fall away from the camera."""
    scene.set_ambient_light([0.42, 0.44, 0.48])
    scene.add_directional_light(
        [-0.45, 0.3, -1.0],
        [0.9, 0.87, 0.8],
        shadow=True,
        shadow_scale=0.9,
        shadow_near=-2.0,
        shadow_far=2.0,
        shadow_map_size=1024,
    )


def _looking(eye: tuple[float, float, float], at: tuple[float, float, float]) -> Any:
    """Returns the pose of a camera at `eye` that looks horizontally centred at `at`; its x axis looks ahead."""
    import sapien

    ahead = np.subtract(at, eye)
    yaw = math.atan2(ahead[1], ahead[0])
    pitch = -math.atan2(ahead[2], math.hypot(ahead[0], ahead[1]))
    half_yaw, half_pitch = yaw / 2, pitch / 2
    # (yaw about z) * (pitch about y)
    rotation = (
        math.cos(half_yaw) * math.cos(half_pitch),
        -math.sin(half_yaw) * math.sin(half_pitch),
        math.cos(half_yaw) * math.sin(half_pitch),
        math.sin(half_yaw) * math.cos(half_pitch),
    )
    return sapien.Pose(eye, rotation)


Floats = npt.NDArray[np.float64]

TOOL = "panda_hand_tcp"
MAX_NUM_OUTCOMES = 512
"""Most results of motions that are kept."""
MAX_PICTURE_BYTES = 8 << 20
"""Most pictures that are kept: worlds of a group begin at the same table, and often go on to the same."""
_ARM_MASK = np.array([1] * NUM_ARM_JOINTS + [0, 0])
_IK_TOLERANCE = 1e-3
_AT_REST_M_PER_S = 2e-3

RGB: dict[str, tuple[float, float, float, float]] = {
    "red": (0.75, 0.02, 0.02, 1.0),
    "green": (0.03, 0.45, 0.05, 1.0),
    "yellow": (0.90, 0.65, 0.02, 1.0),
    "blue": (0.03, 0.12, 0.80, 1.0),
    "purple": (0.40, 0.05, 0.55, 1.0),
}
"""Linear colours of the cubes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a motion may change.

    Attributes:
        qpos: Joint positions in rad, finger positions in m.
        cubes: Position in m and rotation of each cube.
        open_m: How far the drawer is open.
    """

    qpos: tuple[float, ...]
    cubes: tuple[tuple[Vector, Quaternion], ...]
    open_m: float


class Engine:
    """A built scene with an arm that can be told where to go; `outcomes` keeps what motions led to."""

    def __init__(self) -> None:
        """Starts SAPIEN; raises `EngineUnavailableError` if it cannot run here."""
        require_engine()
        import sapien

        self.process_id = os.getpid()
        self.lock = threading.Lock()

        self._pose = sapien.Pose
        self._furniture = build()
        self._robot = self._furniture.robot
        self._joints = tuple(self._robot.active_joints)
        names = [link.name for link in self._robot.links]
        self._tool = self._robot.links[names.index(TOOL)]
        self._tool_index = names.index(TOOL)
        self._robot_bodies = set(self._robot.links)
        self._kinematics = self._robot.create_pinocchio_model()
        self._limits = self._robot.get_qlimits()[:NUM_ARM_JOINTS]
        self._cameras: dict[tuple[int, str], Camera] = {}
        self._num_cubes = 0
        self._frame_x_m = 0.0
        self.outcomes: BoundedCache[tuple[PrimitiveSkillState, bool]] = BoundedCache(MAX_NUM_OUTCOMES)
        self._pictures: BoundedCache[npt.NDArray[np.uint8]] = BoundedCache(
            MAX_PICTURE_BYTES, size_of=lambda picture: picture.nbytes
        )
        self.targets: Floats = np.array(HOME_QPOS)

    # --- states in and out

    def put(self, state: PrimitiveSkillState) -> None:
        """Makes the scene stand exactly as in a state, with nothing remembered of what was before."""
        self._furniture.renew()
        self.show(state)
        self.aim(np.array((*HOME_QPOS[:NUM_ARM_JOINTS], *self._finger_targets(state))))

    def _finger_targets(self, state: PrimitiveSkillState) -> tuple[float, float]:
        return (-0.01, -0.01) if state.held is not None else (HOME_QPOS[-1], HOME_QPOS[-1])

    def show(self, state: PrimitiveSkillState) -> None:
        """Moves everything to where a state has it, at rest, and gives the cubes their colours."""
        self._num_cubes = len(state.cubes)
        self._frame_x_m = FRAME_X_M[state.task]
        self._set_qpos(state.qpos)
        for index, material in enumerate(self._furniture.cube_materials):
            if index < self._num_cubes:
                cube = state.cubes[index]
                x, y, z = cube.position
                self._set_cube(index, (x - self._frame_x_m, y, z), cube.rotation)
                material.set_base_color(RGB[cube.color])
            else:
                self._set_cube(index, (PARKED_X_M, index * 0.2, FLOOR_M + CUBE_HALF_M), (1.0, 0.0, 0.0, 0.0))
        for index, disc in enumerate(self._furniture.discs):
            is_used = index < len(state.targets)
            disc.set_pose(self._pose(state.targets[index].point if is_used else (PARKED_X_M, 1.0, FLOOR_M)))
        if state.drawer is None:
            self._set_cabinet(PARKED_X_M, 0.0, 0.0)
        else:
            self._set_cabinet(0.0, state.drawer.y_mm / 1000, state.drawer.open_m)

    def _set_qpos(self, qpos: Sequence[float]) -> None:
        self._robot.set_qpos(np.array(qpos, np.float32))
        self._robot.set_qvel(np.zeros(len(qpos), np.float32))

    def _set_cube(self, index: int, position: Vector, rotation: Quaternion) -> None:
        body = self._furniture.cube_bodies[index]
        self._furniture.cubes[index].set_pose(self._pose(position, rotation))
        body.set_linear_velocity([0.0, 0.0, 0.0])
        body.set_angular_velocity([0.0, 0.0, 0.0])

    def _set_cabinet(self, x_m: float, y_m: float, open_m: float) -> None:
        cabinet = self._furniture.cabinet
        # The floor is far below a parked cabinet; nothing there touches it
        cabinet.set_root_pose(self._pose([x_m, y_m, 0.0]))
        cabinet.set_qpos(np.array([open_m], np.float32))
        cabinet.set_qvel(np.zeros(1, np.float32))

    def take(self) -> Snapshot:
        """Returns where everything is now, in the coordinates of the state's task."""
        cubes = []
        for cube in self._furniture.cubes[: self._num_cubes]:
            pose = cube.pose
            x, y, z = map(float, pose.p)
            w, a, b, c = map(float, pose.q)
            cubes.append(((x + self._frame_x_m, y, z), (w, a, b, c)))
        qpos = tuple(map(float, self._robot.get_qpos()))
        return Snapshot(qpos=qpos, cubes=tuple(cubes), open_m=float(self._furniture.cabinet.get_qpos()[0]))

    # --- motion, in ManiSkill's coordinates

    def scene_point(self, point_mm: Sequence[int]) -> Floats:
        """Returns a point of the state's task, in mm, as one of the scene, in m."""
        return np.array(point_mm, np.float64) / 1000 - (self._frame_x_m, 0.0, 0.0)

    def advance(self, duration_s: float) -> None:
        """Lets time pass, in whole simulation steps."""
        for _ in range(max(1, round(duration_s / TIMESTEP_S))):
            self._furniture.physics.step()

    @property
    def tool_position(self) -> Floats:
        """Where the point between the fingers is, in m."""
        return np.array(self._tool.entity_pose.p, np.float64)

    @property
    def finger_gap_m(self) -> float:
        """How far the fingers are apart."""
        return float(self._robot.get_qpos()[NUM_ARM_JOINTS:].sum())

    @property
    def cube_positions(self) -> Floats:
        """The cubes' centres, float64[num_cubes, 3], in m."""
        poses = [cube.pose.p for cube in self._furniture.cubes[: self._num_cubes]]
        return np.array(poses, np.float64).reshape(-1, 3)

    def joints_for(self, position: Sequence[float], rotation: Quaternion, near: Floats) -> Floats | None:
        """Returns joint targets that bring the tool to a pose, or None if it is out of reach.

        Args:
            position: Of the point between the fingers, in m.
            rotation: Of the tool.
            near: Joint targets to start the search from, float64[9].
        """
        x, y, z = map(float, position)
        pose = self._pose([x - BASE_X_M, y, z], rotation)
        found, _, error = self._kinematics.compute_inverse_kinematics(
            self._tool_index, pose, near, _ARM_MASK, max_iterations=100
        )
        joints = np.array(found, np.float64)
        arm = joints[:NUM_ARM_JOINTS]
        is_allowed = np.all((arm >= self._limits[:, 0]) & (arm <= self._limits[:, 1]))
        if not is_allowed or float(np.linalg.norm(error)) > _IK_TOLERANCE:
            return None
        joints[NUM_ARM_JOINTS:] = near[NUM_ARM_JOINTS:]
        return joints

    def aim(self, joints: Floats) -> None:
        """Sets what the joints are driven towards, float64[9]."""
        self.targets = np.array(joints, np.float64)
        for joint, target in zip(self._joints, self.targets, strict=True):
            joint.set_drive_target(float(target))

    def touches(self, cube: int) -> bool:
        """Returns whether a cube presses against anything but the arm."""
        body = self._furniture.cube_bodies[cube]
        for contact in self._furniture.physics.get_contacts():
            first, second = contact.bodies
            if body is first or body is second:
                other = second if body is first else first
                if other not in self._robot_bodies and any(point.separation < 1e-4 for point in contact.points):
                    return True
        return False

    def is_at_rest(self) -> bool:
        """Returns whether the arm, the cubes and the drawer have all come to rest."""
        speeds = [np.abs(self._robot.get_qvel()).max(), np.abs(self._furniture.cabinet.get_qvel()).max()]
        for body in self._furniture.cube_bodies[: self._num_cubes]:
            speeds.append(np.linalg.norm(body.get_linear_velocity()))
            speeds.append(np.linalg.norm(body.get_angular_velocity()) * CUBE_HALF_M)
        return bool(max(speeds) < _AT_REST_M_PER_S)

    # --- pictures

    def picture(self, state: PrimitiveSkillState, size_px: int, viewpoint: str = "front") -> npt.NDArray[np.uint8]:
        """Returns what the camera of a viewpoint sees of a state, uint8[size_px, size_px, 3]."""
        return self._pictures.get((state, size_px, viewpoint), lambda: self._drawn(state, size_px, viewpoint)).copy()

    def _drawn(self, state: PrimitiveSkillState, size_px: int, viewpoint: str) -> npt.NDArray[np.uint8]:
        camera = self._cameras.get((size_px, viewpoint))
        if camera is None:
            camera = self._cameras[size_px, viewpoint] = Camera(self._furniture.scene, size_px, viewpoint)
        self.show(state)
        self._furniture.show_arm(VIEWPOINTS[viewpoint].shows_arm)
        self._furniture.rendering.step()
        return camera.picture()


_running: weakref.WeakValueDictionary[str, Engine] = weakref.WeakValueDictionary()
_starting = threading.Lock()


class EngineHandle:
    """A claim on the process's engine, which starts at the first use and ends with its last user.

    A copy, pickled or not, is a claim of its own that has not been used yet.
    """

    _engine: Engine | None = None

    @contextmanager
    def use(self) -> Iterator[Engine]:
        """Gives the engine, started if need be, to one thread at a time.

        Raises:
            EngineUnavailableError: If it cannot run here.
        """
        if self._engine is None:
            with _starting:
                self._engine = _running.get("engine") or Engine()
                _running["engine"] = self._engine
        if self._engine.process_id != os.getpid():
            raise EngineUnavailableError(
                "SAPIEN was started before this process was forked, and cannot go on in it; start worker processes "
                "with start_method='forkserver' or 'spawn'."
            )
        with self._engine.lock:
            yield self._engine

    def close(self) -> None:
        """Lets go of the engine; `use` would claim it again."""
        self._engine = None

    def __getstate__(self) -> dict[str, Any]:
        return {}
