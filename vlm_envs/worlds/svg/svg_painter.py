"""The program of the drawing process: reads markup from a pipe and writes pixels to another.

It runs as a script of its own, so that a drawing that never ends, or that brings the native library down, costs this
process and not the world's. It imports nothing of this package but the file `svg_paints.py`, which stands alone, and
starts in a fraction of a second.

It talks over the socket whose number is its argument. Request: side in pixels, seconds to live and markup in UTF-8.
Reply: `DRAWN` and BGRA pixels, or `FAILED` and a reason in UTF-8. The first reply, unasked, says that it is ready.
"""

from __future__ import annotations

import signal
import sys
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

DRAWN, FAILED = b"+", b"-"
MAX_MEMORY_BYTES = 1 << 30


def paint(markup: bytes, size_px: int) -> bytes:
    """Returns a drawing on white paper as BGRA bytes, `size_px` pixels a side, its proportions kept."""
    readable = _paints().drawable(markup.decode()).encode()
    tree = import_module("cairosvg.parser").Tree(bytestring=readable, unsafe=False)
    sides = {"output_width": size_px, "output_height": size_px}
    surface = import_module("cairosvg.surface").PNGSurface(tree, None, 96, background_color="white", **sides)
    surface.cairo.flush()
    return bytes(surface.cairo.get_data())


@cache
def _paints() -> Any:
    """Returns `svg_paints.py`, loaded without the package around it, which takes seconds to import."""
    spec: Any = spec_from_file_location("svg_paints", Path(__file__).with_name("svg_paints.py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def limit_memory() -> None:
    """Makes a drawing that asks for too much memory fail, where the system can do that."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    except (ImportError, OSError, ValueError):  # the limit of time still holds
        pass


def answer(markup: bytes, size_px: int) -> bytes:
    """Returns the reply to one request."""
    try:
        return DRAWN + paint(markup, size_px)
    except MemoryError:
        return FAILED + b"it needs too much memory"
    except Exception as error:
        return FAILED + f"{type(error).__name__}: {error}"[:200].encode(errors="replace")


def serve(pipe: Connection) -> None:
    """Gets ready, then answers requests until the other side closes the pipe."""
    try:
        import_module("cairosvg.surface")
        _paints()
    except (ImportError, OSError) as error:
        pipe.send_bytes(FAILED + str(error).encode(errors="replace"))
        return
    limit_memory()
    pipe.send_bytes(DRAWN)
    while True:
        try:
            size_px, timeout_s, markup = pipe.recv()
        except EOFError:
            return
        # The world ends a late drawing; this ends it when the world itself is gone
        signal.setitimer(signal.ITIMER_REAL, 2 * timeout_s)
        pipe.send_bytes(answer(markup, size_px))
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
