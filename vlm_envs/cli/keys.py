"""What a person asks for, read as single keys from a terminal or as lines from anything else."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable, Iterator, Mapping
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


NAMED_KEYS: dict[str, str] = {
    "\x1b[A": "Up", "\x1bOA": "Up",
    "\x1b[B": "Down", "\x1bOB": "Down",
    "\x1b[C": "Right", "\x1bOC": "Right",
    "\x1b[D": "Left", "\x1bOD": "Left",
    "\x1b[5~": "Prior", "\x1b[6~": "Next",
    "\r": "Return", "\n": "Return", "\x7f": "BackSpace", "\x08": "BackSpace", "\x15": "clear",
}  # fmt: skip
"""What terminals send to the key's name, which is tkinter's. They send the arrows in one of two forms."""

CONTROL_KEYS: dict[str, Ask] = {
    "r": Ask.RESET, "n": Ask.NEXT, "q": Ask.QUIT, "\x03": Ask.QUIT, "\x04": Ask.QUIT
}  # fmt: skip

ESCAPE_WAIT_S = 0.05
"""An arrow's remaining bytes arrive within this time; a lone Escape has none."""

_MAX_ESCAPE_BYTES = 8


def command_of(line: str) -> Command | None:
    """Returns what a line asks for: `r`, `n`, `q`, or anything else as actions; None for a blank one."""
    text = line.strip()
    if text in (Ask.RESET.value, Ask.NEXT.value, Ask.QUIT.value):
        return Command(Ask(text))
    return Command(Ask.ACT, text) if text else None


def from_lines(stream: TextIO) -> Iterator[Command]:
    """Yields one command a line: `r`, `n`, `q`, or actions. Blank lines are skipped; the end means quit."""
    yield from filter(None, map(command_of, stream))


def from_keys(descriptor: int, keymap: Mapping[str, str]) -> Iterator[Command]:
    """Yields one command a key press; other keys are ignored.

    Args:
        descriptor: File descriptor of a terminal in raw mode; see `raw_keys`.
        keymap: Key to action.

    Yields:
        Commands until the input ends.
    """
    while key := _read_key(descriptor):
        name = key.lower() if len(key) == 1 else key
        if name in CONTROL_KEYS:
            yield Command(CONTROL_KEYS[name])
        elif name in keymap:
            yield Command(Ask.ACT, keymap[name])


def from_editor(
    descriptor: int, keymap: Callable[[], Mapping[str, str]], echo: Callable[[str], None]
) -> Iterator[Command]:
    """Yields one command a line that is typed, and one a key of the keymap while the line is empty.

    Args:
        descriptor: File descriptor of a terminal in raw mode; see `raw_keys`.
        keymap: Gives key to action as it is now; only keys with names longer than a character count.
        echo: Shows the line as it is so far.

    Yields:
        Commands until the input ends.
    """
    line, last = "", ""
    while key := _read_key(descriptor):
        typed = keymap().get(key, "") if len(key) > 1 and not line else ""
        if key in CONTROL_KEYS and not key.isprintable():
            yield Command(Ask.QUIT)
        elif typed:
            yield Command(Ask.ACT, typed)
        elif key == "Return":
            command, last, line = command_of(line), line or last, ""
            if command is not None:
                yield command
        else:
            line = _edited(line, key, last)
        echo(line)


def _edited(line: str, key: str, last: str) -> str:
    """Returns a line after a key: a character more or less, none, or the last line again."""
    if key == "Up" and not line:
        return last
    if key == "BackSpace":
        return line[:-1]
    if key == "clear":
        return ""
    return line + key if len(key) == 1 and key.isprintable() else line


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
    """Returns one key by name, or the character it types; an empty string at the end of the input."""
    key = os.read(descriptor, 1)
    if key == b"\x1b":
        while len(key) < _MAX_ESCAPE_BYTES and not _is_whole(key) and _has_more(descriptor):
            key += os.read(descriptor, 1)
    else:
        for _ in range(_num_following(key)):
            key += os.read(descriptor, 1)
    text = key.decode(errors="replace")
    return NAMED_KEYS.get(text, text)


def _is_whole(sequence: bytes) -> bool:
    """Returns whether an escape sequence is over: at a letter or a tilde behind its bracket."""
    return len(sequence) > 2 and (sequence[-1:].isalpha() or sequence.endswith(b"~"))


def _has_more(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], ESCAPE_WAIT_S)[0])


def _num_following(first: bytes) -> int:
    """Returns how many bytes of a character in UTF-8 follow its first."""
    return next((count for count, least in ((3, b"\xf0"), (2, b"\xe0"), (1, b"\xc0")) if first >= least), 0)
