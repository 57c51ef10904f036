"""The one place that talks to AI2-THOR: starting it, and putting its agent where a state says it is.

The simulator holds no state of ours. Before a picture is taken or an action is carried out, its agent is put where
the state says, unless it is there already; so states stay values, and steps stay functions of them.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import Any

from vlm_envs.errors import EngineUnavailableError
from vlm_envs.requirements import install_command
from vlm_envs.worlds.navigation.ai2thor_tasks import SceneState, heading_of, millimetres

VERSION = "5.0.0"
VISIBILITY_M = 10.0
"""How far away objects count as visible. Source: EmbodiedBench's navigation environment."""

_NO_BUILD = (
    "AI2-THOR has no Unity build for this machine: {error}. Its builds come from AI2's own server, by commit and "
    "platform. Get one where that server can be reached, by running Controller(platform=CloudRendering) once there, "
    "and copy it (it lies in ~/.ai2thor/releases); or build it from AI2-THOR's sources with Unity. Then pass the "
    "executable's path as local_executable_path."
)


class Ai2Thor:
    """A simulator that is started when it is first needed.

    Args:
        size_px: Width and height of the pictures.
        fov_degrees: Field of view.
        step_length_m: Distance of neighbouring places to stand.
        local_executable_path: A Unity build on this disk; None to let AI2-THOR find or download one.
        start: Makes the controller from its keyword arguments; for tests.

    Raises:
        EngineUnavailableError: If `local_executable_path` names no executable file.
    """

    def __init__(
        self,
        *,
        size_px: int,
        fov_degrees: float,
        step_length_m: float,
        local_executable_path: str | PathLike[str] | None = None,
        start: Callable[..., Any] | None = None,
    ) -> None:
        self._options: dict[str, Any] = {
            "agentMode": "default",
            "gridSize": step_length_m,
            "visibilityDistance": VISIBILITY_M,
            "width": size_px,
            "height": size_px,
            "fieldOfView": fov_degrees,
        }
        if local_executable_path is not None:
            path = os.fspath(local_executable_path)
            if not (os.path.isfile(path) and os.access(path, os.X_OK)):
                raise EngineUnavailableError(
                    f"local_executable_path={path!r} is no executable file; give the path of AI2-THOR's Unity build, "
                    "such as .../thor-CloudRendering-<commit>."
                )
            self._options["local_executable_path"] = path
        self._start = start_controller if start is None else start
        self._controller: Any = None
        self._event: Any = None
        self._shown: tuple[object, ...] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_controller": None, "_event": None, "_shown": None}

    def enter(self, scene: str) -> Any:
        """Returns the event of a freshly loaded scene.

        Raises:
            EngineUnavailableError: If the simulator cannot be started.
        """
        if self._controller is None:
            self._controller = self._start(**self._options)
        self._event = self._controller.reset(scene=scene)
        self._shown = None
        return self._event

    def at(self, state: SceneState) -> Any:
        """Returns the event of a state: its `frame` and its `metadata`."""
        if self._shown == _place(state):
            return self._event
        if self._controller is None or self._shown is None or self._shown[0] != state.scene:
            self.enter(state.scene)
        self._event = self._controller.step(
            action="TeleportFull",
            position={"x": state.x_mm / 1000, "y": state.y_mm / 1000, "z": state.z_mm / 1000},
            rotation={"x": 0, "y": 90 * state.heading, "z": 0},
            horizon=state.horizon,
            standing=True,
            forceAction=True,
        )
        self._shown = _place(state)
        return self._event

    def act(self, state: SceneState, action: str, **arguments: Any) -> SceneState:
        """Returns the state after an action, called as AI2-THOR calls it; the same one if the simulator refuses."""
        self.at(state)
        self._event = self._controller.step(action=action, **arguments)
        following = with_pose_of(state, self._event) if self._event.metadata["lastActionSuccess"] else state
        self._shown = _place(following)
        return following

    def reachable_m(self, scene: str) -> list[tuple[float, float]]:
        """Returns the (x, z) of every place in a scene where the agent can stand."""
        self.enter(scene)
        positions = self._controller.step(action="GetReachablePositions").metadata["actionReturn"]
        return [(position["x"], position["z"]) for position in positions]

    def close(self) -> None:
        """Ends the simulator; a later call starts it again."""
        if self._controller is not None:
            self._controller.stop()
        self._controller = self._event = self._shown = None


def with_pose_of(state: SceneState, event: Any) -> SceneState:
    """Returns a state with the agent where an event has it."""
    agent = event.metadata["agent"]
    position = agent["position"]
    return replace(
        state,
        x_mm=millimetres(position["x"]),
        y_mm=millimetres(position["y"]),
        z_mm=millimetres(position["z"]),
        heading=heading_of(agent["rotation"]["y"]),
        horizon=round(agent["cameraHorizon"]),
    )


def start_controller(**options: Any) -> Any:
    """Returns a running `ai2thor.controller.Controller` that renders without a display.

    Raises:
        EngineUnavailableError: If ai2thor is not installed, has no build for this machine, or does not start.
    """
    try:
        controller = importlib.import_module("ai2thor.controller")
        platform = importlib.import_module("ai2thor.platform")
    except ImportError as error:
        install = install_command("ai2thor")
        raise EngineUnavailableError(
            f"engine='ai2thor' needs the package ai2thor. Install it: {install} (ai2thor=={VERSION})."
        ) from error
    try:
        return controller.Controller(platform=platform.CloudRendering, **options)
    except Exception as error:  # downloads, Vulkan and Unity fail in many ways; each is told, none is hidden
        if "no build exists" in str(error):
            raise EngineUnavailableError(_NO_BUILD.format(error=error)) from error
        raise EngineUnavailableError(
            f"AI2-THOR did not start: {type(error).__name__}: {error}. CloudRendering needs a Vulkan driver, and the "
            "first start a download; a build on your disk is used with local_executable_path."
        ) from error


def _place(state: SceneState) -> tuple[object, ...]:
    return state.scene, state.x_mm, state.y_mm, state.z_mm, state.heading, state.horizon
