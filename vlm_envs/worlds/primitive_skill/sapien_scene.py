"""The bodies of a SAPIEN scene, and a check that the engine can render here.

An incompatible Vulkan driver may kill the whole process instead of raising, so the first start is tried in a
separate process.
"""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

from vlm_envs.errors import EngineUnavailableError
from vlm_envs.requirements import install_command
from vlm_envs.worlds.primitive_skill.skill_state import (
    BASE_X_M,
    CUBE_HALF_M,
    DRAWER_CENTRE_X_M,
    DRAWER_FLOOR_M,
    DRAWER_HALF_SIZE_M,
    DRAWER_TRAVEL_M,
    HANDLE_X_M,
    HANDLE_Z_M,
    HOME_QPOS,
    MAX_NUM_CUBES,
    TARGET_RADIUS_M,
    Vector,
)

PROBE_TIMEOUT_S = 120
INSTALL_DRIVER = (
    "install a software Vulkan driver, Mesa's lavapipe of 2024 or later: on Debian 12 that is "
    "`apt-get install -t bookworm-backports mesa-vulkan-drivers libvulkan1` after adding the suite "
    "bookworm-backports to the sources, on newer Debian and Ubuntu `apt-get install mesa-vulkan-drivers libvulkan1`"
)

_PROBE = """
import sapien
sapien.set_log_level("off")
scene = sapien.Scene([sapien.physx.PhysxCpuSystem(), sapien.render.RenderSystem(sapien.Device("cpu"))])
print("started")
"""


def mani_skill_assets() -> Path:
    """Returns the folder of ManiSkill's assets without importing ManiSkill, which would import torch.

    Raises:
        EngineUnavailableError: If ManiSkill or SAPIEN is not installed.
    """
    for package in ("sapien", "mani_skill"):
        if importlib.util.find_spec(package) is None:
            install = install_command("manipulation")
            raise EngineUnavailableError(f"PrimitiveSkill needs the package {package}. Run: {install}")
    spec = importlib.util.find_spec("mani_skill")
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "assets"


@functools.cache
def why_unavailable() -> str | None:
    """Returns why the engine cannot run here, with a suggestion, or None if it can; tested once per process."""
    try:
        mani_skill_assets()
        trial = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except EngineUnavailableError as error:
        return str(error)
    except subprocess.TimeoutExpired:
        return f"SAPIEN did not start its renderer within {PROBE_TIMEOUT_S} s; {INSTALL_DRIVER}"
    if trial.returncode == 0 and "started" in trial.stdout:
        return None
    last_words = (trial.stderr.strip() or "nothing was printed").splitlines()[-1]
    return f"SAPIEN could not start its renderer (exit status {trial.returncode}: {last_words}); {INSTALL_DRIVER}"


def require_engine() -> None:
    """Raises `EngineUnavailableError`, with a suggestion, unless the engine can run here."""
    reason = why_unavailable()
    if reason is not None:
        raise EngineUnavailableError(reason)


Rgba = tuple[float, float, float, float]

_HALF_X, _HALF_Y = DRAWER_HALF_SIZE_M
_WALL = 0.004
"""Half the thickness of all walls, in m."""
_DRAWER_TOP, _CABINET_TOP = 0.044, 0.068
_GAP = 0.003
"""Clearance of the drawer in the cabinet, in m."""
_BODY_COLOR = (0.20, 0.24, 0.32, 1.0)
_DRAWER_COLOR = (0.75, 0.75, 0.72, 1.0)
_HANDLE_COLOR = (0.90, 0.42, 0.08, 1.0)
_RAIL_FRICTION, _RAIL_DAMPING = 0.05, 8.0
"""Damping that stops the drawer where the arm leaves it."""

Box = tuple[Vector, Vector]
"""Center and half size in m, in the cabinet's frame: its x is the table's; y = 0 is the middle of the
drawer."""


def add_cabinet(scene: Any) -> Any:
    """Adds the cabinet to a scene and returns its articulation, whose only joint is the opening of the drawer.

    The root is at x = 0; moving its y moves the whole cabinet sideways.
    """
    builder = scene.create_articulation_builder()
    body = builder.create_link_builder()
    body.set_name("cabinet")
    _add_boxes(body, _body_boxes(), _BODY_COLOR)
    drawer = builder.create_link_builder(body)
    drawer.set_name("drawer")
    drawer.set_joint_name("rails")
    drawer.set_joint_properties("prismatic", [[0.0, DRAWER_TRAVEL_M]], _at((0, 0, 0)), _at((0, 0, 0)))
    walls, handle = _drawer_boxes()
    _add_boxes(drawer, walls, _DRAWER_COLOR)
    _add_boxes(drawer, handle, _HANDLE_COLOR)
    cabinet = builder.build(fix_root_link=True)
    (rails,) = cabinet.active_joints
    rails.set_friction(_RAIL_FRICTION)
    rails.set_drive_properties(0.0, _RAIL_DAMPING)
    for link in cabinet.links:
        link.disable_gravity = True
    return cabinet


def _add_boxes(link: Any, boxes: list[Box], color: Rgba) -> None:
    for center, half in boxes:
        link.add_box_collision(pose=_at(center), half_size=half)
        link.add_box_visual(pose=_at(center), half_size=half, material=color)


def _body_boxes() -> list[Box]:
    """Returns the cabinet's walls: top, two sides, and back."""
    outer_x, outer_y = _HALF_X + 2 * _WALL + _GAP, _HALF_Y + 2 * _WALL + _GAP
    middle = _CABINET_TOP / 2
    return [
        ((DRAWER_CENTRE_X_M, 0.0, _CABINET_TOP - _WALL), (outer_x, outer_y + 2 * _WALL, _WALL)),
        ((DRAWER_CENTRE_X_M, -outer_y - _WALL, middle - _WALL), (outer_x, _WALL, middle - _WALL)),
        ((DRAWER_CENTRE_X_M, outer_y + _WALL, middle - _WALL), (outer_x, _WALL, middle - _WALL)),
        ((DRAWER_CENTRE_X_M - outer_x + _WALL, 0.0, middle - _WALL), (_WALL, outer_y, middle - _WALL)),
    ]


def _drawer_boxes() -> tuple[list[Box], list[Box]]:
    """Returns the drawer's floor and walls, and the handle with its two stems."""
    x, middle, half_height = DRAWER_CENTRE_X_M, (_DRAWER_TOP + 0.002) / 2, (_DRAWER_TOP - 0.002) / 2
    floor = (DRAWER_FLOOR_M - 0.002) / 2
    outer_y = _HALF_Y + 2 * _WALL
    front = x + _HALF_X + _WALL
    walls: list[Box] = [
        ((x, 0.0, 0.002 + floor), (_HALF_X, _HALF_Y, floor)),
        ((front, 0.0, middle), (_WALL, outer_y, half_height)),
        ((x - _HALF_X - _WALL, 0.0, middle), (_WALL, outer_y, half_height)),
        ((x, -_HALF_Y - _WALL, middle), (_HALF_X, _WALL, half_height)),
        ((x, _HALF_Y + _WALL, middle), (_HALF_X, _WALL, half_height)),
    ]
    stem_half = (HANDLE_X_M - CUBE_HALF_M - front - _WALL) / 2
    stem_x = front + _WALL + stem_half
    stems: list[Box] = [((stem_x, side * 0.05, HANDLE_Z_M - 0.008), (stem_half, 0.005, 0.005)) for side in (-1, 1)]
    bar: Box = ((HANDLE_X_M, 0.0, HANDLE_Z_M - 0.008), (CUBE_HALF_M, 0.055, 0.008))
    return walls, [*stems, bar]


def _at(position: Vector) -> Any:
    """Returns a pose without rotation."""
    import sapien

    return sapien.Pose(position)


SHADERS = Path(__file__).parent / "shaders"
TIMESTEP_S = 0.01
ARM_STIFFNESS, ARM_DAMPING, FORCE_LIMIT = 1e3, 1e2, 100.0
"""Gains of all joints, Nm/rad and N/m. Source: ManiSkill 3.0.1, `Panda`."""

FLOOR_M = -0.92
PARKED_X_M = 4.0
"""Position of things that a task does not use: on the floor behind the camera."""

WOOD: Rgba = (0.52, 0.38, 0.26, 1.0)
FLOOR: Rgba = (0.24, 0.26, 0.29, 1.0)
TARGET: Rgba = (0.10, 0.16, 0.30, 1.0)


class Furniture:
    """A new scene on the CPU: PhysX for motion, software Vulkan for images. The types are SAPIEN's.

    Attributes:
        scene: The scene; `renew` replaces it.
        physics: Its physics system; `renew` replaces it.
        rendering: Its render system.
        robot: The Panda arm.
        arm_bodies: The arm's render bodies.
        cubes: The cubes' entities.
        cube_bodies: Their rigid bodies.
        cube_materials: Their materials, for recoloring.
        discs: The targets' entities.
        cabinet: The cabinet with its drawer.
    """

    def __init__(self) -> None:
        import sapien

        def drawn(entity: Any) -> Any:
            return entity.find_component_by_type(sapien.render.RenderBodyComponent)

        sapien.set_log_level("error")  # its warnings are about the robot model's unused parts
        sapien.physx.set_scene_config(enable_enhanced_determinism=True, enable_tgs=True, bounce_threshold=2.0)
        sapien.physx.set_body_config(solver_position_iterations=15, solver_velocity_iterations=1)
        use_shaders()
        self.physics, self.rendering = _physics(), sapien.render.RenderSystem(sapien.Device("cpu"))
        scene = self.scene = sapien.Scene([self.physics, self.rendering])
        self.robot = _add_robot(scene)
        _add_static_box(scene, center=(-0.12, 0.0, FLOOR_M / 2), half=(0.65, 1.1, -FLOOR_M / 2), color=WOOD)
        _add_static_box(scene, center=(0.0, 0.0, FLOOR_M - 0.1), half=(8.0, 8.0, 0.1), color=FLOOR)
        self.cubes = [_add_cube(scene) for _ in range(MAX_NUM_CUBES)]
        self.arm_bodies = [body for link in self.robot.links if (body := drawn(link.entity))]
        dynamic = sapien.physx.PhysxRigidDynamicComponent
        self.cube_bodies = [cube.find_component_by_type(dynamic) for cube in self.cubes]
        self.cube_materials = [drawn(cube).render_shapes[0].material for cube in self.cubes]
        self.discs = [_add_disc(scene) for _ in range(2)]
        self.cabinet = add_cabinet(scene)

    def show_arm(self, is_shown: bool) -> None:
        """Shows or hides the arm in images."""
        for body in self.arm_bodies:
            body.visibility = float(is_shown)

    def renew(self) -> None:
        """Moves everything into a new scene, whose physics has no memory; takes 0.2 ms."""
        import sapien

        entities = list(self.scene.entities)
        for entity in entities:
            self.scene.remove_entity(entity)
        self.physics = _physics()
        self.scene = sapien.Scene([self.physics, self.rendering])
        for entity in entities:
            self.scene.add_entity(entity)


def use_shaders() -> None:
    """Sets shaders and pixel format for cameras added later in this process."""
    import sapien

    sapien.render.set_camera_shader_dir(str(SHADERS))
    sapien.render.set_picture_format("Color", "r32g32b32a32sfloat")


def _physics() -> Any:
    """Returns a new, empty physics system."""
    import sapien

    physics = sapien.physx.PhysxCpuSystem()
    physics.timestep = TIMESTEP_S
    return physics


def _add_robot(scene: Any) -> Any:
    """Adds ManiSkill's Panda with its gains; gravity is compensated as by ManiSkill's controllers."""
    import sapien

    loader = scene.create_urdf_loader()
    loader.fix_root_link = True
    for finger in ("panda_leftfinger", "panda_rightfinger"):
        loader.set_link_material(finger, 2.0, 2.0, 0.0)
        loader.set_link_patch_radius(finger, 0.1)
        loader.set_link_min_patch_radius(finger, 0.1)
    robot = loader.load(str(mani_skill_assets() / "robots" / "panda" / "panda_v2.urdf"))
    robot.set_root_pose(sapien.Pose([BASE_X_M, 0.0, 0.0]))
    for joint, position in zip(robot.active_joints, HOME_QPOS, strict=True):
        joint.set_drive_properties(ARM_STIFFNESS, ARM_DAMPING, force_limit=FORCE_LIMIT, mode="force")
        joint.set_drive_target(position)
        joint.set_friction(0.0)
    for link in robot.links:
        link.disable_gravity = True
    return robot


def _add_static_box(scene: Any, *, center: Vector, half: Vector, color: Rgba) -> None:
    import sapien

    builder = scene.create_actor_builder()
    builder.add_box_collision(half_size=half)
    builder.add_box_visual(half_size=half, material=color)
    builder.set_initial_pose(sapien.Pose(center))
    builder.build_static()


def _add_cube(scene: Any) -> Any:
    builder, half = scene.create_actor_builder(), [CUBE_HALF_M] * 3
    builder.add_box_collision(half_size=half)
    builder.add_box_visual(half_size=half, material=(1.0, 1.0, 1.0, 1.0))
    return builder.build()


def _add_disc(scene: Any) -> Any:
    """Adds a flat disc without collision."""
    import sapien

    builder = scene.create_actor_builder()
    upright = sapien.Pose(q=[0.5**0.5, 0.0, 0.5**0.5, 0.0])  # a cylinder's axis is x
    builder.add_cylinder_visual(pose=upright, radius=TARGET_RADIUS_M, half_length=0.0008, material=TARGET)
    return builder.build_kinematic()
