"""`python -m vlm_envs play`: a person plays with keys or lines in a terminal, with piped lines, or in a browser."""

from __future__ import annotations

import contextlib
import inspect
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from vlm_envs.cli.named_worlds import Settings, parse_settings
from vlm_envs.cli.player_page import PlayerPage
from vlm_envs.cli.session import Session
from vlm_envs.cli.terminal import (
    ENTER_SCREEN,
    HAS_KEYS,
    LEAVE_SCREEN,
    Colors,
    colors_of,
    half_blocks,
    raw_keys,
    read_keys,
    wrapped,
)
from vlm_envs.errors import ConfigError, LevelError
from vlm_envs.registration import creator_of
from vlm_envs.validation import require_at_least

KEYS_HELP = {
    "Up": "arrows or w a s d move, r again, n next level, q quit",
    "moveahead": "up down go, left right turn, a d step aside, i k look up and down, r again, n next level, q quit",
}
"""Help by the action of the up arrow."""

NUM_SPARE_ROWS = 1
"""Rows for the typed line."""


@dataclass(frozen=True, kw_only=True)
class PlayOptions:
    """Play a world yourself, with any number of turns and actions unless --set gives max_turns or another limit.

    Attributes:
        env_id: For example VLM/Sokoban-v0, or adapt:ID for a Gymnasium environment.
        seed: Seed of the first level.
        obs_mode: Kind of observation to show.
        level: Text file with the level to play.
        size: Rows and columns of a grid world.
        settings: Arguments of the world.
        colors: Colors of the terminal; detected by default.
        typed: Whether to type actions in worlds with key controls.
        window: Whether to play in a window of the browser instead of the terminal.
    """

    env_id: Annotated[str, Positional, arg(metavar="ENV_ID")]
    seed: int = 0
    obs_mode: Literal["image", "text", "image+text", "image+description"] = "image"
    level: Path | None = None
    size: int | None = None
    settings: Settings = ()
    colors: Colors | None = None
    typed: bool = False
    window: bool = False

    def __post_init__(self) -> None:
        """Rejects seeds that Gymnasium rejects."""
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
    keys = {} if options.typed else session.keys()
    if options.window:
        _play_in_browser(session, keys)
        return
    colors = options.colors or colors_of(sys.stdout, os.environ)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if is_terminal and HAS_KEYS and keys:
        _play_with_keys(session, colors, keys)
        return

    def show() -> None:
        print("\n".join(frame(session, colors, session.help())), flush=True)

    print("\n".join(wrapped(session.opening())))
    has_quit = serve(session, _typed_lines() if is_terminal else sys.stdin, show)
    if not (has_quit or session.over):
        print("The input ended before the episode.")


def session_of(env_id: str, **kwargs: Any) -> Session:
    """Returns the session of a world; for the arguments, see `Session`."""
    creator = creator_of(env_id)
    asking = sys.modules.get("vlm_envs.qa.qa_world")  # Imported by every question-answering world, and by no other.
    if asking is None or not (isinstance(creator, type) and issubclass(creator, asking.QAWorld)):
        return Session(env_id, **kwargs)
    from vlm_envs.cli.qa_session import QASession

    return QASession(env_id, **kwargs)


def serve(session: Session, lines: Iterable[str], show: Callable[[], None]) -> bool:
    """Carries out lines until `q` or their end, showing the session before the first and after each.

    Returns:
        Whether the person quit.
    """
    show()
    for line in filter(None, map(str.strip, lines)):
        if session.command(line) == "q":
            return True
        session.follow(line)
        show()
    return False


def frame(session: Session, colors: Colors, help_line: str, opening: Sequence[str] = ()) -> list[str]:
    """Returns everything to show: the image, then the text of `Session.lines`."""
    below = wrapped(session.lines(help_line, opening))
    if "image" not in session.world.obs_mode:
        return below
    return [*_picture(session, colors, below), *below]


def _picture(session: Session, colors: Colors, below: Sequence[str]) -> list[str]:
    """Returns the image in the rows above the lines; a long text scrolls it up rather than omitting it."""
    if colors == "none":
        return session.drawn_in_words()
    columns, rows = shutil.get_terminal_size()
    max_rows = rows - NUM_SPARE_ROWS - sum(1 + max(0, len(line) - 1) // columns for line in below)
    least_rows = rows // 2 if session.world.shows_several else 1
    return half_blocks(session.picture, colors, max_columns=columns, max_rows=max(least_rows, max_rows))


def _play_with_keys(session: Session, colors: Colors, keys: Mapping[str, str]) -> None:
    """Plays on the terminal's alternate screen, with the rules until the first key; the last status stays visible."""
    opening = session.opening()

    def show() -> None:
        # Clearing to each line's end instead of the whole screen first avoids flicker.
        lines = frame(session, colors, KEYS_HELP[keys["ArrowUp"]], opening)
        opening.clear()
        text = "".join(f"{line}\x1b[K\r\n" for line in lines)
        print(f"\x1b[H{text}\x1b[J", end="", flush=True)

    descriptor = sys.stdin.fileno()
    print(ENTER_SCREEN, end="", flush=True)
    try:
        with raw_keys(descriptor):
            serve(session, (keys[key] for key in read_keys(descriptor) if key in keys), show)
    finally:
        print(LEAVE_SCREEN, end="", flush=True)
        print("\n".join(session.status()))


def _typed_lines() -> Iterator[str]:
    """Yields lines typed at a prompt, with readline's editing keys and history if Python has it."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            yield input("> ")


def _play_in_browser(session: Session, keys: Mapping[str, str]) -> None:
    """Plays on a page of the browser until `q` or Ctrl-C."""
    opening = session.opening()

    def lines(page: PlayerPage) -> Iterator[str]:
        while True:
            help_line = KEYS_HELP[keys["ArrowUp"]] if keys else session.help()
            text = session.lines(help_line, opening)
            opening.clear()
            pictures = session.pictures if "image" in session.world.obs_mode else []
            yield page.ask(session.env_id, "\n".join(text), pictures, keys)

    with contextlib.closing(PlayerPage()) as page, contextlib.suppress(KeyboardInterrupt):
        serve(session, lines(page), lambda: None)


def _read_level(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LevelError(f"Cannot read the level file {str(path)!r}: {error}.") from error


def _size_argument(size: int | None, env_id: str) -> dict[str, Any]:
    """Returns `--size` as the argument that the world has for it."""
    if size is None:
        return {}
    parameters = inspect.signature(creator_of(env_id)).parameters
    if "size" in parameters:
        return {"size": size}
    if "dim_room" in parameters:
        return {"dim_room": (size, size)}
    raise ConfigError(f"{env_id} has no size. Omit --size, or name its argument: --set NAME=VALUE.")
