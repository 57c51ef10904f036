"""How a user is told to go on with a run that ended early: by the whole command where one is known."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from training.config.processes import num_processes

_COMMAND: ContextVar[str] = ContextVar("_COMMAND", default="")


class NamedRun(Protocol):
    """A configuration that says where a run goes: of a run, of stages, of a fine-tuning, or of an upscaler."""

    @property
    def name(self) -> str:
        """The run's name, a folder within `output`."""

    @property
    def output(self) -> str:
        """The folder that holds runs."""


@contextmanager
def going_on_by(words: Sequence[str], run: NamedRun, *, name: str, output: str) -> Iterator[None]:
    """Within the block, messages that say how a run goes on give the command, in place of `--resume` alone.

    Args:
        words: What stands behind `python -m training`, without options.
        run: The run.
        name: What a run is called to which these words alone give no name.
        output: Where it then is.
    """
    placed = ["--output", run.output] if run.output != output else []
    named = ["--name", run.name] if run.name != name else []
    token = _COMMAND.set(shlex.join(["python", "-m", "training", *words, *placed, *named, "--resume"]))
    try:
        yield
    finally:
        _COMMAND.reset(token)


def how_to_go_on() -> str:
    """Returns what to go on with: the command, or the option to be added to the one that the user knows.

    Of several processes it is the latter, for a launcher starts them.
    """
    command = _COMMAND.get()
    return f"`{command}`" if command and num_processes() == 1 else "--resume"
