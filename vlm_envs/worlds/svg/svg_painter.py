"""The program of the drawing process: reads markup from a pipe and writes pixels back.

It runs as a separate script, so that a drawing that never ends, or that crashes the native library, costs
this process and not the world's. It imports nothing of this package but the standalone file `svg_paints.py`,
and starts in a fraction of a second.

It communicates over the socket whose number is its argument. Request: side in pixels, time limit in seconds,
and markup in UTF-8. Reply: `DRAWN` and BGRA pixels, or `FAILED` and a reason in UTF-8. An initial unrequested
reply signals that it is ready.
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
    """Returns a drawing on a white background as BGRA bytes, `size_px` pixels on a side, with its aspect ratio."""
    readable = _paints().drawable(markup.decode()).encode()
    tree = import_module("cairosvg.parser").Tree(bytestring=readable, unsafe=False)
    sides = {"output_width": size_px, "output_height": size_px}
    surface = import_module("cairosvg.surface").PNGSurface(tree, None, 96, background_color="white", **sides)
    surface.cairo.flush()
    return bytes(surface.cairo.get_data())


@cache
def _paints() -> Any:
    """Loads `svg_paints.py` without its package, which takes seconds to import."""
    spec: Any = spec_from_file_location("svg_paints", Path(__file__).with_name("svg_paints.py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def limit_memory() -> None:
    """Makes a drawing that uses too much memory fail, on systems that support it."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    except (ImportError, OSError, ValueError):  # the time limit still applies
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
    """Initializes, then answers requests until the other side closes the pipe."""
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
        # The world kills a late drawing; this alarm ends it if the world itself is gone
        signal.setitimer(signal.ITIMER_REAL, 2 * timeout_s)
        pipe.send_bytes(answer(markup, size_px))
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
