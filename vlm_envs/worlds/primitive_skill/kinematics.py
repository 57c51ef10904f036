"""Where the hand of the Panda is, by its joints alone: what a level claims to hold is checked without a simulator."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vlm_envs.worlds.primitive_skill.geometry import Vector

NUM_ARM_JOINTS = 7

_LINKS = (
    (0.0, 0.333, 0.0),
    (0.0, 0.0, -math.pi / 2),
    (0.0, 0.316, math.pi / 2),
    (0.0825, 0.0, math.pi / 2),
    (-0.0825, 0.384, -math.pi / 2),
    (0.0, 0.0, math.pi / 2),
    (0.088, 0.0, math.pi / 2),
)
"""a, d (in m) and alpha (in rad) of each joint, in Craig's convention. Source: Franka Emika's documentation."""

_HAND_M = 0.107 + 0.1034
"""From the last joint to the flange, and from there to the point between the fingertips."""


def tool_position(qpos: Sequence[float], base_x_m: float) -> Vector:
    """Returns the point between the fingertips in m.

    Args:
        qpos: Joint positions in rad; those after the seventh are the fingers' and are not used.
        base_x_m: x of the arm's base; it stands at y = z = 0.
    """
    pose = np.eye(4)
    for (a, d, alpha), angle in zip(_LINKS, qpos, strict=False):
        pose = pose @ _joint(a, d, alpha, angle)
    x, y, z = (pose @ (0.0, 0.0, _HAND_M, 1.0))[:3]
    return base_x_m + float(x), float(y), float(z)


def _joint(a: float, d: float, alpha: float, angle: float) -> NDArray[np.float64]:
    cos, sin, cos_alpha, sin_alpha = math.cos(angle), math.sin(angle), math.cos(alpha), math.sin(alpha)
    return np.array(
        [
            [cos, -sin, 0.0, a],
            [sin * cos_alpha, cos * cos_alpha, -sin_alpha, -d * sin_alpha],
            [sin * sin_alpha, cos * sin_alpha, cos_alpha, d * cos_alpha],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )
