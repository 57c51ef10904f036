"""A process that trains: its threads, its seed, and what Ctrl-C and SIGTERM do to it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import torch
import transformers

from training.config.processes import num_processes
from training.config.run import RunConfig
from training.config.supervised.sft import SFTConfig
from training.errors import TerminatedError


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
