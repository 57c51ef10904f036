"""The cameras that look at the table, from the front or from above, and its lights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
