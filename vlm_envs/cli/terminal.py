"""Images and keys in a terminal. An image has two pixels per character, drawn with the upper half block."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TextIO

import numpy as np
import numpy.typing as npt
from PIL import Image

from vlm_envs import terminal_tables

try:
    import termios
    import tty
except ImportError:  # Windows has neither
    HAS_KEYS = False
else:
    HAS_KEYS = True

Colors = Literal["24bit", "256", "none"]

UPPER_HALF_BLOCK = "▀"
CUBE_LEVELS = (0, 95, 135, 175, 215, 255)
"""Brightness of each of the six levels of a channel among xterm's 256 colors."""

RESET = "\x1b[0m"
ENTER_SCREEN = "\x1b[?1049h\x1b[?25l"
LEAVE_SCREEN = "\x1b[?25h\x1b[?1049l"


def colors_of(stream: TextIO, environ: Mapping[str, str]) -> Colors:
    """Returns the color support of a stream, by `NO_COLOR`, `COLORTERM`, and `TERM`; `"none"` if not a terminal."""
    term = environ.get("TERM", "")
    if not stream.isatty() or "NO_COLOR" in environ or term in ("", "dumb"):
        return "none"
    if environ.get("COLORTERM") in ("truecolor", "24bit") or term.endswith("-direct"):
        return "24bit"
    return "256" if "256color" in term else "none"


def half_blocks(image: npt.NDArray[np.uint8], colors: Colors, *, max_columns: int, max_rows: int) -> list[str]:
    """Returns an image, uint8[H, W, 3], as lines of text within a size, each ending with a reset; never enlarged."""
    height, width = image.shape[:2]
    scale = min(1.0, max_columns / width, 2 * max_rows / height)
    num_columns = max(1, int(width * scale))
    num_rows = max(1, int(height * scale) // 2)
    small = Image.fromarray(image).resize((num_columns, 2 * num_rows), Image.Resampling.BOX)
    pixels = np.asarray(small, np.uint8)
    return [_line(pixels[2 * row], pixels[2 * row + 1], colors) for row in range(num_rows)]


def wrapped(lines: Iterable[str]) -> list[str]:
    """Returns lines broken between words if a terminal is too narrow; unbroken for a file or a pipe."""
    return [row for line in lines for row in terminal_tables.wrapped(line)]


def _line(upper: npt.NDArray[np.uint8], lower: npt.NDArray[np.uint8], colors: Colors) -> str:
    """Returns one line of characters; a color is written only where it changes."""
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
    """Returns the part of an escape sequence that specifies a color."""
    red, green, blue = (int(value) for value in pixel)
    if colors == "24bit":
        return f"2;{red};{green};{blue}"
    steps = [int(np.abs(np.subtract(CUBE_LEVELS, value)).argmin()) for value in (red, green, blue)]
    return f"5;{16 + 36 * steps[0] + 6 * steps[1] + steps[2]}"


NAMED_KEYS: dict[str, str] = {
    "\x1b[A": "ArrowUp", "\x1bOA": "ArrowUp",
    "\x1b[B": "ArrowDown", "\x1bOB": "ArrowDown",
    "\x1b[C": "ArrowRight", "\x1bOC": "ArrowRight",
    "\x1b[D": "ArrowLeft", "\x1bOD": "ArrowLeft",
    "\x1b[5~": "PageUp", "\x1b[6~": "PageDown",
}  # fmt: skip
"""Bytes sent by terminals to the key's name in browsers. Terminals send arrows in one of two forms."""

_ESCAPE_WAIT_S = 0.05
"""Maximum time in seconds until an arrow's remaining bytes arrive; a lone Escape has none."""

_MAX_ESCAPE_BYTES = 8


@contextlib.contextmanager
def raw_keys(descriptor: int) -> Iterator[None]:
    """Makes a terminal report each key immediately and without echo; always restores it afterwards."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def read_keys(descriptor: int) -> Iterator[str]:
    """Yields each key by name, or the lowercase character that it types, until the input ends.

    Args:
        descriptor: File descriptor of a terminal in raw mode; see `raw_keys`.
    """
    while key := os.read(descriptor, 1):
        while key[0] == 0x1B and len(key) < _MAX_ESCAPE_BYTES and not _is_whole(key) and _has_more(descriptor):
            key += os.read(descriptor, 1)
        text = key.decode(errors="replace")
        yield NAMED_KEYS.get(text, text.lower())


def _is_whole(sequence: bytes) -> bool:
    """Returns whether an escape sequence is complete: it ends with a letter or a tilde after its bracket."""
    return len(sequence) > 2 and (sequence[-1:].isalpha() or sequence.endswith(b"~"))


def _has_more(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], _ESCAPE_WAIT_S)[0])
