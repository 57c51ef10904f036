"""A worker that serves some of the environments over a pipe, wherever it runs."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from vlm_envs.errors import WorkerError
from vlm_envs.vector.workers import CallResult, EnvDescription, EnvFn

START_TIMEOUT_S = 120.0
"""How long a worker may take to import its modules and make its environments."""

STOP_TIMEOUT_S = 2.0
"""How long a worker that is asked to stop may take to close its environments."""

_NUM_NAMED = 6


def named_environments(indices: Iterable[int]) -> str:
    """Returns what messages call the environments of a worker: all of them if they are few, else the first and last."""
    ordered = sorted(indices)
    if len(ordered) <= _NUM_NAMED:
        return f"environments {ordered}"
    return f"{len(ordered)} environments ({ordered[0]}, {ordered[1]} to {ordered[-1]})"


@dataclass(kw_only=True, eq=False)
class PipedWorker(ABC):
    """A worker that serves some of the environments.

    Attributes:
        env_fns: What makes each environment, by its index in the batch.
        unanswered: Indices whose reply is still to come.
        deadline: Monotonic time in seconds until which the next reply may come.
        pipe: Where calls go in and replies come out; None while the worker is stopped.
    """

    env_fns: Mapping[int, EnvFn]
    unanswered: set[int] = field(default_factory=set)
    deadline: float = 0.0
    pipe: Connection | None = None
    _descriptions: dict[int, EnvDescription] | None = None
    _queued: dict[int, bytes] = field(default_factory=dict)

    @abstractmethod
    def start(self) -> None:
        """Starts the worker without waiting for it."""

    @abstractmethod
    def stop(self, *, kill: bool = False) -> None:
        """Asks the worker to stop, or kills it."""

    @abstractmethod
    def _connect(self) -> Connection:
        """Returns the pipe to the worker, which is started if it is stopped.

        Raises:
            WorkerError: If the worker cannot be reached.
        """

    def _reset(self) -> None:
        """Forgets what the worker before said."""
        self._descriptions = None
        self.unanswered, self._queued = set(), {}

    def ready(self) -> dict[int, EnvDescription]:
        """Returns the descriptions once the environments are made, starting the worker if it is stopped.

        Raises:
            WorkerError: If the worker dies or exceeds `START_TIMEOUT_S` while it starts.
            Exception: What making an environment raised.
        """
        if self.pipe is not None and self._descriptions is not None:
            return self._descriptions
        try:
            self.pipe = self._connect()
            if not self.pipe.poll(START_TIMEOUT_S):
                raise WorkerError(f"{self} made no environments within {START_TIMEOUT_S} s.")
            described: CallResult = self.pipe.recv()[1]
        except (EOFError, OSError) as error:
            self.stop(kill=True)
            raise WorkerError(f"{self} died while it made its environments. {self._likely_remedy()}") from error
        except Exception:
            self.stop(kill=True)
            raise
        if described.error is not None:  # may be an OSError of the environment's own
            self.stop(kill=True)
        self._descriptions = described.unwrap()
        assert self._descriptions is not None
        return self._descriptions

    def _likely_remedy(self) -> str:
        """Returns what to look after when a worker dies before it has made its environments."""
        return "Look after the world's engine and the machine's memory."

    def send(self, calls: Mapping[int, bytes], timeout_s: float) -> None:
        """Sends packed calls, those of a busy worker once it has answered the ones before.

        A worker that is already dead shows it when its replies are awaited.
        """
        if self.unanswered:  # or both ends of the pipe could wait for the other to read
            self._queued.update(calls)
            return
        assert self.pipe is not None
        self.unanswered = set(calls)
        self.deadline = time.monotonic() + timeout_s
        try:
            self.pipe.send(calls)
        except OSError:
            self.deadline = time.monotonic()

    @property
    def has_answered(self) -> bool:
        """Whether a reply is there, or it shows that none will come."""
        return self.pipe is not None and self.pipe.poll()

    def receive(self, timeout_s: float) -> tuple[int, CallResult]:
        """Returns the next reply and gives the following one its full time."""
        assert self.pipe is not None
        index, reply = self.pipe.recv()
        self.unanswered.discard(index)
        self.deadline = time.monotonic() + timeout_s
        if self._queued and not self.unanswered:
            queued, self._queued = self._queued, {}
            self.send(queued, timeout_s)
        return index, reply
