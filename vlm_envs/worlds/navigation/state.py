"""The state of a search, and its level text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from vlm_envs.content.homes.home import Home, Thing
from vlm_envs.content.homes.home_text import home_data, read_home, read_whole
from vlm_envs.content.homes.sight import MAX_TILT, Pose, bearing
from vlm_envs.errors import LevelError

MAX_LEVEL_CHARS = 60_000
MAX_INSTRUCTION_CHARS = 600
_KEYS = {"home", "pose", "target", "instruction"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NavigationState:
    """A search at one moment; hashable, comparable and picklable.

    Attributes:
        home: Where it happens; the same object from step to step.
        pose: Where the agent stands and looks.
        target: Number of the thing to find, an index into `home.things`.
        instruction: What the agent is asked, in words.
    """

    home: Home
    pose: Pose
    target: int
    instruction: str

    @property
    def target_thing(self) -> Thing:
        """The thing to find."""
        return self.home.things[self.target]

    @property
    def target_type(self) -> str:
        """The kind of the thing to find."""
        return self.target_thing.kind

    @property
    def target_bearing(self) -> tuple[float, float]:
        """How far the target's middle lies ahead and to the right, level, in metres."""
        return bearing(self.pose, self.target_thing.x_cm / 100, self.target_thing.y_cm / 100)


def level_text(state: NavigationState) -> str:
    """Returns a state as JSON on one line; equal states give equal text."""
    content = {
        "home": home_data(state.home),
        "pose": list(state.pose),
        "target": state.target,
        "instruction": state.instruction,
    }
    return json.dumps(content, separators=(",", ":"), ensure_ascii=True)


def parse_level(level: str) -> NavigationState:
    """Reads a state, which may be over or unsolvable; the inverse of `level_text`.

    Raises:
        LevelError: If the text is not a state.
    """
    if not isinstance(level, str) or len(level) > MAX_LEVEL_CHARS:
        raise LevelError(f"A level is a JSON text of at most {MAX_LEVEL_CHARS} characters, as dump() writes it.")
    try:
        content = json.loads(level)
    except (ValueError, RecursionError) as error:
        raise LevelError(f"A level is a JSON text, as dump() writes it; this is none: {error}.") from error
    if not isinstance(content, dict) or set(content) != _KEYS:
        raise LevelError(f"A level needs exactly the keys {', '.join(sorted(_KEYS))}, as dump() writes it.")
    home = read_home(content["home"])
    return NavigationState(
        home=home,
        pose=_read_pose(content["pose"]),
        target=read_whole(content["target"], "A level's target", 0, len(home.things) - 1),
        instruction=_read_instruction(content["instruction"]),
    )


def _read_pose(content: Any) -> Pose:
    if not isinstance(content, list) or len(content) != 4:
        raise LevelError("A level's pose is [x, y, heading, tilt].")
    return Pose(
        x=read_whole(content[0], "A pose's x", 0, 1000),
        y=read_whole(content[1], "A pose's y", 0, 1000),
        heading=read_whole(content[2], "A pose's heading", 0, 3),
        tilt=read_whole(content[3], "A pose's tilt", -MAX_TILT, MAX_TILT),
    )


def _read_instruction(content: Any) -> str:
    if not isinstance(content, str) or not 0 < len(content) <= MAX_INSTRUCTION_CHARS or not content.isprintable():
        raise LevelError(f"A level's instruction is one line of 1 to {MAX_INSTRUCTION_CHARS} printable characters.")
    return content
