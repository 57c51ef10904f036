"""What the table looks like, as a picture and in each text form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vlm_envs.parts import View
from vlm_envs.spaces import MAX_RESOLUTION
from vlm_envs.validation import require_choice, require_positive
from vlm_envs.worlds.primitive_skill import state_text
from vlm_envs.worlds.primitive_skill.camera import VIEWPOINTS
from vlm_envs.worlds.primitive_skill.engine import EngineHandle
from vlm_envs.worlds.primitive_skill.state import PrimitiveSkillState


class PrimitiveSkillView(View[PrimitiveSkillState]):
    """Pictures and texts of tables.

    Args:
        engine: The claim on the simulator.
        resolution: Side of the pictures in pixels, 32 to 2048.
        camera: `"front"` or `"above"`.

    Raises:
        ConfigError: If the resolution is out of range, or there is no such camera.
    """

    def __init__(self, *, engine: EngineHandle, resolution: int = 256, camera: str = "front") -> None:
        self.resolution = require_positive("resolution", resolution, minimum=32, maximum=MAX_RESOLUTION)
        self.camera = require_choice("camera", camera, VIEWPOINTS)
        self._engine = engine

    def image(self, state: PrimitiveSkillState) -> NDArray[np.uint8]:
        """Returns the camera's picture, uint8[resolution, resolution, 3].

        Raises:
            EngineUnavailableError: If the renderer cannot run here.
        """
        with self._engine.use() as engine:
            return engine.picture(state, self.resolution, self.camera)

    def structured(self, state: PrimitiveSkillState) -> state_text.StateDict:
        """Returns the table as plain data."""
        return state_text.structured(state)

    def describe(self, state: PrimitiveSkillState, representation: str) -> str:
        """Returns the table in words: `"natural_language"` or `"structured"`."""
        return state_text.describe(state, representation)

    def close(self) -> None:
        """Lets go of the renderer."""
        self._engine.close()
