"""Ctrl-C: the first one leaves a board of what there is, the second one quits at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from agents.agent import Agent, AsyncAgent, Response
from vlm_envs.command_line import EXIT_INTERRUPTED
from vlm_envs.trajectory import Observation
from vlm_envs.vector.vector_world import VectorWorld


class RunInterruptedError(RuntimeError):
    """An agent is not asked any more, because its run was stopped."""


class Interruptible:
    """An agent that is asked no more once its run was interrupted: a batch of episodes would take its time.

    Args:
        agent: The agent.
        interrupted: Says so.
    """

    def __init__(self, agent: Agent, interrupted: threading.Event) -> None:
        self._agent, self._interrupted = agent, interrupted

    @classmethod
    def of(cls, agent: Agent, interrupted: threading.Event) -> Agent:
        """Returns an agent made interruptible; one that answers each episode by itself is interrupted by closing it."""
        return agent if isinstance(agent, AsyncAgent) else cls(agent, interrupted)

    @property
    def policy_version(self) -> int:
        """Of the agent."""
        return self._agent.policy_version

    @policy_version.setter
    def policy_version(self, version: int) -> None:
        self._agent.policy_version = version

    def start(self, worlds: VectorWorld) -> None:
        """Has the agent prepare.

        Raises:
            RunInterruptedError: If the run was interrupted.
        """
        self._check()
        self._agent.start(worlds)

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns the agent's responses.

        Raises:
            RunInterruptedError: If the run was interrupted.
        """
        self._check()
        return self._agent.respond(rows, observations)

    def _check(self) -> None:
        if self._interrupted.is_set():
            raise RunInterruptedError


@contextmanager
def second_interrupt_quits() -> Iterator[None]:
    """Within the block the first Ctrl-C raises `KeyboardInterrupt`, and the next one ends the process at once.

    A board is whole at any moment, so that nothing needs to be waited for. Where Ctrl-C is ignored or somebody else's,
    as in the background, it stays so.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def quit_at_once(number: int, frame: object) -> None:
        os._exit(EXIT_INTERRUPTED)

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, quit_at_once)
        told = b"Stopping. Ctrl-C again quits at once."
        # At a terminal without a further line: progress is written over from where it began
        os.write(2, b"\r" + told if os.isatty(2) else b"\n" + told + b"\n")
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, cast("Any", signal.default_int_handler))
