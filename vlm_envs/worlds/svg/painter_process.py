"""The one drawing process of this process: started when needed, ended when late, started again."""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

from vlm_envs.errors import EngineUnavailableError
from vlm_envs.worlds.svg import painter

START_TIMEOUT_S = 60.0
MAX_DRAWINGS = 50_000
"""Drawings after which the process is replaced, so that what its libraries leak stays small."""

_CHUNK_BYTES = 1 << 20


class PaintingError(Exception):
    """A drawing failed, took too long or brought the process down; the message says which."""


class PainterProcess:
    """A drawing process that lives as long as it behaves. Threads may share it; they take turns."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._num_drawings = 0
        self._lock = threading.Lock()

    def paint(self, markup: bytes, *, size_px: int, timeout_s: float) -> bytes:
        """Returns a drawing as BGRA bytes.

        Args:
            markup: Checked markup, in UTF-8.
            size_px: Side of the square picture in pixels.
            timeout_s: Seconds one drawing may take.

        Returns:
            `size_px * size_px * 4` bytes.

        Raises:
            PaintingError: If it cannot be drawn within the limits; the next call is not affected.
            EngineUnavailableError: If the process cannot start.
        """
        request = painter.REQUEST.pack(size_px, timeout_s, len(markup)) + markup
        with self._lock:
            if self._num_drawings >= MAX_DRAWINGS:
                self._stop()
            drawn, content = self._ask(request, timeout_s)
            self._num_drawings += 1
        if not drawn:
            raise PaintingError(content.decode(errors="replace"))
        return content

    def start(self) -> None:
        """Starts the drawing process unless it runs; raises `EngineUnavailableError` if it cannot."""
        with self._lock:
            self._running()

    @property
    def pid(self) -> int | None:
        """Process id of the drawing process, or None while there is none."""
        return None if self._child is None else self._child.pid

    def close(self) -> None:
        """Ends the drawing process; the next drawing starts another."""
        with self._lock:
            self._stop()

    def forget(self) -> None:
        """Leaves the drawing process to the parent after a fork; called in the child."""
        self._lock = threading.Lock()
        child, self._child = self._child, None
        if child is not None:
            child.returncode = 0  # it is not this process's to wait for

    def _ask(self, request: bytes, timeout_s: float) -> tuple[bool, bytes]:
        for _ in range(2):  # a process that was ended from outside is no fault of the drawing: it gets another
            child = self._running()
            try:
                _write(child, request)
                return _read_reply(child, timeout_s)
            except TimeoutError:
                self._stop()
                raise PaintingError(f"it takes more than {timeout_s:g} s to draw") from None
            except (OSError, EOFError):
                self._stop()
        raise PaintingError("it breaks the renderer")

    def _running(self) -> subprocess.Popen[bytes]:
        """Returns the live child, after a start if there is none."""
        if self._child is not None and self._child.poll() is not None:
            self._stop()
        if self._child is None:
            self._child, self._num_drawings = _start(), 0
        return self._child

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None, "both are pipes"
            pipe.close()
        child.wait()


def _start() -> subprocess.Popen[bytes]:
    """Starts the program and waits until it is ready."""
    child = subprocess.Popen(
        [sys.executable, "-P", str(Path(painter.__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        ready, reason = _read_reply(child, START_TIMEOUT_S)
    except (TimeoutError, EOFError) as error:
        ready, reason = False, f"its process did not start: {error}".encode()
    if not ready:
        child.kill()
        child.communicate()
        raise EngineUnavailableError(
            "Drawing SVG needs the package cairosvg and the library cairo 2; "
            f"got: {reason.decode(errors='replace')}. Install the package with pip install 'vlm-envs[svg]', and the "
            "library with your system's packages (Debian: libcairo2, macOS with Homebrew: cairo)."
        )
    return child


def _write(child: subprocess.Popen[bytes], content: bytes) -> None:
    assert child.stdin is not None, "it is a pipe"
    view = memoryview(content)
    while view:
        view = view[os.write(child.stdin.fileno(), view) :]


def _read_reply(child: subprocess.Popen[bytes], timeout_s: float) -> tuple[bool, bytes]:
    """Returns one reply; raises TimeoutError when it is late and EOFError when the process has ended."""
    deadline = time.monotonic() + timeout_s
    drawn, num_bytes = painter.REPLY.unpack(_read(child, painter.REPLY.size, deadline))
    return drawn, _read(child, num_bytes, deadline)


def _read(child: subprocess.Popen[bytes], num_bytes: int, deadline: float) -> bytes:
    assert child.stdout is not None, "it is a pipe"
    descriptor = child.stdout.fileno()
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    content = bytearray()
    while len(content) < num_bytes:
        left_ms = (deadline - time.monotonic()) * 1000
        if left_ms <= 0 or not poll.poll(left_ms):
            raise TimeoutError(f"no reply in time, {len(content)} of {num_bytes} bytes came")
        chunk = os.read(descriptor, min(num_bytes - len(content), _CHUNK_BYTES))
        if not chunk:
            raise EOFError("the process ended")
        content += chunk
    return bytes(content)


SHARED = PainterProcess()
"""The drawing process that all worlds of this process share."""


def require_painter() -> None:
    """Raises `EngineUnavailableError`, with the remedy, unless drawings can be made here."""
    SHARED.start()


atexit.register(SHARED.close)
os.register_at_fork(after_in_child=SHARED.forget)
