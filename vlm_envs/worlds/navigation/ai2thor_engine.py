"""Navigation in AI2-THOR's scenes: the same task with dynamics and view of another engine.

The simulator stores no episode state. Before an image is taken or an action is executed, its agent is moved
to the pose in the state, unless it is already there, so states remain values and steps remain functions of
them.
"""

from __future__ import annotations

import importlib
import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlm_envs.content.homes.home import LATTICE_CM, QUARTERS, words_of
from vlm_envs.errors import ConfigError, EngineUnavailableError, GenerationError, LevelError
from vlm_envs.parts import Dynamics, View
from vlm_envs.requirements import install_command
from vlm_envs.worlds.grids.grid_levels import descend
from vlm_envs.worlds.navigation import navigation_text
from vlm_envs.worlds.navigation.ai2thor_tasks import (
    SceneState,
    load_tasks,
    millimeters,
    parse_scene,
    pose_mm,
    scene_split,
    scene_text,
)
from vlm_envs.worlds.navigation.navigation_levels import ACTIONS, Action, Rules, Wanted
from vlm_envs.worlds.navigation.navigation_text import INSTRUCTION_SETS, PHRASES, NavigationStateDict, Sighting

VERSION = "5.0.0"
VISIBILITY_M = 10.0
"""Maximum distance of visible objects. Source: EmbodiedBench's navigation environment."""


class Ai2Thor:
    """A simulator that is started on first use.

    Args:
        size_px: Width and height of the images.
        fov_degrees: Field of view.
        step_length_m: Distance between neighboring places to stand.
        local_executable_path: A local Unity build; None to let AI2-THOR find or download one.
        start: Creates the controller from its keyword arguments; for tests.

    Raises:
        EngineUnavailableError: If `local_executable_path` is not an executable file.
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
                    f"local_executable_path={path!r} is not an executable file; give the path of AI2-THOR's Unity "
                    "build, "
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
        """Loads a scene and returns the event.

        Raises:
            EngineUnavailableError: If the simulator cannot be started.
        """
        if self._controller is None:
            self._controller = self._start(**self._options)
        self._event = self._controller.reset(scene=scene)
        self._shown = None
        return self._event

    def at(self, state: SceneState) -> Any:
        """Moves the agent to a state and returns the event, with its `frame` and `metadata`."""
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
        """Returns the state after an AI2-THOR action, or the same state if the simulator rejects it."""
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
        """Stops the simulator; a later call restarts it."""
        if self._controller is not None:
            self._controller.stop()
        self._controller = self._event = self._shown = None


def with_pose_of(state: SceneState, event: Any) -> SceneState:
    """Returns a state with the agent's pose in an event."""
    agent = event.metadata["agent"]
    return replace(state, **pose_mm(agent["position"], agent["rotation"]["y"], agent["cameraHorizon"]))


def start_controller(**options: Any) -> Any:
    """Starts an `ai2thor.controller.Controller` that renders without a display.

    Raises:
        EngineUnavailableError: If ai2thor is not installed, has no build for this machine, or does not start.
    """
    try:
        controller = importlib.import_module("ai2thor.controller")
        platform = importlib.import_module("ai2thor.platform")
    except ImportError as error:
        install = install_command("ai2thor")
        raise EngineUnavailableError(
            f"engine='ai2thor' needs the package ai2thor. Install it with {install} (ai2thor=={VERSION})."
        ) from error
    try:
        return controller.Controller(platform=platform.CloudRendering, **options)
    except Exception as error:  # downloads, Vulkan, and Unity fail in many ways; report all of them
        raise EngineUnavailableError(
            f"AI2-THOR did not start: {type(error).__name__}: {error}. CloudRendering needs a Vulkan driver, and "
            "the "
            "first start downloads a Unity build from AI2's server. If the server cannot be reached, copy a build "
            "from "
            "~/.ai2thor/releases of another machine, or build one from AI2-THOR's sources, and pass its path as "
            "local_executable_path."
        ) from error


def _place(state: SceneState) -> tuple[object, ...]:
    return state.scene, state.x_mm, state.y_mm, state.z_mm, state.heading, state.horizon


ITHOR_SCENES = tuple(f"FloorPlan{kind + number}" for kind in (0, 200, 300, 400) for number in range(1, 31))
"""AI2-THOR's kitchens, living rooms, bedrooms, and bathrooms."""

SETS_WITHOUT_FILE = ("base", "common_sense", "complex_instruction")
"""Instruction sets that only need an object's type; the others need a task file."""

NUM_SCENES_TRIED = 20
_NUM_STARTS = 30
_SNAP_MM = 25

Snapped = tuple[int, int]


class SceneDynamics(Dynamics[SceneState, Action]):
    """The rules of one configuration in AI2-THOR; the simulator decides whether a move is blocked.

    Args:
        thor: The simulator.
        rules: Rules of moves and success.
        wanted: Requirements for generated searches.
        scenes: Scenes to generate searches in.
        tasks: Searches to draw from instead of generating them.
    """

    steps_are_cheap = False

    def __init__(
        self,
        thor: Ai2Thor,
        rules: Rules,
        wanted: Wanted,
        *,
        scenes: Sequence[str] = ITHOR_SCENES,
        tasks: Sequence[SceneState] = (),
    ) -> None:
        self.thor, self.rules, self.wanted = thor, rules, wanted
        self.scenes, self.tasks = tuple(scenes), tuple(tasks)
        self.step_m = rules.num_steps * LATTICE_CM / 100
        self._distances: dict[tuple[str, int, int], dict[Snapped, int]] = {}
        self._places: dict[str, frozenset[Snapped]] = {}

    def generate(self, rng: np.random.Generator, split: str) -> SceneState:
        """Returns a task from the file, or a random search in a scene, of a split.

        Raises:
            GenerationError: If no search was found.
            EngineUnavailableError: If the simulator cannot be started.
        """
        if self.tasks:
            tasks = [task for task in self.tasks if scene_split(task.scene) == split]
            if not tasks:
                raise GenerationError(f"The task file has no scene of split {split!r}; use another split.")
            return tasks[int(rng.integers(len(tasks)))]
        scenes = [scene for scene in self.scenes if scene_split(scene) == split]
        for choice in rng.permutation(len(scenes))[:NUM_SCENES_TRIED].tolist():
            state = self._draw(rng, scenes[choice])
            if state is not None:
                return state
        raise GenerationError(
            f"No search with a shortest plan of {self.wanted.min_solution_length} to "
            f"{self.wanted.max_solution_length} actions was found in the {len(scenes)} scenes of split {split!r}."
        )

    def _draw(self, rng: np.random.Generator, scene: str) -> SceneState | None:
        """Returns a random search in a scene with the target in view, or None if a few attempts find none."""
        event = self.thor.enter(scene)
        height_m, objects = event.metadata["agent"]["position"]["y"], event.metadata["objects"]
        counts = Counter(thing["objectType"] for thing in objects)
        targets = [thing for thing in objects if counts[thing["objectType"]] == 1 and thing["objectType"] in PHRASES]
        places = sorted(self.thor.reachable_m(scene))
        for _ in range(_NUM_STARTS if targets and places else 0):
            target, (x, z) = targets[int(rng.integers(len(targets)))], places[int(rng.integers(len(places)))]
            state = SceneState(
                scene=scene,
                **pose_mm({"x": x, "y": height_m, "z": z}, 90 * int(rng.integers(4)), 0),
                target_id=target["objectId"],
                target_type=target["objectType"],
                target_x_mm=millimeters(target["position"]["x"]),
                target_z_mm=millimeters(target["position"]["z"]),
                instruction=self._sentence(rng, target["objectType"], sorted(counts)),
            )
            length = self._shortest(state)
            if length is not None and self.wanted.holds(length) and self._sees_target(state):
                return state
        return None

    def _sentence(self, rng: np.random.Generator, target_type: str, types: Sequence[str]) -> str:
        patterns, uses = INSTRUCTION_SETS[self.wanted.instruction_set], PHRASES[target_type].uses
        others = [other for other in types if other != target_type] or ["Door"]
        return patterns[int(rng.integers(len(patterns)))].format(
            name=words_of(target_type),
            use=uses[int(rng.integers(len(uses)))],
            other=words_of(others[int(rng.integers(len(others)))]),
        )

    def load(self, level: str) -> SceneState:
        """Returns the search in a level text; only the simulator could determine whether it is solvable.

        Raises:
            LevelError: If the text cannot be parsed, or the target counts as found already.
        """
        state = parse_scene(level)
        if self._is_near(state):
            raise LevelError("The agent must not start where the target counts as found; move it away.")
        return state

    def level_split(self, level: str) -> str:
        """Returns the split of the scene."""
        return scene_split(self.load(level).scene)

    def dump(self, state: SceneState) -> str:
        """Returns the search as JSON; `load` reads it back."""
        return scene_text(state)

    def step(self, state: SceneState, action: Action, rng: np.random.Generator) -> tuple[SceneState, bool]:
        """Executes an action in the simulator."""
        turns = action in (Action.ROTATE_RIGHT, Action.ROTATE_LEFT)
        arguments = {"moveMagnitude": self.step_m} if action.is_move else {"degrees": 90 if turns else 30}
        call = action.name.title().replace("_", "")  # such as MoveAhead
        following = self.thor.act(state, call, **arguments)
        return (state, False) if following == state else (following, True)

    def is_success(self, state: SceneState) -> bool:
        """Returns whether the target is near enough and, if the rules require it, visible."""
        return self._is_near(state) and (not self.rules.require_visible or self._sees_target(state))

    def plan(self, state: SceneState) -> tuple[Action, ...] | None:
        """Returns a plan with the fewest actions over the places that the simulator reports as reachable.

        None if there is no path, or if the target must be seen, which cannot be determined without going
        there.
        """
        if self.rules.require_visible:
            return None
        return descend(
            _snap(state.x_mm, state.z_mm),
            self._field(state).get,
            lambda place: ((action, self._beside(place, (state.heading + action) % 4)) for action in ACTIONS[:4]),
        )

    def close(self) -> None:
        """Stops the simulator."""
        self.thor.close()

    def _shortest(self, state: SceneState) -> int | None:
        return self._field(state).get(_snap(state.x_mm, state.z_mm))

    def _field(self, state: SceneState) -> dict[Snapped, int]:
        """Returns the fewest moves to the target from every reachable place of a scene."""
        key = state.scene, state.target_x_mm, state.target_z_mm
        if key not in self._distances:
            if state.scene not in self._places:
                places = self.thor.reachable_m(state.scene)
                self._places[state.scene] = frozenset(_snap(millimeters(x), millimeters(z)) for x, z in places)
            near = (
                (x, z)
                for x, z in sorted(self._places[state.scene])
                if self._is_near(replace(state, x_mm=x * _SNAP_MM, z_mm=z * _SNAP_MM))
            )
            self._distances[key] = self._search(dict.fromkeys(near, 0), self._places[state.scene])
        return self._distances[key]

    def _search(self, distances: dict[Snapped, int], places: frozenset[Snapped]) -> dict[Snapped, int]:
        frontier = deque(distances)
        while frontier:
            place = frontier.popleft()
            for direction in range(4):
                following = self._beside(place, direction)
                if following in places and following not in distances:
                    distances[following] = distances[place] + 1
                    frontier.append(following)
        return distances

    def _beside(self, place: Snapped, direction: int) -> Snapped:
        stride = round(self.step_m * 1000 / _SNAP_MM)
        return place[0] + QUARTERS[direction][0] * stride, place[1] + QUARTERS[direction][1] * stride

    def _is_near(self, state: SceneState) -> bool:
        east, north = state.target_x_mm - state.x_mm, state.target_z_mm - state.z_mm
        return east * east + north * north <= (10 * self.rules.success_cm) ** 2

    def _sees_target(self, state: SceneState) -> bool:
        objects = self.thor.at(state).metadata["objects"]
        return any(item["objectId"] == state.target_id and item["visible"] for item in objects)


class SceneView(View[SceneState]):
    """Images and texts of searches in AI2-THOR.

    Args:
        thor: The simulator.
        max_visible: Maximum number of visible objects in the state and its texts, nearest first.
    """

    def __init__(self, thor: Ai2Thor, *, max_visible: int) -> None:
        self.thor, self.max_visible = thor, max_visible

    def image(self, state: SceneState) -> NDArray[np.uint8]:
        """Returns the agent's view, uint8[size_px, size_px, 3]."""
        return np.ascontiguousarray(self.thor.at(state).frame, dtype=np.uint8)

    def structured(self, state: SceneState) -> NavigationStateDict:
        """Returns the search as plain data, with the objects that AI2-THOR reports as visible within 10 m."""
        seen = [
            Sighting(item["objectType"], *state.bearing(item["position"]["x"], item["position"]["z"]))
            for item in self.thor.at(state).metadata["objects"]
            if item["visible"]
        ]
        whole = navigation_text.state_dict(Sighting(state.target_type, *state.target_bearing), seen)
        return navigation_text.shortened(whole, self.max_visible)

    def describe(self, state: SceneState, representation: str) -> str:
        """Returns the search in words, `"natural_language"` or `"structured"`."""
        return navigation_text.describe(self.structured(state), representation)

    def close(self) -> None:
        """Stops the simulator."""
        self.thor.close()


def _snap(x_mm: int, z_mm: int) -> Snapped:
    """Rounds a place to a fine grid, so that the simulator's rounding does not matter."""
    return round(x_mm / _SNAP_MM), round(z_mm / _SNAP_MM)


def make_ai2thor(
    rules: Rules,
    wanted: Wanted,
    *,
    size_px: int,
    max_visible: int,
    local_executable_path: str | PathLike[str] | None,
    scenes: Sequence[str] | None,
    task_file: str | PathLike[str] | None,
) -> tuple[SceneDynamics, SceneView]:
    """Returns dynamics and view that share one simulator, not yet started; `scenes` None means all of iTHOR.

    Raises:
        ConfigError: If the instruction set needs a task file, or the file cannot be read.
        EngineUnavailableError: If `local_executable_path` is not an executable file.
    """
    if task_file is None and wanted.instruction_set not in SETS_WITHOUT_FILE:
        raise ConfigError(
            f"engine='ai2thor' generates instructions only for the sets {', '.join(SETS_WITHOUT_FILE)}; for "
            f"{wanted.instruction_set!r}, pass a task_file of that set."
        )
    if scenes is not None and not scenes:
        raise ConfigError("scenes must list at least one scene, such as ['FloorPlan1'], or be None for all of iTHOR.")
    thor = Ai2Thor(
        size_px=size_px,
        fov_degrees=rules.fov_degrees,
        step_length_m=rules.num_steps * LATTICE_CM / 100,
        local_executable_path=local_executable_path,
    )
    tasks = () if task_file is None else load_tasks(task_file)
    dynamics = SceneDynamics(thor, rules, wanted, scenes=scenes or ITHOR_SCENES, tasks=tasks)
    return dynamics, SceneView(thor, max_visible=max_visible)
