"""What a check is doing, for whoever waits for it."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from types import FrameType

from vlm_envs.arguments.faults import line_in_world
from vlm_envs.world import World

FIRST_REPORT_S = 10.0


@contextlib.contextmanager
def watched(what: str) -> Iterator[None]:
    """Reports on stderr where something is that takes long, at growing intervals.

    Raises:
        KeyboardInterrupt: On Ctrl-C; its message names what was running.
    """
    watched_thread, started, is_done = threading.get_ident(), time.monotonic(), threading.Event()

    def report() -> None:
        wait_s = FIRST_REPORT_S
        while not is_done.wait(wait_s):
            frame = sys._current_frames().get(watched_thread)
            frames = [inner for inner, _ in traceback.walk_stack(frame)][::-1] if frame else []
            running_s = time.monotonic() - started
            print(f"{what} has been running for {running_s:.0f} s{_place(frames)}", file=sys.stderr, flush=True)
            wait_s *= 2

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    except KeyboardInterrupt as interrupt:
        frames = [frame for frame, _ in traceback.walk_tb(interrupt.__traceback__)]
        raise KeyboardInterrupt(f"{what} was interrupted{_place(frames)}") from interrupt
    finally:
        is_done.set()
        reporter.join()


def _place(frames: list[FrameType]) -> str:
    """Returns the split, the seed, and the line of the world's own code that runs, as far as frames show them.

    Args:
        frames: The outermost first.
    """
    worlds = [value for frame in frames for value in [*frame.f_locals.values()] if isinstance(value, World)]
    reached = vars(worlds[-1]) if worlds else {}
    # Gymnasium's property `np_random_seed` would draw a seed where there is none
    seed = reached.get("_np_random_seed")
    line = line_in_world(traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames))
    parts = [f"split {reached['split']!r}"] if "split" in reached else []
    parts += [f"seed {seed}"] if seed is not None else []
    return f": {', '.join([*parts, *filter(None, [line])])}" if parts or line else ""
