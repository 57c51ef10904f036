"""When a process of a run is gone: what is saved, and what to do.

The others lose their connection to it, and their launcher ends them with SIGTERM; either may come first.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from training.checkpoints.files import (
    COLD_START_STATE,
    LATEST,
    cold_start_model,
    moved_aside,
    num_iterations_done,
    stands,
)
from training.config.processes import num_processes
from training.config.stages_record import holds_stages
from training.errors import PeerLostError
from vlm_envs.errors import VLMEnvsError

_LOST_PEER_MESSAGES = (
    "gloo",
    "NCCL",
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "TCPStore",
)
"""What torch says of a lost connection, for which it has no class of errors throughout."""


def is_peer_lost(error: BaseException) -> bool:
    """Returns whether torch could not reach another process."""
    is_torchs = isinstance(error, RuntimeError) and not isinstance(error, VLMEnvsError)
    return is_torchs and num_processes() > 1 and any(each in str(error) for each in _LOST_PEER_MESSAGES)


@contextmanager
def lost_peer_told(directory: Path) -> Iterator[None]:
    """Raises what says that another process is gone, if it is found out within the block, and what to do.

    Args:
        directory: The run's.

    Raises:
        PeerLostError: In place of what torch says.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_peer_lost(error):
            raise
        gone = "another process of the run is gone, or did not answer in time; what it said is above or below."
        raise PeerLostError(f"{gone} {_going_on(directory)}") from error


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
    return f"{told} {_going_on(directory)}"


def how_to_stop(unit: str = "iteration") -> str:
    """Returns how a run of several processes is stopped from outside of its launcher, for the main process to tell.

    Args:
        unit: What is brought to its end first.
    """
    return f"To stop after the {unit}, however long it takes: kill -INT {os.getpid()}"


def launchers_limit(directory: Path) -> str:
    """Returns what Ctrl-C means under a launcher, which kills what has not ended half a minute later."""
    if num_processes() == 1:
        return ""
    done = saved_iterations(directory)
    stands = "nothing is saved" if done is None else f"the last checkpoint, of {done} iterations, stands (--resume)"
    return f" A launcher that was interrupted too kills the run 30 s later; then {stands}. {how_to_stop()}"


def saved_iterations(directory: Path) -> int | None:
    """Returns of how many iterations a run's last checkpoint is; None if there is none that says so.

    Nothing is put right there: the main process may be writing.
    """
    latest = directory / LATEST
    found = (num_iterations_done(each) for each in (latest, moved_aside(latest)))
    return next((done for done in found if done is not None), None)


def _going_on(directory: Path) -> str:
    done = saved_iterations(directory)
    if done is not None:
        return f"The last checkpoint is as of {done} iterations. Go on with --resume."
    if stands(directory / LATEST) or stands(directory / COLD_START_STATE):
        of = "the cold start's" if not stands(directory / LATEST) else "whole"
        return f"The last checkpoint is {of}. Go on with --resume."
    if holds_stages(directory.parent):  # which begin a stage anew that has no checkpoint
        return "Of this stage there is no checkpoint yet. Go on with --resume."
    if (learnt := cold_start_model(directory)) is not None:
        return f"There is no checkpoint yet: start again from what the cold start learnt, with --model {learnt}."
    return "There is no checkpoint yet: start it again."
