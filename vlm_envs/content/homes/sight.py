"""What one sees from a place: in the field of view, and not hidden by walls or solid furniture."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlm_envs.content.homes.free_space import Floats, Geometry, geometry
from vlm_envs.content.homes.home import LATTICE_CM, QUARTERS, Home

EYE_HEIGHT_M = 1.3
MAX_TILT = 2
TILT_DEGREES = 30


class Pose(NamedTuple):
    """Where the agent stands and looks; whole numbers, so poses are exact.

    Attributes:
        x: East coordinate in lattice steps.
        y: North coordinate in lattice steps.
        heading: Quarter turns clockwise from north, 0 to 3.
        tilt: Steps of 30 degrees upwards, -2 to 2.
    """

    x: int
    y: int
    heading: int
    tilt: int


def bearing(pose: Pose, x_m: float, y_m: float) -> tuple[float, float]:
    """Returns how far a place lies ahead and to the right of the agent, in metres."""
    east, north = x_m - pose.x * LATTICE_CM / 100, y_m - pose.y * LATTICE_CM / 100
    ahead_x, ahead_y = QUARTERS[pose.heading]
    return east * ahead_x + north * ahead_y, east * ahead_y - north * ahead_x


def direction_of(ahead: float, right: float) -> str:
    """Returns the quarter a bearing lies in: within 45 degrees of ahead, left, right or back.

    Exactly diagonal counts as ahead or back; the agent's own place counts as ahead.
    """
    if abs(right) <= abs(ahead):
        return "ahead" if ahead >= 0 else "back"
    return "right" if right > 0 else "left"


def seen_things(home: Home, pose: Pose, fov_degrees: float) -> tuple[int, ...]:
    """Returns the numbers of the things whose middle is in the picture and not hidden, in no particular order.

    Args:
        home: The home.
        pose: Where the agent stands and looks.
        fov_degrees: Horizontal, and vertical, field of view.

    Returns:
        Indices into `home.things`. A thing may hide others, never itself; doors hide nothing.
    """
    space = geometry(home)
    eye = _eye_m(pose)
    rays = space.middles_m - eye
    framed = np.flatnonzero(_is_framed(rays, pose, fov_degrees))
    if framed.size == 0:
        return ()
    hidden = _is_hidden(space, eye, rays[framed], framed)
    return tuple(framed[~hidden].tolist())


def can_see(home: Home, pose: Pose, thing: int, fov_degrees: float) -> bool:
    """Returns whether one thing is seen; as in `seen_things`."""
    space = geometry(home)
    eye = _eye_m(pose)
    ray = space.middles_m[thing : thing + 1] - eye
    if not _is_framed(ray, pose, fov_degrees)[0]:
        return False
    return not _is_hidden(space, eye, ray, np.array([thing]))[0]


def _eye_m(pose: Pose) -> Floats:
    return np.array([pose.x * LATTICE_CM / 100, pose.y * LATTICE_CM / 100, EYE_HEIGHT_M])


def _is_framed(rays: Floats, pose: Pose, fov_degrees: float) -> NDArray[np.bool_]:
    """Returns which rays, float64[N, 3], end inside the picture."""
    ahead_x, ahead_y = QUARTERS[pose.heading]
    ahead = rays[:, 0] * ahead_x + rays[:, 1] * ahead_y
    right = rays[:, 0] * ahead_y - rays[:, 1] * ahead_x
    tilt = math.radians(pose.tilt * TILT_DEGREES)
    depth = ahead * math.cos(tilt) + rays[:, 2] * math.sin(tilt)
    up = rays[:, 2] * math.cos(tilt) - ahead * math.sin(tilt)
    reach = depth * math.tan(math.radians(fov_degrees) / 2)
    framed: NDArray[np.bool_] = (depth > 0) & (np.abs(right) <= reach) & (np.abs(up) <= reach)
    return framed


def _is_hidden(space: Geometry, eye: Floats, rays: Floats, things: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns which rays pass through a blocker other than the thing they lead to.

    A ray enters a box where it has entered all three of its slabs, and leaves it where it leaves the first.
    """
    inverse = 1.0 / np.where(rays == 0.0, 1e-12, rays)  # level or straight rays graze two of the slabs
    to_low = (space.blockers_m[0][None] - eye) * inverse[:, None]
    to_high = (space.blockers_m[1][None] - eye) * inverse[:, None]
    enters = np.minimum(to_low, to_high).max(axis=2)
    leaves = np.maximum(to_low, to_high).min(axis=2)
    blocks = (enters < leaves) & (leaves > 0.0) & (enters < 0.999)
    blocks &= space.blocker_things[None] != things[:, None]
    hidden: NDArray[np.bool_] = blocks.any(axis=1)
    return hidden
