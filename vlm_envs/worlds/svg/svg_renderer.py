"""Rendering of drawings by a child process that is started on demand and killed on timeout."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import threading
import weakref
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.requirements import install_command
from vlm_envs.spaces import MAX_RESOLUTION
from vlm_envs.tools.data_files import BoundedCache
from vlm_envs.validation import require_positive
from vlm_envs.worlds.svg import svg_painter
from vlm_envs.worlds.svg.svg_markup import MAX_BYTES, MarkupError, read_markup

START_TIMEOUT_S = 60.0
MAX_DRAWINGS = 50_000
"""The process is replaced after this many drawings, which bounds the leaks of its libraries."""


class PaintingError(Exception):
    """A drawing failed, timed out, or crashed the process; the message explains which."""


class PainterProcess:
    """A drawing process that is replaced if it misbehaves. Threads may share it; they take turns."""

    def __init__(self) -> None:
        self._child: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._num_drawings = 0
        self._lock = threading.Lock()

    def paint(self, markup: bytes, *, size_px: int, timeout_s: float) -> bytes:
        """Returns a drawing of validated UTF-8 markup as `size_px * size_px * 4` BGRA bytes.

        Raises:
            PaintingError: If it cannot be drawn within the time and other limits; the next call is not
                affected.
            EngineUnavailableError: If the process cannot start.
        """
        with self._lock:
            if self._num_drawings >= MAX_DRAWINGS:
                self._stop()
            reply = self._ask((size_px, timeout_s, markup), timeout_s)
            self._num_drawings += 1
        if not reply.startswith(svg_painter.DRAWN):
            raise PaintingError(reply[1:].decode(errors="replace"))
        return reply[1:]

    def start(self) -> None:
        """Starts the drawing process unless it is running; raises `EngineUnavailableError` if it cannot."""
        with self._lock:
            self._running()

    @property
    def pid(self) -> int | None:
        """Process id of the drawing process, or None if it is not running."""
        return None if self._child is None else self._child[0].pid

    def close(self) -> None:
        """Stops the drawing process; the next drawing starts another one."""
        with self._lock:
            self._stop()

    def forget(self) -> None:
        """Leaves the drawing process to the parent after a fork; called in the child."""
        self._lock = threading.Lock()
        child, self._child = self._child, None
        if child is not None:
            child[0].returncode = 0  # the parent waits for it

    def _ask(self, request: tuple[int, float, bytes], timeout_s: float) -> bytes:
        for _ in range(2):  # a process killed from outside is not the drawing's fault, so the drawing gets another one
            if (reply := self._reply(request, timeout_s)) is not None:
                return reply
        raise PaintingError("it breaks the renderer")

    def _reply(self, request: tuple[int, float, bytes], timeout_s: float) -> bytes | None:
        """Returns the reply, or None if the process ended before the timeout."""
        child, pipe = self._running()
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            child.kill()

        # A process that neither reads nor answers blocks both calls; killing it makes them raise
        watchdog = threading.Timer(timeout_s, end)
        watchdog.start()
        try:
            pipe.send(request)
            return pipe.recv_bytes()
        except (OSError, EOFError) as error:
            self._stop()
            if is_late.is_set():
                raise PaintingError(f"it takes more than {timeout_s:g} s to draw") from error
            return None
        finally:
            watchdog.cancel()

    def _running(self) -> tuple[subprocess.Popen[bytes], Connection]:
        """Returns the live child and the pipe to it, starting one if necessary."""
        if self._child is not None and self._child[0].poll() is not None:
            self._stop()
        if self._child is None:
            self._child, self._num_drawings = _start(), 0
        return self._child

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            _end(*child)


def _end(child: subprocess.Popen[bytes], pipe: Connection) -> None:
    child.kill()
    pipe.close()
    child.wait()


def _start() -> tuple[subprocess.Popen[bytes], Connection]:
    """Starts the program and waits until it is ready."""
    pipe, far_end = multiprocessing.Pipe()
    child = subprocess.Popen(
        [sys.executable, "-P", str(Path(svg_painter.__file__)), str(far_end.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[far_end.fileno()],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    far_end.close()  # so that the child's death closes the pipe
    try:
        ready = pipe.recv_bytes() if pipe.poll(START_TIMEOUT_S) else b" it takes too long to start"
    except (OSError, EOFError) as error:
        ready = f" its process did not start: {error}".encode()
    if ready != svg_painter.DRAWN:
        _end(child, pipe)
        raise EngineUnavailableError(
            "Drawing SVG needs the package cairosvg and the library cairo 2; "
            f"got: {ready[1:].decode(errors='replace')}. Install the package with {install_command('svg')}, and the "
            "library with your system's packages (Debian: libcairo2, macOS with Homebrew: cairo)."
        )
    return child, pipe


SHARED = PainterProcess()
"""The drawing process that all worlds of this process share."""


def require_painter() -> None:
    """Raises `EngineUnavailableError`, with a suggestion, unless drawings can be rendered here."""
    SHARED.start()


atexit.register(SHARED.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SHARED.forget)


_NUM_KEPT_PIXELS = 16 * 1024 * 1024
_WHITE = 255


@dataclass(frozen=True, slots=True, eq=False)
class Rendering:
    """The result of rendering one piece of markup.

    Attributes:
        pixels: uint8[size_px, size_px, 3] on white, read-only; None if it cannot be drawn.
        error: The reason, for the model to read; None if it was drawn.
    """

    pixels: NDArray[np.uint8] | None = None
    error: str | None = None

    @property
    def num_pixels(self) -> int:
        """Size in the cache: the number of pixels, or the maximum size of markup."""
        return MAX_BYTES if self.pixels is None else self.pixels.size // 3

    @property
    def is_blank(self) -> bool:
        """Whether nothing is visible: it was not drawn, or is all white."""
        return self.pixels is None or bool((self.pixels == _WHITE).all())


class Renderer:
    """Renders markup as square images. Never raises for any markup, and never exceeds the time limit.

    All renderers of a process share the drawing process and the cache. The drawing process starts with the
    first drawing, and ends when the last renderer is closed or the process ends. Copies and pickles start
    their own.

    Args:
        size_px: Side of the images in pixels, 16 to 2048.
        timeout_s: Time limit per drawing in seconds, above 0.

    Raises:
        ConfigError: If an argument is out of range.
    """

    def __init__(self, *, size_px: int = 224, timeout_s: float = 2.0) -> None:
        self.size_px = require_positive("resolution", size_px, minimum=16, maximum=MAX_RESOLUTION)
        if not 0 < timeout_s < float("inf"):
            raise ConfigError(f"render_timeout_s must be a number of seconds above 0; got {timeout_s!r}.")
        self.timeout_s = float(timeout_s)

    def render(self, markup: str) -> Rendering:
        """Renders any markup, or returns why it cannot be drawn; cached, so equal markup may return the same object.

        Raises:
            EngineUnavailableError: If cairosvg is not installed or cannot start.
        """
        _USERS.add(self)
        return _KEPT.get((markup, self.size_px, self.timeout_s), lambda: self._render(markup))

    def _render(self, markup: str) -> Rendering:
        try:
            read_markup(markup)
            content = SHARED.paint(markup.encode(), size_px=self.size_px, timeout_s=self.timeout_s)
        except MarkupError as error:
            return Rendering(error=str(error))
        except PaintingError as error:
            return Rendering(error=f"the renderer cannot draw it: {error}")
        bgra = np.frombuffer(content, np.uint8).reshape(self.size_px, self.size_px, 4)
        pixels = np.ascontiguousarray(bgra[..., 2::-1])
        pixels.flags.writeable = False
        return Rendering(pixels=pixels)

    def close(self) -> None:
        """Stops the drawing process unless other renderers use it; the next drawing restarts it."""
        _USERS.discard(self)
        if not _USERS:
            SHARED.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"size_px": self.size_px, "timeout_s": self.timeout_s}


_USERS: weakref.WeakSet[Renderer] = weakref.WeakSet()
_KEPT: BoundedCache[Rendering] = BoundedCache(_NUM_KEPT_PIXELS, size_of=lambda kept: kept.num_pixels)
