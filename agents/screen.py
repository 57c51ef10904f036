"""What an agent is shown and says, as lines for a person at a terminal or behind a pipe."""

from __future__ import annotations

import shutil
import sys

from vlm_envs.cli.terminal import Colors, half_blocks, wrapped
from vlm_envs.trajectory import Observation, observation_images, observation_words

_SPARE_ROWS = 6
"""Rows of a terminal that a picture leaves to the words around it."""


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
    return wrapped(map(_printable, text.split("\n")), sys.stdout)


def _printable(line: str) -> str:
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in line)
