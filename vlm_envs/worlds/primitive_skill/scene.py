"""The furniture: table, Panda, cubes, discs and cabinet, built once from boxes and ManiSkill's robot model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlm_envs.worlds.primitive_skill.cabinet import add_cabinet
from vlm_envs.worlds.primitive_skill.geometry import BASE_X_M, CUBE_HALF_M, TARGET_RADIUS_M, Vector
from vlm_envs.worlds.primitive_skill.state import HOME_QPOS, MAX_NUM_CUBES
from vlm_envs.worlds.primitive_skill.vulkan import mani_skill_assets

Rgba = tuple[float, float, float, float]

SHADERS = Path(__file__).parent / "shaders"
TIMESTEP_S = 0.01
ARM_STIFFNESS, ARM_DAMPING, FORCE_LIMIT = 1e3, 1e2, 100.0
"""Gains of all joints, Nm/rad and N/m. Source: ManiSkill 3.0.1, `Panda`."""

FLOOR_M = -0.92
PARKED_X_M = 4.0
"""Where things that a task does not use stand: on the floor behind the camera."""

WOOD: Rgba = (0.52, 0.38, 0.26, 1.0)
FLOOR: Rgba = (0.24, 0.26, 0.29, 1.0)
TARGET: Rgba = (0.10, 0.16, 0.30, 1.0)


@dataclass(kw_only=True)
class Furniture:
    """Handles of a built scene; the types are SAPIEN's.

    Attributes:
        scene: The scene; `renew` replaces it.
        physics: Its physics system; `renew` replaces it.
        rendering: Its render system.
        robot: The Panda.
        arm_bodies: What is drawn of it.
        cubes: The cubes' entities.
        cube_bodies: Their rigid bodies.
        cube_materials: Their surfaces, for recolouring.
        discs: The targets' entities.
        cabinet: The cabinet with its drawer.
    """

    scene: Any
    physics: Any
    rendering: Any
    robot: Any
    arm_bodies: tuple[Any, ...]
    cubes: tuple[Any, ...]
    cube_bodies: tuple[Any, ...]
    cube_materials: tuple[Any, ...]
    discs: tuple[Any, ...]
    cabinet: Any

    def show_arm(self, is_shown: bool) -> None:
        """Has the arm be drawn in pictures, or not."""
        for body in self.arm_bodies:
            body.visibility = float(is_shown)

    def renew(self) -> None:
        """Moves everything into a new scene, whose physics remembers nothing; takes 0.2 ms."""
        import sapien

        entities = list(self.scene.entities)
        for entity in entities:
            self.scene.remove_entity(entity)
        self.physics = _physics()
        self.scene = sapien.Scene([self.physics, self.rendering])
        for entity in entities:
            self.scene.add_entity(entity)


def build() -> Furniture:
    """Returns a new scene on the CPU: PhysX for motion, software Vulkan for pictures."""
    import sapien

    sapien.set_log_level("error")  # its warnings are about the robot model's unused parts
    sapien.physx.set_scene_config(enable_enhanced_determinism=True, enable_tgs=True, bounce_threshold=2.0)
    sapien.physx.set_body_config(solver_position_iterations=15, solver_velocity_iterations=1)
    sapien.render.set_camera_shader_dir(str(SHADERS))
    physics, rendering = _physics(), sapien.render.RenderSystem(sapien.Device("cpu"))
    scene = sapien.Scene([physics, rendering])
    robot = _add_robot(scene)
    _add_static_box(scene, centre=(-0.12, 0.0, FLOOR_M / 2), half=(0.65, 1.1, -FLOOR_M / 2), color=WOOD)
    _add_static_box(scene, centre=(0.0, 0.0, FLOOR_M - 0.1), half=(8.0, 8.0, 0.1), color=FLOOR)
    cubes = tuple(_add_cube(scene) for _ in range(MAX_NUM_CUBES))
    return Furniture(
        scene=scene,
        physics=physics,
        rendering=rendering,
        robot=robot,
        arm_bodies=tuple(filter(None, (_body_of(link.entity) for link in robot.links))),
        cubes=cubes,
        cube_bodies=tuple(cube.find_component_by_type(sapien.physx.PhysxRigidDynamicComponent) for cube in cubes),
        cube_materials=tuple(_material_of(cube) for cube in cubes),
        discs=tuple(_add_disc(scene) for _ in range(2)),
        cabinet=add_cabinet(scene),
    )


def _physics() -> Any:
    """Returns a new, empty physics system."""
    import sapien

    physics = sapien.physx.PhysxCpuSystem()
    physics.timestep = TIMESTEP_S
    return physics


def _add_robot(scene: Any) -> Any:
    """Adds ManiSkill's Panda with its gains; gravity is balanced, as its controllers do."""
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


def _add_static_box(scene: Any, *, centre: Vector, half: Vector, color: Rgba) -> None:
    """Adds a box that never moves."""
    import sapien

    builder = scene.create_actor_builder()
    builder.add_box_collision(half_size=half)
    builder.add_box_visual(half_size=half, material=color)
    builder.set_initial_pose(sapien.Pose(centre))
    builder.build_static()


def _add_cube(scene: Any) -> Any:
    """Adds a cube."""
    builder = scene.create_actor_builder()
    half = [CUBE_HALF_M] * 3
    builder.add_box_collision(half_size=half)
    builder.add_box_visual(half_size=half, material=(1.0, 1.0, 1.0, 1.0))
    return builder.build()


def _add_disc(scene: Any) -> Any:
    """Adds a flat disc that nothing touches."""
    import sapien

    builder = scene.create_actor_builder()
    upright = sapien.Pose(q=[0.5**0.5, 0.0, 0.5**0.5, 0.0])  # a cylinder's axis is x
    builder.add_cylinder_visual(pose=upright, radius=TARGET_RADIUS_M, half_length=0.0008, material=TARGET)
    return builder.build_kinematic()


def _body_of(entity: Any) -> Any:
    """Returns what is drawn of an entity, or None."""
    import sapien

    return entity.find_component_by_type(sapien.render.RenderBodyComponent)


def _material_of(entity: Any) -> Any:
    """Returns the surface of an entity's only shape."""
    return _body_of(entity).render_shapes[0].material
