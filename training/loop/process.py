"""A process that trains: its threads, its seed, and what Ctrl-C does to it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import torch
import transformers

from training.config.run import RunConfig
from training.config.supervised.sft import SFTConfig


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
def stop_on_interrupt(step: str, lost: str, more: Callable[[], str] = str) -> Iterator[Callable[[], bool]]:
    """Makes the first Ctrl-C a request, which the function it yields tells of; the second one interrupts at once.

    A line says what is still done after the first (`step`) and what the second costs (`lost`), and what `more` gives.
    """
    is_requested = False

    def request(signum: int, frame: FrameType | None) -> None:
        nonlocal is_requested
        if is_requested:
            raise KeyboardInterrupt
        is_requested = True
        print(f"Stopping after this {step}; press Ctrl-C again to stop at once ({lost}).{more()}")

    previous = signal.signal(signal.SIGINT, request)
    try:
        yield lambda: is_requested
    finally:
        signal.signal(signal.SIGINT, previous)
