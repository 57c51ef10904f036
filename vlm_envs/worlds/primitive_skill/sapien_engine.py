"""The simulator of PrimitiveSkill: load a state, execute a motion, read the resulting state, draw an image.

One engine serves every world of a process because it stores no episode state: each motion starts from the
numbers of a state alone. PhysX caches contacts, and even the order in which they first occurred, which would
leak into the result, so every state is put into a new scene made of the same bodies.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vlm_envs.errors import EngineUnavailableError
from vlm_envs.tools.data_files import BoundedCache
from vlm_envs.worlds.primitive_skill.sapien_scene import (
    FLOOR_M,
    PARKED_X_M,
    TIMESTEP_S,
    Furniture,
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
"""Images are rendered this much larger along each side and averaged, which smooths edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewpoint:
    """A camera pose.

    Attributes:
        eye_m: Its position in the scene.
        rotation: Its rotation (w, x, y, z); without rotation, it looks along x.
        field_of_view_rad: Its field of view.
        shows_arm: Whether the arm, which is drawn back in every image, or its shadow is visible. Rendering
            the arm takes four times as long as everything else.
    """

    eye_m: Vector
    rotation: Quaternion
    field_of_view_rad: float
    shows_arm: bool = True


VIEWPOINTS: Mapping[str, Viewpoint] = {
    "front": Viewpoint(
        eye_m=(0.66, 0.0, 0.6), rotation=(0.0, -0.3051774310079835, 0.0, 0.9522955085494037), field_of_view_rad=0.62
    ),
    "above": Viewpoint(
        eye_m=(0.026, 0.0, 1.5),
        rotation=(0.0, -0.7068710396817377, 0.0, 0.7073424441239613),
        field_of_view_rad=0.31,
        shows_arm=False,
    ),
}
"""Both cameras look towards -x: at (-0.075, 0, 0.075), and down at (0.025, 0, 0).

From above, an image shows 0.46 m of the table along each side.
"""


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


Floats = npt.NDArray[np.float64]

TOOL = "panda_hand_tcp"
MAX_NUM_OUTCOMES = 512
"""Maximum number of cached motion results."""
MAX_PICTURE_BYTES = 8 << 20
"""Size of the image cache: worlds of a group start at the same table, and often stay alike."""
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
"""Linear colors of the cubes."""


class Engine:
    """A scene with a controllable arm; `outcomes` caches the results of motions."""

    def __init__(self) -> None:
        """Starts SAPIEN; raises `EngineUnavailableError` if it cannot run here."""
        require_engine()
        import sapien

        self.process_id = os.getpid()
        self.lock = threading.Lock()

        self._pose = sapien.Pose
        self._furniture = Furniture()
        self._robot = self._furniture.robot
        self._tool_index = [link.name for link in self._robot.links].index(TOOL)
        self._robot_bodies = set(self._robot.links)
        self._kinematics = self._robot.create_pinocchio_model()
        self._limits = self._robot.get_qlimits()[:NUM_ARM_JOINTS]
        self._cameras: dict[tuple[int, str], Any] = {}
        self._state: PrimitiveSkillState
        self._frame_x_m = 0.0
        self.outcomes: BoundedCache[tuple[PrimitiveSkillState, bool]] = BoundedCache(MAX_NUM_OUTCOMES)
        self._pictures: BoundedCache[npt.NDArray[np.uint8]] = BoundedCache(
            MAX_PICTURE_BYTES, size_of=lambda picture: picture.nbytes
        )
        self.targets: Floats = np.array(HOME_QPOS)

    # --- states in and out

    def put(self, state: PrimitiveSkillState) -> None:
        """Sets the scene to a state, without any memory of earlier ones."""
        self._furniture.renew()
        self.show(state)
        finger = HOME_QPOS[-1] if state.held is None else -0.01
        self.aim(np.array((*HOME_QPOS[:NUM_ARM_JOINTS], finger, finger)))

    def show(self, state: PrimitiveSkillState) -> None:
        """Moves everything to its position in a state, at rest, and sets the colors of the cubes."""
        furniture = self._furniture
        self._state, self._frame_x_m = state, FRAME_X_M[state.task]
        _set_joints(self._robot, state.qpos)
        for index, body in enumerate(furniture.cube_bodies):
            place = self._pose((PARKED_X_M, index * 0.2, FLOOR_M + CUBE_HALF_M), (1.0, 0.0, 0.0, 0.0))
            if index < len(state.cubes):
                cube = state.cubes[index]
                x, y, z = cube.position
                place = self._pose((x - self._frame_x_m, y, z), cube.rotation)
                furniture.cube_materials[index].set_base_color(RGB[cube.color])
            furniture.cubes[index].set_pose(place)
            body.set_linear_velocity([0.0, 0.0, 0.0])
            body.set_angular_velocity([0.0, 0.0, 0.0])
        for index, disc in enumerate(furniture.discs):
            is_used = index < len(state.targets)
            disc.set_pose(self._pose(state.targets[index].point if is_used else (PARKED_X_M, 1.0, FLOOR_M)))
        # The floor is far below a parked cabinet, where nothing touches it
        drawer = state.drawer
        furniture.cabinet.set_root_pose(
            self._pose([PARKED_X_M, 0.0, 0.0] if drawer is None else [0.0, drawer.y_mm / 1000, 0.0])
        )
        _set_joints(furniture.cabinet, [0.0 if drawer is None else drawer.open_m])

    def take(self) -> PrimitiveSkillState:
        """Returns the state that was put, with the current arm, cubes, and drawer."""
        cubes = []
        for cube, entity in zip(self._state.cubes, self._furniture.cubes, strict=False):
            x, y, z = map(float, entity.pose.p)
            w, a, b, c = map(float, entity.pose.q)
            cubes.append(replace(cube, position=(x + self._frame_x_m, y, z), rotation=(w, a, b, c)))
        drawer = self._state.drawer
        if drawer is not None:
            drawer = replace(drawer, open_m=float(self._furniture.cabinet.get_qpos()[0]))
        qpos = tuple(map(float, self._robot.get_qpos()))
        return replace(self._state, cubes=tuple(cubes), drawer=drawer, qpos=qpos)

    # --- motion, in ManiSkill's coordinates

    def scene_point(self, point_mm: Sequence[int]) -> Floats:
        """Converts a point of the state's task, in mm, to the scene, in m."""
        return np.array(point_mm, np.float64) / 1000 - (self._frame_x_m, 0.0, 0.0)

    def advance(self, duration_s: float) -> None:
        """Simulates a duration, rounded to whole steps."""
        for _ in range(max(1, round(duration_s / TIMESTEP_S))):
            self._furniture.physics.step()

    @property
    def tool_position(self) -> Floats:
        """Position of the point between the fingers, in m."""
        return np.array(self._robot.links[self._tool_index].entity_pose.p, np.float64)

    @property
    def finger_gap_m(self) -> float:
        """Distance between the fingers, in m."""
        return float(self._robot.get_qpos()[NUM_ARM_JOINTS:].sum())

    @property
    def cube_positions(self) -> Floats:
        """The cubes' centers, float64[num_cubes, 3], in m."""
        poses = [cube.pose.p for cube in self._furniture.cubes[: len(self._state.cubes)]]
        return np.array(poses, np.float64).reshape(-1, 3)

    def joints_for(self, position: Sequence[float], rotation: Quaternion, near: Floats) -> Floats | None:
        """Returns joint targets that bring the tool to a pose, or None if it is out of reach.

        Args:
            position: Position of the point between the fingers, in m.
            rotation: Rotation of the tool.
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
        """Sets the drive targets of the joints, float64[9]."""
        self.targets = np.array(joints, np.float64)
        for joint, target in zip(self._robot.active_joints, self.targets, strict=True):
            joint.set_drive_target(float(target))

    def touches(self, cube: int) -> bool:
        """Returns whether a cube touches anything but the arm."""
        body = self._furniture.cube_bodies[cube]
        for contact in self._furniture.physics.get_contacts():
            first, second = contact.bodies
            if body is first or body is second:
                other = second if body is first else first
                if other not in self._robot_bodies and any(point.separation < 1e-4 for point in contact.points):
                    return True
        return False

    def is_at_rest(self) -> bool:
        """Returns whether the arm, the cubes, and the drawer are at rest."""
        speeds = [np.abs(self._robot.get_qvel()).max(), np.abs(self._furniture.cabinet.get_qvel()).max()]
        for body in self._furniture.cube_bodies[: len(self._state.cubes)]:
            speeds.append(np.linalg.norm(body.get_linear_velocity()))
            speeds.append(np.linalg.norm(body.get_angular_velocity()) * CUBE_HALF_M)
        return bool(max(speeds) < _AT_REST_M_PER_S)

    # --- images

    def picture(self, state: PrimitiveSkillState, size_px: int, viewpoint: str = "front") -> npt.NDArray[np.uint8]:
        """Renders a state from a viewpoint, uint8[size_px, size_px, 3]."""
        return self._pictures.get((state, size_px, viewpoint), lambda: self._drawn(state, size_px, viewpoint)).copy()

    def _drawn(self, state: PrimitiveSkillState, size_px: int, viewpoint: str) -> npt.NDArray[np.uint8]:
        camera = self._cameras.get((size_px, viewpoint))
        if camera is None:
            camera = self._cameras[size_px, viewpoint] = _add_camera(self._furniture.scene, size_px, viewpoint)
        self.show(state)
        self._furniture.show_arm(VIEWPOINTS[viewpoint].shows_arm)
        self._furniture.rendering.step()
        camera.take_picture()
        fine: npt.NDArray[np.float32] = np.asarray(camera.get_picture("Color"), np.float32)[..., :3]
        coarse = fine.reshape(size_px, SUPERSAMPLING, size_px, SUPERSAMPLING, 3).mean(axis=(1, 3))
        picture: npt.NDArray[np.uint8] = (np.clip(coarse, 0.0, 1.0) * 255 + 0.5).astype(np.uint8)
        return picture


def _set_joints(articulation: Any, qpos: Sequence[float]) -> None:
    """Sets joint positions, at rest."""
    articulation.set_qpos(np.array(qpos, np.float32))
    articulation.set_qvel(np.zeros(len(qpos), np.float32))


def _add_camera(scene: Any, size_px: int, viewpoint: str) -> Any:
    """Adds a camera for images of one size; the first one lights the scene."""
    import sapien

    if not scene.get_cameras():
        _light(scene)
    side, place = size_px * SUPERSAMPLING, VIEWPOINTS[viewpoint]
    use_shaders()  # a ManiSkill environment in this process sets its own
    camera = scene.add_camera(viewpoint, side, side, place.field_of_view_rad, 0.05, 6.0)
    camera.entity.set_pose(sapien.Pose(place.eye_m, place.rotation))
    return camera


_running: weakref.WeakValueDictionary[str, Engine] = weakref.WeakValueDictionary()
_starting = threading.Lock()


class EngineHandle:
    """A reference to the process's engine, which starts on first use and stops with its last user.

    A copy, pickled or not, is a separate reference that has not been used yet.
    """

    _engine: Engine | None = None

    @contextmanager
    def use(self) -> Iterator[Engine]:
        """Yields the engine, starting it if necessary, to one thread at a time.

        Raises:
            EngineUnavailableError: If the engine cannot run here.
        """
        if self._engine is None:
            with _starting:
                self._engine = _running.get("engine") or Engine()
                _running["engine"] = self._engine
        if self._engine.process_id != os.getpid():
            raise EngineUnavailableError(
                "SAPIEN was started before this process was forked, and does not work in it; start worker processes "
                "with start_method='forkserver' or 'spawn'."
            )
        with self._engine.lock:
            yield self._engine

    def close(self) -> None:
        """Releases the engine; `use` would acquire it again."""
        self._engine = None

    def __getstate__(self) -> dict[str, Any]:
        return {}
