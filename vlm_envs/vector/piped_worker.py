"""A thread or process that serves some of the environments over a pipe."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import ClassVar

from vlm_envs.errors import WorkerError
from vlm_envs.vector.workers import CallResult, EnvDescription, EnvFn, serve

START_TIMEOUT_S = 120.0
"""How long a worker may take to import its modules and make its environments."""

_STOP_TIMEOUT_S = 2.0


def _serve_in_process(pipe: Connection, env_fns: Mapping[int, EnvFn]) -> None:
    """Serves in a process, leaving Ctrl-C to the owner, which then closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(pipe, env_fns)


@dataclass(kw_only=True, eq=False)
class PipedWorker:
    """A thread or process that serves some of the environments.

    Attributes:
        env_fns: What makes each environment, by its index in the batch.
        kind: `"thread"` or `"process"`.
        start_method: How processes start.
        unanswered: Indices whose reply is still to come.
        deadline: Monotonic time in seconds until which the next reply may come.
    """

    env_fns: Mapping[int, EnvFn]
    kind: str
    start_method: str
    unanswered: set[int] = field(default_factory=set)
    deadline: float = 0.0
    pipe: Connection | None = None
    _carrier: BaseProcess | threading.Thread | None = None
    _descriptions: dict[int, EnvDescription] | None = None
    _queued: dict[int, bytes] = field(default_factory=dict)
    _proven: ClassVar[set[tuple[str, str]]] = set()
    """Kinds and start methods by which a worker has come up in this process."""

    def start(self) -> None:
        """Starts the thread or process without waiting for it."""
        self._descriptions = None
        self.unanswered, self._queued = set(), {}
        if self.kind == "thread":
            self.pipe, far_end = multiprocessing.Pipe()
            self._carrier = threading.Thread(target=serve, args=(far_end, self.env_fns), daemon=True)
            self._carrier.start()
            return
        context = multiprocessing.get_context(self.start_method)
        self.pipe, far_end = context.Pipe()
        # typeshed gives the common base of contexts no Process
        self._carrier = context.Process(  # type: ignore[attr-defined]
            target=_serve_in_process, args=(far_end, self.env_fns), daemon=True
        )
        self._carrier.start()
        far_end.close()  # so that the worker's death is seen as the end of the pipe

    def stop(self, *, kill: bool = False) -> None:
        """Asks the worker to stop, or kills it; a thread cannot be killed and is abandoned."""
        carrier, pipe = self._carrier, self.pipe
        self._carrier = self.pipe = None
        self.unanswered, self._queued = set(), {}
        if pipe is not None:
            pipe.close()
        if carrier is None:
            return
        if isinstance(carrier, threading.Thread):
            carrier.join(0.0 if kill else _STOP_TIMEOUT_S)
            return
        if not kill:
            carrier.join(_STOP_TIMEOUT_S)
        if carrier.is_alive():
            carrier.kill()
        carrier.join()
        carrier.close()

    def ready(self) -> dict[int, EnvDescription]:
        """Returns the descriptions once the environments are made, starting the worker if it is stopped.

        Raises:
            WorkerError: If the worker dies or exceeds `START_TIMEOUT_S` while it starts.
            Exception: What making an environment raised.
        """
        if self.pipe is None:
            self.start()
        assert self.pipe is not None
        if self._descriptions is None:
            try:
                if not self.pipe.poll(START_TIMEOUT_S):
                    raise WorkerError(f"{self} made no environments within {START_TIMEOUT_S} s.")
                self._descriptions = self.pipe.recv()[1].unwrap()
            except (EOFError, OSError) as error:
                self.stop(kill=True)
                raise WorkerError(f"{self} died while it made its environments. {self._likely_remedy()}") from error
            except Exception:
                self.stop(kill=True)
                raise
        self._proven.add((self.kind, self.start_method))
        assert self._descriptions is not None
        return self._descriptions

    def _likely_remedy(self) -> str:
        """Returns what to look after: a script that cannot be imported lets no process at all start."""
        is_proven = self.start_method == "fork" or (self.kind, self.start_method) in self._proven
        if self.kind == "process" and not is_proven:
            return (
                f"With start method {self.start_method!r}, the main script needs an `if __name__ == '__main__':` guard."
            )
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

    def __str__(self) -> str:
        """Names the worker by what it serves."""
        return f"The {self.kind} worker of environments {sorted(self.env_fns)}"
