"""Early ends of a run: Ctrl-C, SIGTERM, lost processes, full disks, and the checkpoint saved on failure.

If one of several processes disappears, the others lose their connection to it, and their launcher sends them SIGTERM;
either may happen first.
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
"""Errors that end all processes of a run in the same step."""
_LOST_PEER_MESSAGES = (
    "gloo",
    "NCCL",
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "TCPStore",
)
"""Texts of torch's errors for a lost connection, which do not all have a type of their own."""
_FULL_DISK_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_DISK_MESSAGES = ("No space left on device", "os error 28", "PytorchStreamWriter failed", "unexpected pos")
"""Texts of such errors of safetensors and torch, which have no errno."""
_FREE = "free some space, or move the folder"


class Ended(NamedTuple):
    """The end of a run that did not fail.

    Attributes:
        directory: The run's directory.
        is_finished: Whether nothing is left to do, rather than stopped by Ctrl-C; it is saved either way.
        is_interrupted: Whether Ctrl-C was pressed; if the run is finished, this happened near its end.
    """

    directory: Path
    is_finished: bool
    is_interrupted: bool


def prepare(config: RunConfig | SFTConfig) -> None:
    """Sets threads and seeds, and silences the libraries."""
    if config.num_threads:
        torch.set_num_threads(config.num_threads)
    torch.manual_seed(config.seed)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


@contextmanager
def stop_on_interrupt(
    step: str, lost: str, more: Callable[[], str] = str, *, saves_at_once: bool = False
) -> Iterator[Callable[[], bool]]:
    """Makes the first Ctrl-C a request, which the yielded function reports; the second one interrupts immediately.

    A message names the `step` that is still finished after the first and what the second would lose, and adds `more`.
    SIGTERM, which schedulers and `kill` send shortly before killing a process, is such a request, too, if steps are
    short. One of several processes leaves it to the launcher and `termination_told`.

    Args:
        step: The step that is finished first.
        lost: The loss caused by an immediate interrupt.
        more: Returns additional text for the message.
        saves_at_once: Whether an immediate interrupt also saves the last finished step, as SIGTERM then does.

    Raises:
        TerminatedError: At SIGTERM, if it interrupts immediately.
        KeyboardInterrupt: At the second Ctrl-C.
    """
    is_requested, process = False, os.getpid()

    def request(signum: int, frame: FrameType | None) -> None:
        nonlocal is_requested
        if os.getpid() != process:  # a process forked in the meantime should end, not save
            signal.signal(signum, signal.SIG_DFL)
            signal.raise_signal(signum)
            return
        if signum == signal.SIGTERM and (saves_at_once or is_requested):
            signal.signal(signum, signal.SIG_IGN)  # let the save finish
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
        for signum, handler in previous.items():
            signal.signal(signum, handler)


class SavedRun(Protocol):
    """A run that can be restored and saved, by all of its processes together.

    Attributes:
        directory: The run's directory.
        engine: Engine of its processes.
        iteration: Iterations done.
        saved_iteration: Iterations done at the last checkpoint; negative if there is none yet.
    """

    directory: Path
    engine: Engine
    iteration: int
    saved_iteration: int

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that the next iteration depends on; with several processes, this one's part."""

    def load_state_dict(self, state: dict[str, Any], *, acts: bool = True) -> None:
        """Restores the state returned by `state_dict`, possibly only for saving it."""

    def save(self) -> None:
        """Writes the latest checkpoint."""


class Rescue:
    """Saves a run at its last finished iteration when the next one fails for any reason.

    A single process can always save. Several processes save together, so they can only if all of them failed with
    the same error in the same place (`SHARED`); any other error ends one process while the others wait for it
    elsewhere. The last checkpoint then remains.

    Args:
        run: The run to save.
    """

    def __init__(self, run: SavedRun) -> None:
        self._run = run
        self._before: dict[str, Any] | None = None
        self._running: int | None = None

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """Keeps a copy of the state before the block until it is done, unless the last checkpoint has it."""
        if self._run.saved_iteration != self._run.iteration:
            self._before = copied(self._run.state_dict())
        self._running = self._run.iteration
        yield
        self._running, self._before = None, None

    def save(self, error: BaseException) -> None:
        """Saves the state before the failure and reports it; if that fails, too, the last checkpoint remains."""
        run, is_shared = self._run, isinstance(error, SHARED)
        if run.saved_iteration < 0:
            return  # the very first checkpoint failed
        running = self._running
        where = f"in iteration {running}" if running is not None else f"after {run.iteration} iterations"
        kept = "the last checkpoint is"
        if run.engine.num_processes == 1 or is_shared:
            kept = self._kept()
        elif is_peer_lost(error) or (run.engine.rank > 0 and isinstance(error, PeerError | PeerInterruptedError)):
            return  # reported by `lost_peer_told` or by the main process
        else:  # a checkpoint may be in place before all processes know
            run.saved_iteration = saved_iterations(run.directory) or run.saved_iteration
        if run.engine.rank == 0 or not is_shared:
            after = f"as of {run.saved_iteration} iterations. Resume with {how_to_go_on()}."
            print(f"{type(error).__name__} {where}: {kept} {after}", file=sys.stderr)

    def _kept(self) -> str:
        """Restores the run and saves it; returns the result as the beginning of a sentence."""
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
    return is_torchs and num_processes() > 1 and any(text in str(error) for text in _LOST_PEER_MESSAGES)


@contextmanager
def lost_peer_told(directory: Path) -> Iterator[None]:
    """Converts errors about a lost process in the block to a message with a suggestion.

    Args:
        directory: The run's directory.

    Raises:
        PeerLostError: In place of torch's error.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_peer_lost(error):
            raise
        gone = "another process of the run is gone, or did not answer in time; see its output above or below."
        raise PeerLostError(f"{gone} {_going_on(directory)}") from error


@contextmanager
def termination_told(directory: Path) -> Iterator[None]:
    """Makes SIGTERM end this process with a message, even while it waits for a process that is gone.

    Python's own signal handlers need the interpreter, to which a process in a collective does not return; so a thread
    receives the signal.

    Args:
        directory: The run's directory.
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
    """Returns the message about a termination and the last checkpoint."""
    stopped = "stopped: a process of the run died, or the job was ended; see the processes' output above."
    return f"{stopped} {_going_on(directory)}"


def how_to_stop(unit: str = "iteration") -> str:
    """Returns how to stop a run of several processes from outside its launcher, as a message for the main process.

    Args:
        unit: The unit of work that is finished first.
    """
    return f"To stop after the {unit}, however long it takes: kill -INT {os.getpid()}"


def launchers_limit(directory: Path) -> str:
    """Returns the effect of Ctrl-C under a launcher, which kills processes that have not ended after 30 seconds."""
    if num_processes() == 1:
        return ""
    done = saved_iterations(directory)
    stands = "nothing is saved" if done is None else f"the last checkpoint, of {done} iterations, remains (--resume)"
    return f" A launcher that is also interrupted kills the run 30 s later; then {stands}. {how_to_stop()}"


def saved_iterations(directory: Path) -> int | None:
    """Returns the number of iterations in a run's last checkpoint; None if there is none or it is unknown.

    Changes no files, as the main process may be writing.
    """
    latest = directory / LATEST
    found = (num_iterations_done(path) for path in (latest, moved_aside(latest)))
    return next((done for done in found if done is not None), None)


def _going_on(directory: Path) -> str:
    done = saved_iterations(directory)
    if done is not None:
        return f"The last checkpoint is as of {done} iterations. Resume with --resume."
    if stands(directory / LATEST) or stands(directory / COLD_START_STATE):
        of = "the cold start's" if not stands(directory / LATEST) else "complete"
        return f"The last checkpoint is {of}. Resume with --resume."
    if holds_stages(directory.parent):  # a stage without a checkpoint restarts
        return "This stage has no checkpoint yet. Resume with --resume."
    if (model := cold_start_model(directory)) is not None:
        return f"There is no checkpoint yet: start again from the cold start's model, with --model {model}."
    return "There is no checkpoint yet: start it again."


def is_disk_full(error: BaseException) -> bool:
    """Returns whether an error means that the disk is full here; other processes report their own errors."""
    if isinstance(error, PeerError):
        return False
    if isinstance(error, OSError) and error.errno in _FULL_DISK_ERRNOS:
        return True
    return any(text in str(error) for text in _FULL_DISK_MESSAGES)


@contextmanager
def full_disk_told(directory: Path) -> Iterator[None]:
    """Converts errors about a full disk in the block to a message with the last checkpoint and a suggestion.

    Args:
        directory: The run's directory.

    Raises:
        DiskFullError: In place of the original error.
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
        return f"Its last checkpoint is complete{as_of}: {_FREE}, then resume with --resume."
    if is_in_cold_start(directory):
        return f"The last checkpoint of its cold start is complete: {_FREE}, then resume with --resume."
    if (model := cold_start_model(directory)) is not None:
        return f"Free some space and start again from the cold start's model: --model {model}."
    return "It has no checkpoint yet: free some space, or name another folder with --output, and start again."
