"""Pictures in a terminal: two pixels a character, drawn with the upper half block."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TextIO

import numpy as np
import numpy.typing as npt
from PIL import Image

Colors = Literal["24bit", "256", "none"]

UPPER_HALF_BLOCK = "▀"
CUBE_LEVELS = (0, 95, 135, 175, 215, 255)
"""Brightness of each of the six steps a channel has among xterm's 256 colours."""

RULER_COLUMNS = 4
"""Columns that the percents to the left of a picture take."""

RESET = "\x1b[0m"
ENTER_SCREEN = "\x1b[?1049h\x1b[?25l"
LEAVE_SCREEN = "\x1b[?25h\x1b[?1049l"


def colors_of(stream: TextIO, environ: Mapping[str, str]) -> Colors:
    """Returns how many colours a stream shows, by `NO_COLOR`, `COLORTERM` and `TERM`; `"none"` if it is no terminal."""
    term = environ.get("TERM", "")
    if not stream.isatty() or "NO_COLOR" in environ or term in ("", "dumb"):
        return "none"
    if environ.get("COLORTERM") in ("truecolor", "24bit") or term.endswith("-direct"):
        return "24bit"
    return "256" if "256color" in term else "none"


def half_blocks(image: npt.NDArray[np.uint8], colors: Colors, *, max_columns: int, max_rows: int) -> list[str]:
    """Returns a picture, uint8[H, W, 3], in lines of text within a size, each ending with a reset; never enlarged."""
    height, width = image.shape[:2]
    scale = min(1.0, max_columns / width, 2 * max_rows / height)
    num_columns = max(1, int(width * scale))
    num_rows = max(1, int(height * scale) // 2)
    small = Image.fromarray(image).resize((num_columns, 2 * num_rows), Image.Resampling.BOX)
    pixels = np.asarray(small, np.uint8)
    return [_line(pixels[2 * row], pixels[2 * row + 1], colors) for row in range(num_rows)]


def wrapped(lines: Iterable[str], stream: TextIO) -> list[str]:
    """Returns lines broken between words where a terminal is too narrow; whole for a file or a pipe."""
    if not stream.isatty():
        return list(lines)
    rows: list[str] = []
    columns = shutil.get_terminal_size().columns
    for line in lines:
        # Only what is too long: the white space of a map has to stay as it is
        rows += textwrap.wrap(line, columns, break_on_hyphens=False) if len(line) > columns else [line]
    return rows


def ruled(lines: Sequence[str]) -> list[str]:
    """Returns lines of a picture with its percents above, and to the left of it."""
    if not lines:
        return []
    num_columns = lines[0].count(UPPER_HALF_BLOCK)
    last = str(100).rjust(num_columns)
    above = [*" " * RULER_COLUMNS, *last]
    step = next(step for step in (10, 20, 50, 100) if step * num_columns >= 400 or step == 100)
    for percent in range(0, 100, step):
        column = percent * num_columns // 100
        if last[column : column + len(str(percent)) + 1].isspace():
            above[RULER_COLUMNS + column : RULER_COLUMNS + column + len(str(percent))] = str(percent)
    ticks = {round(percent * (len(lines) - 1) / 100): percent for percent in range(0, 101, 10)}
    beside = (f"{ticks.get(row, ''):>{RULER_COLUMNS - 1}} " for row in range(len(lines)))
    return ["".join(above).rstrip(), *(tick + line for tick, line in zip(beside, lines, strict=True))]


def _line(upper: npt.NDArray[np.uint8], lower: npt.NDArray[np.uint8], colors: Colors) -> str:
    """Returns one line of characters; a colour is written only where it changes."""
    parts: list[str] = []
    shown: tuple[str, str] | None = None
    for top, bottom in zip(upper, lower, strict=True):
        pair = _color(top, colors), _color(bottom, colors)
        if pair != shown:
            parts.append(f"\x1b[38;{pair[0]};48;{pair[1]}m")
            shown = pair
        parts.append(UPPER_HALF_BLOCK)
    return "".join(parts) + RESET


def _color(pixel: npt.NDArray[np.uint8], colors: Colors) -> str:
    """Returns the part of an escape sequence that names a colour."""
    red, green, blue = (int(value) for value in pixel)
    if colors == "24bit":
        return f"2;{red};{green};{blue}"
    steps = [int(np.abs(np.subtract(CUBE_LEVELS, value)).argmin()) for value in (red, green, blue)]
    return f"5;{16 + 36 * steps[0] + 6 * steps[1] + steps[2]}"
