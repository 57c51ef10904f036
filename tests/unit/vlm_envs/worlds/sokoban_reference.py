"""gym-sokoban's own environment, set to a given room and stripped of its pictures.

The package needs `pkg_resources`, which current setuptools no longer has, to find its list of env ids
at import time; a stand-in answers that one question. The dynamics under test run unchanged.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from vlm_envs.worlds.sokoban_solver import SokobanState

# gym-sokoban's codes: 0 wall, 1 floor, 2 target, 3 box on target, 4 box, 5 player.
_FIXED_CODES = {"#": 0, "_": 1, "O": 2, "X": 1, "P": 1, "*": 2, "S": 2}
_STATE_CODES = {"#": 0, "_": 1, "O": 2, "X": 4, "P": 5, "*": 3, "S": 5}


def reference_env(state: SokobanState) -> Any:
    """Returns a gym-sokoban environment that stands in `state`."""
    env = _env_class()(
        dim_room=(state.layout.num_rows, state.layout.num_cols),
        max_steps=10**9,
        num_boxes=len(state.boxes),
        reset=False,
    )
    rows = state.level_text().split("\n")
    env.room_fixed = np.array([[_FIXED_CODES[symbol] for symbol in row] for row in rows])
    env.room_state = np.array([[_STATE_CODES[symbol] for symbol in row] for row in rows])
    env.player_position = np.array(state.player)
    env.num_env_steps = 0
    env.boxes_on_target = state.num_boxes_on_target
    return env


def room_codes(state: SokobanState) -> np.ndarray:
    """Returns a state as gym-sokoban's `room_state` array."""
    return np.array([[_STATE_CODES[symbol] for symbol in row] for row in state.level_text().split("\n")])


def _env_class() -> Any:
    # A list of env ids is all that gym-sokoban asks of `pkg_resources` on import.
    stand_in = ModuleType("pkg_resources")
    stand_in.resource_filename = _resource_filename  # type: ignore[attr-defined]
    had_module = sys.modules.get("pkg_resources")
    sys.modules["pkg_resources"] = had_module or stand_in
    try:
        pytest.importorskip("gym_sokoban", reason="needs gym-sokoban: pip install -e '.[dev]'")
        from gym_sokoban.envs.sokoban_env import SokobanEnv
    finally:
        if had_module is None:
            del sys.modules["pkg_resources"]

    class Unrendered(SokobanEnv):  # type: ignore[misc]
        def render(self, *args: object, **kwargs: object) -> None:
            return None

    return Unrendered


def _resource_filename(package: str, name: str) -> str:
    return str(Path(str(sys.modules[package].__file__)).parent / name.lstrip("/"))
