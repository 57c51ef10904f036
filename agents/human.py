"""A person as an agent, who answers in the terminal or on a browser page."""

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
"""Terminal rows that an image leaves for the surrounding text."""


class HumanAgent:
    """Asks the person at the terminal, one episode after another; `python -m vlm_envs play` also supports keys.

    Text typed without tags is this turn's actions, answer, or tool call, written in the format that the world expects.

    Args:
        window: Whether to ask in a browser window, which shows images pixel by pixel, instead of the terminal.
    """

    policy_version = -1
    _worlds: VectorWorld | None = None

    def __init__(self, *, window: bool = False) -> None:
        self.page = PlayerPage() if require_flag("window", window) else None

    @property
    def sees_pictures(self) -> bool:
        """Whether images are shown, not only their sizes."""
        return self.page is not None or colors_of(sys.stdout, os.environ) != "none"

    def start(self, worlds: VectorWorld) -> None:
        """Stores the worlds, whose response formats it writes."""
        self._worlds = worlds

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns the response typed for each row.

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
    """Returns an observation's images and text; without colors, only the size of each image."""
    size = shutil.get_terminal_size()
    max_rows = max(4, size.lines - _SPARE_ROWS)
    lines: list[str] = []
    for image in observation_images(observation):
        if colors == "none":
            lines.append(f"[image of {image.shape[1]} x {image.shape[0]} pixels]")
        else:
            lines += half_blocks(image, colors, max_columns=size.columns, max_rows=max_rows)
    return [*lines, *text_lines(observation_words(observation))]


def text_lines(text: str) -> list[str]:
    """Returns a text in printable lines, wrapped between words to the terminal's width.

    Args:
        text: Any text, such as a model's; terminal control characters are escaped.
    """
    return wrapped(map(_printable, text.split("\n")))


def _printable(line: str) -> str:
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in line
    )
