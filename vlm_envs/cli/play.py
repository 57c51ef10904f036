"""`python -m vlm_envs play`: a person plays with keys in a terminal, with lines from anywhere, or in a window."""

from __future__ import annotations

import base64
import inspect
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image
from tyro.conf import Positional, arg

from vlm_envs.cli.named_worlds import Settings, parse_settings
from vlm_envs.cli.session import (
    CONTROL_KEYS,
    HAS_KEYS,
    Ask,
    Command,
    Session,
    command_of,
    from_editor,
    from_keys,
    from_lines,
    raw_keys,
)
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
from vlm_envs.validation import require_at_least

if TYPE_CHECKING:
    import tkinter


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


MIN_SIDE_PX = 480
"""Small pictures are enlarged by whole factors to about this size."""
SCREEN_SHARE = 0.9, 0.6
"""Part of the screen's width and height that a picture may take; larger ones are scaled down."""
MAX_TEXT_ROWS = 12
"""Longer texts are scrolled."""
MIN_DRAG_PX = 4
"""Shorter pulls of the mouse are clicks."""


def play_in_window(session: Session) -> None:
    """Plays until the window is closed; actions that have no key are typed into the field below the picture.

    Raises:
        ConfigError: If there is no tkinter or no display.
    """
    try:
        import tkinter
    except ImportError as error:
        raise ConfigError(
            "No window: this Python has no tkinter (on Debian or Ubuntu: apt install python3-tk). "
            "Leave out --window to play in the terminal."
        ) from error
    try:
        root = tkinter.Tk()
    except tkinter.TclError as error:
        raise ConfigError(f"No window: {error}. Leave out --window to play in the terminal.") from error
    Window(root, session)
    root.mainloop()


class Window:
    """Picture, text, and a field for what has no key. In worlds that zoom, the mouse pulls up a region.

    Args:
        root: An empty top-level window.
        session: What is played.
    """

    def __init__(self, root: tkinter.Tk, session: Session) -> None:
        import tkinter
        from tkinter import font

        self.root, self.session = root, session
        root.title(session.env_id)
        self.canvas = tkinter.Canvas(root, highlightthickness=0)
        self.canvas.pack()
        self.where = tkinter.Label(root, font="TkFixedFont", anchor="w")
        frame = tkinter.Frame(root)
        self.text = tkinter.Text(frame, wrap="word", font="TkTextFont", relief="flat", state="disabled")
        bar = tkinter.Scrollbar(frame, command=self.text.yview)
        self.text.configure(yscrollcommand=bar.set)
        bar.pack(side="right", fill="y")
        self.text.pack(side="left", fill="both", expand=True)
        self._char_px = font.nametofont("TkTextFont").measure("n")
        self.field = tkinter.Entry(root, font="TkTextFont")
        if not session.needs_no_line:
            if session.world.shows_several:
                self.where.pack(fill="x")
                self._let_mouse_zoom()
            self.field.pack(side="bottom", fill="x")
            self.field.bind("<Return>", lambda _: self.submit())
            self.field.focus_set()
        frame.pack(fill="both", expand=True)
        root.bind("<Key>", lambda event: self.press(event.keysym))
        self.show()

    def press(self, key: str) -> None:
        """Carries out a key, named as tkinter names it; keys that write count only where nothing is typed."""
        name = key.lower() if len(key) == 1 else key
        typed = self.session.keys().get(name, "")
        is_typing = not self.session.needs_no_line
        if is_typing and (len(name) == 1 or self.field.get()):
            return
        if name in CONTROL_KEYS or typed:
            self.follow(Command(CONTROL_KEYS.get(name, Ask.ACT), typed))

    def submit(self) -> None:
        """Carries out what stands in the field: `r`, `n`, `q` or what the world reads. It stays if it is no turn."""
        command = command_of(self.field.get())
        if command is None:
            return
        if command.ask is not Ask.ACT:
            self.field.delete(0, "end")
        turn = self.session.info["turn"]
        self.follow(command)
        if command.ask is Ask.ACT and (self.session.info["turn"] != turn or not self.session.note):
            self.field.delete(0, "end")

    def follow(self, command: Command) -> None:
        """Carries out a request, and shows what came of it."""
        if command.ask is Ask.QUIT:
            self.root.destroy()
            return
        self.session.follow(command)
        self.show()

    def show(self) -> None:
        """Shows the session as it stands."""
        session = self.session
        mouse = "pull up a region with the mouse to zoom" if session.can_zoom else ""
        helps = filter(None, (session.help(), session.key_help(), mouse))
        lines = [*session.told(), *session.status(), " | ".join(helps)]
        lines = [*session.state_lines(), *lines]
        if "image" in self.session.world.obs_mode:
            self._show_picture()
        self._show_text("\n".join(lines))

    def _show_picture(self) -> None:
        import tkinter

        share = SCREEN_SHARE
        most = int(self.root.winfo_screenwidth() * share[0]), int(self.root.winfo_screenheight() * share[1])
        image = fitted(self.session.picture, most)
        self.size = image.size
        # The reference keeps the picture alive: tkinter itself does not.
        self._photo = tkinter.PhotoImage(data=encoded_png(image))
        self.canvas.delete("all")
        self.canvas.configure(width=image.width, height=image.height)
        self.canvas.create_image(0, 0, image=self._photo, anchor="nw")

    def _show_text(self, text: str) -> None:
        columns = max(60, getattr(self, "size", (0, 0))[0] // self._char_px)
        rows = sum(1 + len(line) // columns for line in text.splitlines())
        self.text.configure(state="normal", width=columns, height=min(rows, MAX_TEXT_ROWS))
        self.text.delete("1.0", "end")
        self.text.insert("1.0", text)
        self.text.configure(state="disabled")
        self.text.see("end")  # How it stands is said last.

    def _let_mouse_zoom(self) -> None:
        """Shows the mouse's place in percents, and writes a zoom for a region that is pulled up."""
        self._from: tuple[int, int] | None = None

        def began(x: int, y: int) -> None:
            self._from = x, y

        self.canvas.bind("<ButtonPress-1>", lambda event: began(event.x, event.y))
        self.canvas.bind("<Motion>", lambda event: self._point_at(event.x, event.y))
        self.canvas.bind("<B1-Motion>", lambda event: self._pull_to(event.x, event.y))
        self.canvas.bind("<ButtonRelease-1>", lambda event: self.zoom_to(event.x, event.y))

    def _point_at(self, x: int, y: int) -> None:
        self.where["text"] = f"{100 * x / self.size[0]:.0f} {100 * y / self.size[1]:.0f} percent"

    def _pull_to(self, x: int, y: int) -> None:
        self._point_at(x, y)
        self.canvas.delete("region")
        if self._from is not None:
            self.canvas.create_rectangle(*self._from, x, y, outline="red", width=2, tags="region")

    def zoom_to(self, x: int, y: int) -> None:
        """Zooms into the region between where the mouse was pressed and a place, in pixels of the canvas."""
        began, self._from = self._from, None
        self.canvas.delete("region")
        if began is None or min(abs(x - began[0]), abs(y - began[1])) < MIN_DRAG_PX:
            return
        sides = [sorted((began[axis], (x, y)[axis])) for axis in (0, 1)]
        percents = [
            [min(max(100 * at / size, 0), 100) for at in pair] for pair, size in zip(sides, self.size, strict=True)
        ]
        (x1, x2), (y1, y2) = percents
        self.session.act(f"zoom {x1:.1f} {y1:.1f} {x2:.1f} {y2:.1f}")
        self.show()


def fitted(picture: npt.NDArray[np.uint8], most: tuple[int, int]) -> Image.Image:
    """Returns a uint8[H, W, 3] picture enlarged by a whole factor, or scaled down to a width and height in pixels."""
    image = Image.fromarray(picture)
    if image.width > most[0] or image.height > most[1]:
        image.thumbnail(most, Image.Resampling.LANCZOS)
        return image
    factor = max(1, min(MIN_SIDE_PX // max(image.size), most[0] // image.width, most[1] // image.height))
    return image.resize((image.width * factor, image.height * factor), Image.Resampling.NEAREST)


def encoded_png(image: Image.Image) -> bytes:
    """Returns a picture as tkinter reads it: PNG in base64."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue())
