"""How a run stops early: Ctrl-C, SIGTERM, lost processes, full disks, and the checkpoint saved on failure.

Where a process of several is gone, the others lose their connection to it, and their launcher ends them with SIGTERM;
either may come first.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any, NamedTuple, Protocol

import torch
import transformers

from training.checkpoints.checkpoint_files import (
    COLD_START_STATE,
    LATEST,
    cold_start_model,
    has_checkpoint,
    is_in_cold_start,
    moved_aside,
    num_iterations_done,
    stands,
)
from training.checkpoints.checkpoint_state import copied
from training.config.processes import num_processes
from training.config.resume import how_to_go_on
from training.config.run_config import RunConfig
from training.engines.engine import Engine
from training.errors import (
    DiskFullError,
    GradientError,
    NothingLeftError,
    PeerError,
    PeerInterruptedError,
    PeerLostError,
    SamplersLostError,
    TerminatedError,
)
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import holds_stages
from vlm_envs.errors import VLMEnvsError

SHARED = (GradientError, NothingLeftError, SamplersLostError)
"""What all processes of a run are ended by in the same step."""
_LOST_PEER_MESSAGES = (
    "gloo",
    "NCCL",
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "TCPStore",
)
"""What torch says of a lost connection, for which it has no class of errors throughout."""
_FULL_DISK_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_DISK_MESSAGES = ("No space left on device", "os error 28", "PytorchStreamWriter failed", "unexpected pos")
"""What safetensors and torch say of it, whose errors have no number."""
_FREE = "free some space, or move the folder"


class Ended(NamedTuple):
    """How a run ended that did not fail.

    Attributes:
        directory: The run's.
        is_finished: Whether nothing is left to do, or Ctrl-C stopped it before; it is saved either way.
        is_interrupted: Whether Ctrl-C was pressed in it; where it is finished as well, when it was about to end.
    """

    directory: Path
    is_finished: bool
    is_interrupted: bool


def prepare(config: RunConfig | SFTConfig) -> None:
    """Sets threads and seeds, and keeps the libraries quiet and offline."""
    if config.num_threads:
        torch.set_num_threads(config.num_threads)
    torch.manual_seed(config.seed)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


@contextmanager
def stop_on_interrupt(
    step: str, lost: str, more: Callable[[], str] = str, *, saves_at_once: bool = False
) -> Iterator[Callable[[], bool]]:
    """Makes the first Ctrl-C a request, which the function it yields tells of; the second one interrupts at once.

    A line says what is still done after the first (`step`) and what the second costs (`lost`), and what `more` gives.
    SIGTERM, which schedulers and `kill` send, soon to kill what has not ended, is such a request, too, where a step is
    short. In one of several processes it is left to their launcher and `termination_told`.

    Args:
        step: What is brought to its end.
        lost: What is lost otherwise.
        more: What else is to be told.
        saves_at_once: Whether who is interrupted at once saves the last whole step all the same; SIGTERM then does so.

    Raises:
        TerminatedError: At SIGTERM, if that interrupts at once.
        KeyboardInterrupt: At the second Ctrl-C.
    """
    is_requested, process = False, os.getpid()

    def request(signum: int, frame: FrameType | None) -> None:
        nonlocal is_requested
        if os.getpid() != process:  # A child that was forked meanwhile is not asked to save, but to end
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
            return
        if signum == signal.SIGTERM and (saves_at_once or is_requested):
            signal.signal(signum, signal.SIG_IGN)  # What is being saved now is saved
            raise TerminatedError("Ended by SIGTERM.")
        if is_requested:
            raise KeyboardInterrupt
        is_requested = True
        again = f"Press Ctrl-C again to stop immediately: {lost}."
        print(f"Stopping after this {step}, then saving. {again}{more()}", flush=True)

    previous = {signal.SIGINT: signal.signal(signal.SIGINT, request)}
    if num_processes() == 1 and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        previous[signal.SIGTERM] = signal.signal(signal.SIGTERM, request)
    try:
        yield lambda: is_requested
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)


class SavedRun(Protocol):
    """A run that can be put back and saved, by all of its processes together.

    Attributes:
        directory: Where it is saved.
        engine: Its processes.
        iteration: Iterations done.
        saved_iteration: Of how many its last checkpoint is; negative if there is none yet.
    """

    directory: Path
    engine: Engine
    iteration: int
    saved_iteration: int

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that the next iteration depends on; of several processes, what this one has of it."""

    def load_state_dict(self, state: dict[str, Any], *, acts: bool = True) -> None:
        """Continues from what `state_dict` returned, or is only put back to be saved."""

    def save(self) -> None:
        """Writes the latest checkpoint."""


class Rescue:
    """Saves a run as of its last whole iteration, whatever ends the next one.

    One process always can. Several save together, so they can only where all of them were ended by the same thing in
    the same place (`SHARED`); any other has ended one of them, and the others wait for it elsewhere. Then the last
    checkpoint stands.

    Args:
        run: What is saved.
    """

    def __init__(self, run: SavedRun) -> None:
        self._run = run
        self._before: dict[str, Any] | None = None
        self._running: int | None = None

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """Keeps what the run was before the block until that is done; nothing, if the last checkpoint has it."""
        if self._run.saved_iteration != self._run.iteration:
            self._before = copied(self._run.state_dict())
        self._running = self._run.iteration
        yield
        self._running, self._before = None, None

    def save(self, error: BaseException) -> None:
        """Saves the run as it was before what failed, and says so; if that fails, too, the last checkpoint stands."""
        run, is_shared = self._run, isinstance(error, SHARED)
        if run.saved_iteration < 0:
            return  # the first checkpoint of all is what failed
        running = self._running
        where = f"in iteration {running}" if running is not None else f"after {run.iteration} iterations"
        kept = "the last checkpoint is"
        if run.engine.num_processes == 1 or is_shared:
            kept = self._kept()
        elif is_peer_lost(error) or (run.engine.rank > 0 and isinstance(error, PeerError | PeerInterruptedError)):
            return  # which is told by who takes it, or by the main process
        else:  # a checkpoint may be in place before all know
            run.saved_iteration = saved_iterations(run.directory) or run.saved_iteration
        if run.engine.rank == 0 or not is_shared:
            after = f"as of {run.saved_iteration} iterations. Go on with {how_to_go_on()}."
            print(f"{type(error).__name__} {where}: {kept} {after}", file=sys.stderr)

    def _kept(self) -> str:
        """Puts the run back and saves it; returns what stands then, as the beginning of a sentence."""
        try:
            if self._before is not None:
                self._run.load_state_dict(self._before, acts=False)
            if self._before is not None or self._running is None:
                self._run.save()
        except Exception as second:
            return f"this run could not be saved ({type(second).__name__}: {second}); the last checkpoint is"
        return "saved"


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


def is_disk_full(error: BaseException) -> bool:
    """Returns whether something could not be written for lack of space, here: another process tells of its own."""
    if isinstance(error, PeerError):
        return False
    if isinstance(error, OSError) and error.errno in _FULL_DISK_ERRNOS:
        return True
    return any(each in str(error) for each in _FULL_DISK_MESSAGES)


@contextmanager
def full_disk_told(directory: Path) -> Iterator[None]:
    """Raises what says that a run's disk is full, if it is within the block, what is saved, and what to do.

    Args:
        directory: The run's.

    Raises:
        DiskFullError: In place of whatever could not be written.
    """
    try:
        yield
    except Exception as error:
        if not is_disk_full(error):
            raise
        raise DiskFullError(f"No space left to write to {directory.resolve()}. {_saved_in(directory)}") from error


def _saved_in(directory: Path) -> str:
    latest = directory / LATEST
    if has_checkpoint(latest):
        done = num_iterations_done(latest)
        as_of = "" if done is None else f", as of {done} iterations"
        return f"Its last checkpoint is whole{as_of}: {_FREE}, and go on with --resume."
    if is_in_cold_start(directory):
        return f"The last checkpoint of its cold start is whole: {_FREE}, and go on with --resume."
    if (learnt := cold_start_model(directory)) is not None:
        return f"Free some space and start again from what the cold start learnt: --model {learnt}."
    return "It has no checkpoint yet: free some space, or name another folder with --output, and start again."
