"""A person as an agent, who answers at the terminal or on a page of the browser."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from functools import partial

from agents.agent import Response
from vlm_envs.cli.player_page import PlayerPage
from vlm_envs.cli.session import written_response
from vlm_envs.cli.terminal import Colors, colors_of, half_blocks, wrapped
from vlm_envs.trajectory import Observation, observation_images, observation_words
from vlm_envs.validation import require_flag
from vlm_envs.vector.vector_world import VectorWorld

_SPARE_ROWS = 6
"""Rows of a terminal that a picture leaves to the words around it."""


class HumanAgent:
    """Asks whoever sits at the terminal, one episode after the other; `python -m vlm_envs play` has keys, too.

    Text typed without tags is this turn's actions, answer, or tool call, written in the format that the world expects.

    Args:
        window: Whether to ask in a window of the browser, where pictures are shown pixel by pixel, and not in the
            terminal.
    """

    policy_version = -1
    _worlds: VectorWorld | None = None

    def __init__(self, *, window: bool = False) -> None:
        self.page = PlayerPage() if require_flag("window", window) else None

    @property
    def sees_pictures(self) -> bool:
        """Whether pictures are shown, and not only their sizes."""
        return self.page is not None or colors_of(sys.stdout, os.environ) != "none"

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
        texts = self._worlds.apply({row: partial(written_response, typed=text) for row, text in typed.items()})
        return [Response(text=texts[row]) for row in rows]

    def close(self) -> None:
        """Closes the window, if there is one."""
        if self.page is not None:
            self.page.close()

    def _ask(self, which: str, observation: Observation) -> str:
        if self.page is not None:
            title = f"Your turn{which and f', {which}'}"
            return self.page.ask(title, observation_words(observation), observation_images(observation))
        print(*observation_lines(observation, colors_of(sys.stdout, os.environ)), sep="\n")
        return input(f"{which}> ")


def observation_lines(observation: Observation, colors: Colors) -> list[str]:
    """Returns an observation's pictures and text; of a picture only its size where there are no colours."""
    size = shutil.get_terminal_size()
    max_rows = max(4, size.lines - _SPARE_ROWS)
    lines: list[str] = []
    for picture in observation_images(observation):
        if colors == "none":
            lines.append(f"[picture of {picture.shape[1]} x {picture.shape[0]} pixels]")
        else:
            lines += half_blocks(picture, colors, max_columns=size.columns, max_rows=max_rows)
    return [*lines, *text_lines(observation_words(observation))]


def text_lines(text: str) -> list[str]:
    """Returns a text in printable lines, broken between words where a terminal is too narrow.

    Args:
        text: Anything, such as what a model wrote; characters that would steer a terminal are written as escapes.
    """
    return wrapped(map(_printable, text.split("\n")))


def _printable(line: str) -> str:
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in line)
