"""A person as an agent: what is asked is printed, what is typed is the response."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from agents.agent import Response
from agents.screen import observation_lines
from agents.window.window import Window
from vlm_envs.cli.terminal import colors_of
from vlm_envs.trajectory import Observation
from vlm_envs.validation import require_flag
from vlm_envs.vector.vector_world import VectorWorld
from vlm_envs.world import World


class HumanAgent:
    """Asks whoever sits at the terminal, one episode after the other; `python -m vlm_envs play` has keys, too.

    What is typed without tags is taken for this turn's actions, and written in the format that the world expects.

    Args:
        window: Whether to ask in a window of the browser, where pictures are shown pixel by pixel, and not in the
            terminal.
    """

    policy_version = -1
    _worlds: VectorWorld | None = None

    def __init__(self, *, window: bool = False) -> None:
        self.window = Window() if require_flag("window", window) else None

    @property
    def sees_pictures(self) -> bool:
        """Whether pictures are shown, and not only their sizes."""
        return self.window is not None or colors_of(sys.stdout, os.environ) != "none"

    def start(self, worlds: VectorWorld) -> None:
        """Takes hold of the worlds, in whose formats it writes."""
        self._worlds = worlds

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns what was typed for each row.

        Raises:
            EOFError: If the input has ended.
        """
        assert self._worlds is not None, "start() comes before respond()"
        typed = {
            row: self._ask(f"episode {row}" if self._worlds.num_envs > 1 else "", observation)
            for row, observation in zip(rows, observations, strict=True)
        }
        texts = self._worlds.apply({row: partial(_written, text) for row, text in typed.items()})
        return [Response(text=texts[row]) for row in rows]

    def close(self) -> None:
        """Closes the window, if there is one."""
        if self.window is not None:
            self.window.close()

    def _ask(self, which: str, observation: Observation) -> str:
        if self.window is not None:
            return self.window.ask(observation, f"Your turn{which and f', {which}'}")
        print(*observation_lines(observation, colors_of(sys.stdout, os.environ)), sep="\n")
        return input(f"{which}> ")


def _written(typed: str, world: World[Any, Any]) -> str:
    """Returns a whole response that says what was typed, in the format that a world expects now."""
    expected = world.turn_format
    if "<" in typed:
        return typed
    return expected.write(dict.fromkeys(expected.sections, "") | {expected.action_sections[0]: typed})
