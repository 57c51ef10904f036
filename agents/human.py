"""A person as an agent: what is asked is printed, what is typed is the response."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from agents.agent import Response
from agents.screen import observation_lines
from vlm_envs.cli.terminal import colors_of
from vlm_envs.trajectory import Observation
from vlm_envs.vector.env import VectorWorld
from vlm_envs.world import World


class HumanAgent:
    """Asks whoever sits at the terminal, one episode after the other; `python -m vlm_envs play` has keys, too.

    What is typed without tags is taken for this turn's actions, and written in the format that the world expects.
    """

    policy_version = -1
    _worlds: VectorWorld | None = None

    def start(self, worlds: VectorWorld) -> None:
        """Takes hold of the worlds, in whose formats it writes."""
        self._worlds = worlds

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns what was typed for each row.

        Raises:
            EOFError: If the input has ended.
        """
        assert self._worlds is not None, "start() comes before respond()"
        colors = colors_of(sys.stdout, os.environ)
        typed = {}
        for row, observation in zip(rows, observations, strict=True):
            print(*observation_lines(observation, colors), sep="\n")
            typed[row] = input(f"episode {row}> " if self._worlds.num_envs > 1 else "> ")
        texts = self._worlds.apply({row: partial(_written, text) for row, text in typed.items()})
        return [Response(text=texts[row]) for row in rows]


def _written(typed: str, world: World[Any, Any]) -> str:
    """Returns a whole response that says what was typed, in the format that a world expects now."""
    expected = world.turn_format
    if "<" in typed:
        return typed
    return expected.write(dict.fromkeys(expected.sections, "") | {expected.action_sections[0]: typed})
