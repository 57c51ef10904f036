"""SIGTERM, by which a launcher ends the other processes of a run when one has died: what is saved, and what to do."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from training.checkpoints.files import LATEST, has_checkpoint, num_iterations_done


@contextmanager
def termination_told(directory: Path) -> Iterator[None]:
    """Makes SIGTERM end this process with a message, even in the midst of waiting for one that is no more.

    Python's own handlers wait for the interpreter, which a process in a collective does not come back to; so a thread
    is told of the signal.

    Args:
        directory: The run's.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    previous = signal.signal(signal.SIGTERM, lambda *_: None)
    previous_fd = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def watch() -> None:
        while number := os.read(reading, 1):
            if number[0] == signal.SIGTERM:
                print(termination_message(directory), file=sys.stderr, flush=True)
                os._exit(128 + signal.SIGTERM)

    Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous_fd)
        signal.signal(signal.SIGTERM, previous)
        os.close(writing)


def termination_message(directory: Path) -> str:
    """Returns what there is to go on from."""
    told = "stopped: a process of the run died, or the job was ended; what a process said of it is above."
    latest = directory / LATEST
    if not has_checkpoint(latest):
        return f"{told} There is no checkpoint yet: start it again."
    return f"{told} The last checkpoint is as of {num_iterations_done(latest)} iterations. Go on with --resume."
