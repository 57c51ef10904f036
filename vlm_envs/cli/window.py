"""Playing in a window, where this Python has tkinter and the machine a display."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from PIL import Image

from vlm_envs.cli.keys import CONTROL_KEYS, Ask, Command, command_of
from vlm_envs.cli.session import Session
from vlm_envs.errors import ConfigError

if TYPE_CHECKING:
    import tkinter

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
