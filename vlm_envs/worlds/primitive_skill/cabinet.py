"""The cabinet: a box with a drawer on rails. Made of boxes here, because PartNet's cabinets need a download."""

from __future__ import annotations

from typing import Any

from vlm_envs.worlds.primitive_skill.geometry import (
    CUBE_HALF_M,
    DRAWER_CENTRE_X_M,
    DRAWER_FLOOR_M,
    DRAWER_HALF_SIZE_M,
    DRAWER_TRAVEL_M,
    HANDLE_X_M,
    HANDLE_Z_M,
    Vector,
)

_HALF_X, _HALF_Y = DRAWER_HALF_SIZE_M
_WALL = 0.004
"""Half the thickness of all walls, in m."""
_DRAWER_TOP, _CABINET_TOP = 0.044, 0.068
_GAP = 0.003
"""Play of the drawer in the cabinet, in m."""
_BODY_COLOR = (0.20, 0.24, 0.32, 1.0)
_DRAWER_COLOR = (0.75, 0.75, 0.72, 1.0)
_HANDLE_COLOR = (0.90, 0.42, 0.08, 1.0)
_RAIL_FRICTION, _RAIL_DAMPING = 0.05, 8.0
"""What makes the drawer stop where the arm leaves it."""

Box = tuple[Vector, Vector]
"""Centre and half size in m, in the cabinet's frame: its x is the table's, its y = 0 is the drawer's middle."""


def add_cabinet(scene: Any) -> Any:
    """Adds the cabinet to a scene and returns its articulation, whose only joint says how far it is open.

    The root stands at x = 0; turning the root's y moves the whole cabinet sideways.
    """
    builder = scene.create_articulation_builder()
    body = builder.create_link_builder()
    body.set_name("cabinet")
    for centre, half in _body_boxes():
        body.add_box_collision(pose=_at(centre), half_size=half)
        body.add_box_visual(pose=_at(centre), half_size=half, material=_BODY_COLOR)
    drawer = builder.create_link_builder(body)
    drawer.set_name("drawer")
    drawer.set_joint_name("rails")
    drawer.set_joint_properties("prismatic", [[0.0, DRAWER_TRAVEL_M]], _at((0, 0, 0)), _at((0, 0, 0)))
    for (centre, half), color in _drawer_boxes():
        drawer.add_box_collision(pose=_at(centre), half_size=half)
        drawer.add_box_visual(pose=_at(centre), half_size=half, material=color)
    cabinet = builder.build(fix_root_link=True)
    (rails,) = cabinet.active_joints
    rails.set_friction(_RAIL_FRICTION)
    rails.set_drive_properties(0.0, _RAIL_DAMPING)
    for link in cabinet.links:
        link.disable_gravity = True
    return cabinet


def _body_boxes() -> list[Box]:
    """Returns the cabinet's walls: top, two sides and back."""
    outer_x, outer_y = _HALF_X + 2 * _WALL + _GAP, _HALF_Y + 2 * _WALL + _GAP
    middle = _CABINET_TOP / 2
    return [
        ((DRAWER_CENTRE_X_M, 0.0, _CABINET_TOP - _WALL), (outer_x, outer_y + 2 * _WALL, _WALL)),
        ((DRAWER_CENTRE_X_M, -outer_y - _WALL, middle - _WALL), (outer_x, _WALL, middle - _WALL)),
        ((DRAWER_CENTRE_X_M, outer_y + _WALL, middle - _WALL), (outer_x, _WALL, middle - _WALL)),
        ((DRAWER_CENTRE_X_M - outer_x + _WALL, 0.0, middle - _WALL), (_WALL, outer_y, middle - _WALL)),
    ]


def _drawer_boxes() -> list[tuple[Box, tuple[float, float, float, float]]]:
    """Returns the drawer's floor, walls, and the handle on its two stems, with their colours."""
    x, middle, half_height = DRAWER_CENTRE_X_M, (_DRAWER_TOP + 0.002) / 2, (_DRAWER_TOP - 0.002) / 2
    floor = (DRAWER_FLOOR_M - 0.002) / 2
    outer_y = _HALF_Y + 2 * _WALL
    front = x + _HALF_X + _WALL
    walls = [
        ((x, 0.0, 0.002 + floor), (_HALF_X, _HALF_Y, floor)),
        ((front, 0.0, middle), (_WALL, outer_y, half_height)),
        ((x - _HALF_X - _WALL, 0.0, middle), (_WALL, outer_y, half_height)),
        ((x, -_HALF_Y - _WALL, middle), (_HALF_X, _WALL, half_height)),
        ((x, _HALF_Y + _WALL, middle), (_HALF_X, _WALL, half_height)),
    ]
    stem_half = (HANDLE_X_M - CUBE_HALF_M - front - _WALL) / 2
    stem_x = front + _WALL + stem_half
    stems = [((stem_x, side * 0.05, HANDLE_Z_M - 0.008), (stem_half, 0.005, 0.005)) for side in (-1, 1)]
    bar = ((HANDLE_X_M, 0.0, HANDLE_Z_M - 0.008), (CUBE_HALF_M, 0.055, 0.008))
    return [*((box, _DRAWER_COLOR) for box in walls), *((box, _HANDLE_COLOR) for box in (*stems, bar))]


def _at(position: Vector) -> Any:
    """Returns the pose of a position."""
    import sapien

    return sapien.Pose(position)
