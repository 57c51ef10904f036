"""Searches in AI2-THOR's scenes: their states, and the task files that describe them.

A task file is JSON in the form of EmbodiedBench's navigation sets (one file per set)::

    {"tasks": [{"scene": "FloorPlan11",
                "instruction": "...",
                "targetObjectType": "Bread",
                "targetObjectIds": "Bread|+01.18|+00.98|-00.34",
                "target_position": {"x": 1.18, "y": 0.98, "z": -0.34},
                "agentPose": {"position": {"x": 0.5, "y": 0.9, "z": 2.0}, "rotation": 180, "horizon": 0}}]}

`targetObjectType` is optional: an object's id starts with its type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from vlm_envs.content.homes.home import QUARTERS
from vlm_envs.errors import ConfigError, LevelError
from vlm_envs.splits import split_of

MAX_LEVEL_CHARS = 4_000
_MAX_MM = 100_000
_ITHOR = re.compile(r"FloorPlan(?P<number>\d{1,3})(_physics)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneState:
    """A search in a scene at one moment, with everything the simulator needs to show it.

    Positions are in millimeters, so that states are exact; x runs east and z north, as in AI2-THOR.

    Attributes:
        scene: The scene's name, e.g. `"FloorPlan11"`.
        x_mm: The agent's x coordinate.
        y_mm: The agent's height.
        z_mm: The agent's z coordinate.
        heading: Quarter turns clockwise from north.
        horizon: Downward tilt of the camera in degrees.
        target_id: AI2-THOR's id of the object to find.
        target_type: The object's type.
        target_x_mm: The object's x coordinate.
        target_z_mm: The object's z coordinate.
        instruction: The instruction to the agent.
    """

    scene: str
    x_mm: int
    y_mm: int
    z_mm: int
    heading: int
    horizon: int
    target_id: str
    target_type: str
    target_x_mm: int
    target_z_mm: int
    instruction: str

    @property
    def target_bearing(self) -> tuple[float, float]:
        """Horizontal distance of the target ahead of and to the right of the agent, in meters."""
        return self.bearing(self.target_x_mm / 1000, self.target_z_mm / 1000)

    def bearing(self, x_m: float, z_m: float) -> tuple[float, float]:
        """Returns a place's distance ahead of and to the right of the agent, in meters."""
        east, north = x_m - self.x_mm / 1000, z_m - self.z_mm / 1000
        ahead_x, ahead_z = QUARTERS[self.heading]
        return east * ahead_x + north * ahead_z, east * ahead_z - north * ahead_x


def scene_split(scene: str) -> str:
    """Returns the split of a scene.

    Of the 30 scenes of each iTHOR room type, 1 to 20 are for training, 21 to 25 for validation, and 26 to 30
    for tests, as AI2-THOR's documentation proposes; other scenes are split by name.
    """
    match = _ITHOR.fullmatch(scene)
    if match is None:
        return split_of(scene.encode())
    number = int(match["number"]) % 100
    return "train" if number <= 20 else "val" if number <= 25 else "test"


def load_tasks(path: str | PathLike[str]) -> tuple[SceneState, ...]:
    """Returns the start state of each task in a file with EmbodiedBench's format, in order.

    Raises:
        ConfigError: If the file cannot be read, or a task is incomplete.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"Cannot read task_file={str(path)!r} as JSON: {error}") from error
    tasks = content.get("tasks") if isinstance(content, dict) else None
    if not isinstance(tasks, list) or not tasks:
        raise ConfigError(f"task_file={str(path)!r} must contain {{'tasks': [...]}} with at least one task.")
    return tuple(_read_task(task, index, path) for index, task in enumerate(tasks))


def millimeters(meters: Any) -> int:
    """Converts a length of AI2-THOR from meters to integer millimeters."""
    number = float(meters)
    if not abs(number) * 1000 <= _MAX_MM:  # also true for NaN
        raise ValueError(f"{meters!r} is not a position in a house")
    return round(number * 1000)


def pose_mm(position: Mapping[str, Any], rotation_degrees: Any, horizon_degrees: Any) -> dict[str, Any]:
    """Returns a state's fields for the agent's position and viewing direction."""
    return {
        **{f"{axis}_mm": millimeters(position[axis]) for axis in "xyz"},
        "heading": round(float(rotation_degrees) / 90) % 4,
        "horizon": round(float(horizon_degrees)),
    }


def scene_text(state: SceneState) -> str:
    """Serializes a state as JSON on one line."""
    return json.dumps(asdict(state), separators=(",", ":"))


def parse_scene(level: str) -> SceneState:
    """Parses a state; the inverse of `scene_text`.

    Raises:
        LevelError: If the text is not a state.
    """
    try:
        state = SceneState(**json.loads(level if len(level) <= MAX_LEVEL_CHARS else ""))
    except (TypeError, ValueError, RecursionError) as error:
        raise LevelError(f"A level must be a JSON object, as dump() writes it: {error}.") from error
    texts = (state.scene, state.target_id, state.target_type, state.instruction)
    lengths = (state.x_mm, state.y_mm, state.z_mm, state.target_x_mm, state.target_z_mm)
    if not all(isinstance(text, str) and text and text.isprintable() for text in texts):
        raise LevelError(f"A level's scene, target, and instruction must be one line of text each; got {texts!r:.500}.")
    if not all(map(_is_small, (*lengths, state.heading, state.horizon))):
        raise LevelError(f"A level's lengths and angles must be integers of at most {_MAX_MM}.")
    if state.heading not in range(4) or state.horizon not in range(-90, 91):
        raise LevelError("A level's heading must be 0 to 3, and its horizon -90 to 90.")
    return state


def _is_small(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MAX_MM


def _read_task(task: Any, index: int, path: str | PathLike[str]) -> SceneState:
    try:
        pose, target, ids = task["agentPose"], task["target_position"], task["targetObjectIds"]
        target_id = _text(ids[0] if isinstance(ids, list) else ids)
        rotation = pose["rotation"]  # a number, or AI2-THOR's three angles
        return SceneState(
            scene=_text(task["scene"]),
            **pose_mm(pose["position"], rotation["y"] if isinstance(rotation, dict) else rotation, pose["horizon"]),
            target_id=target_id,
            target_type=_text(task.get("targetObjectType", target_id.partition("|")[0])),
            target_x_mm=millimeters(target["x"]),
            target_z_mm=millimeters(target["z"]),
            instruction=" ".join(_text(task["instruction"]).split()),
        )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ConfigError(
            f"Task {index} of task_file={str(path)!r} is incomplete or malformed: {type(error).__name__}: {error}. "
            "Expected scene, instruction, targetObjectIds, target_position and agentPose (position, rotation, horizon)."
        ) from error


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"expected a text, got {value!r}")
    return value
