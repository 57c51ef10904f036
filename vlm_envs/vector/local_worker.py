"""A thread or process of this machine that serves some of the environments."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.util import register_after_fork
from typing import ClassVar

from vlm_envs.vector.piped_worker import STOP_TIMEOUT_S, PipedWorker, named_environments
from vlm_envs.vector.workers import EnvDescription, EnvFn, serve

_starting = threading.RLock()
"""Held while a worker is started: a process that another thread forks in between would inherit ends of its pipe."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_starting._at_fork_reinit)  # type: ignore[attr-defined]


def _serve_in_process(pipe: Connection, env_fns: Mapping[int, EnvFn], environ: Mapping[str, str]) -> None:
    """Serves in a process, leaving Ctrl-C to the owner, which then closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environ)  # a fork server has those of when it was started
    serve(pipe, env_fns)


def _pipe() -> tuple[Connection, Connection]:
    """Returns the owner's end of a new pipe and the worker's.

    A forked process would inherit the owner's ends, its own and those of all workers before it; while it held them, no
    worker would see that the owner has closed its own, or is gone.
    """
    near_end, far_end = multiprocessing.Pipe()
    register_after_fork(near_end, Connection.close)
    return near_end, far_end


@dataclass(kw_only=True, eq=False)
class LocalWorker(PipedWorker):
    """A thread or process that serves some of the environments.

    Attributes:
        kind: `"thread"` or `"process"`.
        start_method: How processes start.
    """

    kind: str
    start_method: str
    _carrier: BaseProcess | threading.Thread | None = None
    _proven: ClassVar[set[tuple[str, str]]] = set()
    """Kinds and start methods by which a worker has come up in this process."""

    def start(self) -> None:
        """Starts the thread or process without waiting for it."""
        self._reset()
        with _starting:
            self._start()

    def _start(self) -> None:
        if self.kind == "thread":
            self.pipe, far_end = _pipe()
            register_after_fork(far_end, Connection.close)  # it is this process's, too
            thread = threading.Thread(target=serve, args=(far_end, self.env_fns), daemon=True)
            thread.start()
            self._carrier = thread
            return
        context = multiprocessing.get_context(self.start_method)
        self.pipe, far_end = _pipe()
        # typeshed gives the common base of contexts no Process
        process = context.Process(  # type: ignore[attr-defined]
            target=_serve_in_process, args=(far_end, self.env_fns, dict(os.environ)), daemon=True
        )
        process.start()
        self._carrier = process
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
            carrier.join(0.0 if kill else STOP_TIMEOUT_S)
            return
        if not kill:
            carrier.join(STOP_TIMEOUT_S)
        if carrier.is_alive():
            carrier.kill()
        carrier.join()
        carrier.close()

    def _connect(self) -> Connection:
        """Returns the pipe; it is there as soon as the worker is started."""
        if self.pipe is None:
            self.start()
        assert self.pipe is not None
        return self.pipe

    def ready(self) -> dict[int, EnvDescription]:
        """Returns the descriptions, as every worker does, and notes that workers come up this way."""
        descriptions = super().ready()
        self._proven.add((self.kind, self.start_method))
        return descriptions

    def _likely_remedy(self) -> str:
        """Returns what to look after: a script that cannot be imported lets no process at all start."""
        is_proven = self.start_method == "fork" or (self.kind, self.start_method) in self._proven
        if self.kind == "process" and not is_proven:
            return (
                f"With start method {self.start_method!r}, the main script needs an `if __name__ == '__main__':` guard."
            )
        return super()._likely_remedy()

    def __str__(self) -> str:
        """Names the worker by what it serves."""
        return f"The {self.kind} worker of {named_environments(self.env_fns)}"
