"""What a search looks like through the agent's eyes, and in each text form."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vlm_envs.content.homes import panda_engine
from vlm_envs.content.homes.home import LATTICE_CM
from vlm_envs.content.homes.sight import EYE_HEIGHT_M, TILT_DEGREES, bearing, seen_things
from vlm_envs.parts import View
from vlm_envs.worlds.navigation import state_text
from vlm_envs.worlds.navigation.state import NavigationState
from vlm_envs.worlds.navigation.state_text import NavigationStateDict, Sighting, shortened, state_dict


class HomeView(View[NavigationState]):
    """Pictures and texts of searches in procedural homes.

    Args:
        size_px: Width and height of the pictures.
        fov_degrees: Horizontal and vertical field of view.
        max_visible: How many visible objects the state and its texts name, the nearest first.
    """

    def __init__(self, *, size_px: int, fov_degrees: float, max_visible: int) -> None:
        self.size_px, self.fov_degrees, self.max_visible = size_px, fov_degrees, max_visible

    def image(self, state: NavigationState) -> NDArray[np.uint8]:
        """Returns what the agent sees, uint8[size_px, size_px, 3].

        Raises:
            EngineUnavailableError: If the software renderer is not installed.
        """
        x, y, heading, tilt = state.pose
        camera = panda_engine.Camera(
            x_m=x * LATTICE_CM / 100,
            y_m=y * LATTICE_CM / 100,
            z_m=EYE_HEIGHT_M,
            heading_degrees=heading * 90,
            tilt_degrees=tilt * TILT_DEGREES,
            fov_degrees=self.fov_degrees,
            size_px=self.size_px,
        )
        return panda_engine.engine().picture(state.home, camera)

    def structured(self, state: NavigationState) -> NavigationStateDict:
        """Returns the search as plain data, the caller's own."""
        return shortened(_structured(state, self.fov_degrees), self.max_visible)

    def describe(self, state: NavigationState, representation: str) -> str:
        """Returns the search in words; raises `ConfigError` for an unknown representation."""
        return state_text.describe(self.structured(state), representation)


@lru_cache(maxsize=1024)
def _structured(state: NavigationState, fov_degrees: float) -> NavigationStateDict:
    """Returns the search as plain data; every step asks for it twice, as data and in words."""
    seen = [
        Sighting(thing.kind, *bearing(state.pose, thing.x_cm / 100, thing.y_cm / 100))
        for thing in map(state.home.things.__getitem__, seen_things(state.home, state.pose, fov_degrees))
    ]
    return state_dict(Sighting(state.target_type, *state.target_bearing), seen)
