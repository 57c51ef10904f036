"""`python -m vlm_envs play`: a person plays, with keys in a terminal or with lines from anywhere."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from vlm_envs.arguments.ranges import require_at_least
from vlm_envs.cli.keys import HAS_KEYS, Ask, Command, from_editor, from_keys, from_lines, raw_keys
from vlm_envs.cli.session import Session
from vlm_envs.cli.settings import Settings, parse_settings
from vlm_envs.cli.terminal import (
    ENTER_SCREEN,
    LEAVE_SCREEN,
    RULER_COLUMNS,
    Colors,
    colors_of,
    half_blocks,
    ruled,
    wrapped,
)
from vlm_envs.errors import ConfigError, LevelError
from vlm_envs.registration import creator_of

KEYS_HELP = {
    "Up": "arrows or w a s d move, r again, n next level, q quit",
    "moveahead": "up down go, left right turn, a d step aside, i k look up and down, r again, n next level, q quit",
}
"""Help by what the upper arrow does."""

PROMPT = "> "
NUM_SPARE_ROWS = 1
"""For the line that is typed."""


@dataclass(frozen=True, kw_only=True)
class PlayOptions:
    """Play a world yourself, with any number of turns and actions unless --set gives max_turns or another limit.

    Attributes:
        env_id: For example VLM/Sokoban-v0, or adapt:ID for a Gymnasium environment.
        seed: Seed of the first level.
        obs_mode: What is shown.
        level: A text file with the level to play.
        size: Rows and columns of a grid world.
        settings: Arguments of the world.
        colors: Colours of the terminal; None to find out.
        window: Whether to play in a window instead of the terminal.
    """

    env_id: Annotated[str, Positional, arg(metavar="ENV_ID")]
    seed: int = 0
    obs_mode: Literal["image", "text", "image+text", "image+description"] = "image"
    level: Path | None = None
    size: int | None = None
    settings: Settings = ()
    colors: Colors | None = None
    window: bool = False

    def __post_init__(self) -> None:
        """Refuses seeds that Gymnasium does."""
        require_at_least(self, 0, "seed")


def run(options: PlayOptions) -> None:
    """Plays until the person quits or the input ends."""
    session = session_of(
        options.env_id,
        seed=options.seed,
        level=None if options.level is None else _read_level(options.level),
        obs_mode=options.obs_mode,
        **_size_argument(options.size, options.env_id),
        **parse_settings(options.settings),
    )
    if options.window:
        from vlm_envs.cli.window import play_in_window  # tkinter is not part of every Python.

        play_in_window(session)
        return
    colors = options.colors or colors_of(sys.stdout, os.environ)
    is_terminal = HAS_KEYS and sys.stdin.isatty() and sys.stdout.isatty()
    if is_terminal and session.needs_no_line:
        _play_with_keys(session, colors)
    elif is_terminal:
        _play_with_editor(session, colors)
    else:
        has_quit = serve(session, from_lines(sys.stdin), _Printer(session, colors).show)
        if not (has_quit or session.over):
            print("The input ended before the episode.")


def session_of(env_id: str, **kwargs: Any) -> Session:
    """Returns the session of a world; arguments as in `Session`."""
    creator = creator_of(env_id)
    asking = sys.modules.get("vlm_envs.qa.qa_world")  # Imported by every question-answering world, and by no other.
    if asking is None or not (isinstance(creator, type) and issubclass(creator, asking.QAWorld)):
        return Session(env_id, **kwargs)
    from vlm_envs.cli.qa_session import QASession

    return QASession(env_id, **kwargs)


def serve(session: Session, commands: Iterable[Command], show: Callable[[], None]) -> bool:
    """Carries out commands until `Ask.QUIT` or their end, showing the session before the first and after each.

    Returns:
        Whether the person quit.
    """
    show()
    for command in commands:
        if command.ask is Ask.QUIT:
            return True
        session.follow(command)
        show()
    return False


def frame(session: Session, colors: Colors, help_line: str, told: Sequence[str]) -> list[str]:
    """Returns everything to show: picture, state in words if the mode has it, what is told, status, help."""
    state_text = session.state_lines()
    below = wrapped([*state_text, *told, *session.status(), help_line], sys.stdout)
    if "image" not in session.world.obs_mode:
        return below
    return [*_picture(session, colors, below), *below]


def _picture(session: Session, colors: Colors, below: Sequence[str]) -> list[str]:
    """Returns the picture in the rows that the lines below it leave; a long text scrolls it away rather than out."""
    if colors == "none":
        return session.drawn_in_words()
    columns, rows = shutil.get_terminal_size()
    max_rows = rows - NUM_SPARE_ROWS - sum(1 + max(0, len(line) - 1) // columns for line in below)
    if not session.world.shows_several:
        return half_blocks(session.picture, colors, max_columns=columns, max_rows=max(1, max_rows))
    max_rows = max(max_rows, rows // 2) - 1
    return ruled(half_blocks(session.picture, colors, max_columns=columns - RULER_COLUMNS, max_rows=max_rows))


class _Printer:
    """Prints a session below earlier output: the goal and rules once, long instructions once per level.

    Args:
        session: What is played.
        colors: Colours of the terminal.
        has_keys: Whether single keys are read.
    """

    def __init__(self, session: Session, colors: Colors, *, has_keys: bool = False) -> None:
        self.session, self.colors, self.has_keys = session, colors, has_keys
        self._level: tuple[int, int] | None = None

    def show(self) -> None:
        """Prints the session as it stands."""
        session = self.session
        if self._level is None:
            print("\n".join(wrapped(session.opening(), sys.stdout)))
        level = session.seed, session.num_restarts
        told = session.reminder() if level == self._level else session.told()
        self._level = level
        help_line = " | ".join(filter(None, (session.help(), session.key_help() if self.has_keys else "")))
        print("\n".join(frame(session, self.colors, help_line, told)), flush=True)


def _play_with_keys(session: Session, colors: Colors) -> None:
    """Plays on the terminal's second screen, with the rules until the first key; the last status stays on the first."""
    opening = session.opening()

    def show() -> None:
        # Clearing to each line's end instead of the whole screen first avoids flicker.
        lines = frame(session, colors, KEYS_HELP[session.keys()["Up"]], [*opening, *session.told()])
        opening.clear()
        text = "".join(f"{line}\x1b[K\r\n" for line in lines)
        print(f"\x1b[H{text}\x1b[J", end="", flush=True)

    descriptor = sys.stdin.fileno()
    print(ENTER_SCREEN, end="", flush=True)
    try:
        with raw_keys(descriptor):
            serve(session, from_keys(descriptor, session.keys()), show)
    finally:
        print(LEAVE_SCREEN, end="", flush=True)
        print("\n".join(session.status()))


def _play_with_editor(session: Session, colors: Colors) -> None:
    """Plays with lines that are typed, and with arrows where they stand for something."""
    printer, descriptor = _Printer(session, colors, has_keys=True), sys.stdin.fileno()

    def echo(line: str) -> None:
        print(f"\r\x1b[K{PROMPT}{line}", end="", flush=True)

    def show() -> None:
        print("\r\x1b[K", end="")
        printer.show()
        echo("")

    with raw_keys(descriptor):
        serve(session, from_editor(descriptor, session.keys, echo), show)
    print()


def _read_level(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LevelError(f"Cannot read the level file {str(path)!r}: {error}.") from error


def _size_argument(size: int | None, env_id: str) -> dict[str, Any]:
    """Returns `--size` under the name the world has for it."""
    if size is None:
        return {}
    parameters = inspect.signature(creator_of(env_id)).parameters
    if "size" in parameters:
        return {"size": size}
    if "dim_room" in parameters:
        return {"dim_room": (size, size)}
    raise ConfigError(f"{env_id} has no size. Leave out --size, or name its argument: --set NAME=VALUE.")
