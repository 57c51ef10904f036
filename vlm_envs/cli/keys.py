"""What a person asks for, read as single keys from a terminal or as lines from anything else."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TextIO

try:
    import termios
    import tty
except ImportError:  # Windows has neither; lines are read there.
    HAS_KEYS = False
else:
    HAS_KEYS = True


class Ask(Enum):
    """What a person can ask for besides acting."""

    ACT = "act"
    RESET = "r"
    NEXT = "n"
    QUIT = "q"


@dataclass(frozen=True)
class Command:
    """One request.

    Attributes:
        ask: What is asked for.
        answer: With `Ask.ACT`, the actions as the world's grammar reads them.
    """

    ask: Ask
    answer: str = ""


DIRECTION_KEYS: dict[str, str] = {
    "\x1b[A": "Up", "\x1bOA": "Up", "w": "Up",
    "\x1b[B": "Down", "\x1bOB": "Down", "s": "Down",
    "\x1b[C": "Right", "\x1bOC": "Right", "d": "Right",
    "\x1b[D": "Left", "\x1bOD": "Left", "a": "Left",
}  # fmt: skip
"""Key to action. Terminals send the arrows in one of two forms."""

CONTROL_KEYS: dict[str, Ask] = {
    "r": Ask.RESET, "n": Ask.NEXT, "q": Ask.QUIT, "\x03": Ask.QUIT, "\x04": Ask.QUIT
}  # fmt: skip

ESCAPE_WAIT_S = 0.05
"""An arrow's remaining bytes arrive within this time; a lone Escape has none."""


def from_lines(stream: TextIO) -> Iterator[Command]:
    """Yields one command a line: `r`, `n`, `q`, or actions. Blank lines are skipped; the end means quit."""
    for line in stream:
        text = line.strip()
        if text in (Ask.RESET.value, Ask.NEXT.value, Ask.QUIT.value):
            yield Command(Ask(text))
        elif text:
            yield Command(Ask.ACT, text)


def from_keys(descriptor: int) -> Iterator[Command]:
    """Yields one command a key press; other keys are ignored.

    Args:
        descriptor: File descriptor of a terminal in raw mode; see `raw_keys`.

    Yields:
        Commands until the input ends.
    """
    while key := _read_key(descriptor):
        name = key if key.startswith("\x1b") else key.lower()
        if name in DIRECTION_KEYS:
            yield Command(Ask.ACT, DIRECTION_KEYS[name])
        elif name in CONTROL_KEYS:
            yield Command(CONTROL_KEYS[name])


@contextlib.contextmanager
def raw_keys(descriptor: int) -> Iterator[None]:
    """Makes a terminal hand over every key at once, unechoed; restores it afterwards whatever happens."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _read_key(descriptor: int) -> str:
    """Returns one key, escape sequence included, or an empty string at the end of the input."""
    key = os.read(descriptor, 1)
    if key == b"\x1b":
        while len(key) < 3 and select.select([descriptor], [], [], ESCAPE_WAIT_S)[0]:
            key += os.read(descriptor, 1)
    return key.decode(errors="replace")
