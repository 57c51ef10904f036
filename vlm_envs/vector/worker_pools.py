"""Pools of workers, in this thread or behind pipes, with the same behavior.

The same loop serves all environments that are not in this thread, so a world behaves the same in any kind of
worker.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler

from vlm_envs.vector.workers import (
    Call,
    CallResult,
    Dumps,
    EnvDescription,
    EnvFn,
    EnvGroup,
    PackedEnvFn,
    PipedWorker,
    pack,
)

_logger = logging.getLogger(__name__)


class SerialPool:
    """Runs environments one after the other in the caller's thread; calls cannot time out."""

    def __init__(self, env_fns: Mapping[int, EnvFn]) -> None:
        self._group = EnvGroup(env_fns)
        self._calls: dict[int, Call] = {}

    def describe(self) -> dict[int, EnvDescription]:
        """Returns the description of each environment."""
        return self._group.describe()

    def send(self, calls: Mapping[int, Call]) -> None:
        """Stores the calls; `recv` carries them out."""
        self._calls.update(calls)

    def recv(self, timeout_s: float | None = None) -> dict[int, CallResult]:
        """Carries out all calls in the order of their indices, however long it takes."""
        calls, self._calls = self._calls, {}
        return {index: self._group.run(index, calls[index]) for index in sorted(calls)}

    @property
    def awaited(self) -> list[Connection]:
        """Empty: calls are carried out in `recv`."""
        return []

    def cancel(self) -> None:
        """Drops the calls that have not been carried out."""
        self._calls.clear()

    def close(self) -> None:
        """Closes the environments."""
        self._group.close()


class PipedPool:
    """Environments spread over workers behind pipes; the pool survives the loss of any worker.

    Args:
        workers: Workers that have not been started.
        timeout_s: Maximum time of a call on one environment, in seconds.
        dumps: Function that pickles calls.

    Raises:
        WorkerError: If a worker cannot start.
        Exception: Any exception raised in creating an environment.
    """

    def __init__(
        self, workers: Sequence[PipedWorker], *, timeout_s: float, dumps: Dumps = ForkingPickler.dumps
    ) -> None:
        self._timeout_s, self._dumps = timeout_s, dumps
        self._absent: dict[int, CallResult] = {}
        self._workers = workers
        try:
            for worker in self._workers:
                worker.start()
            for worker in self._workers:
                worker.ready()
        except BaseException:
            self.close()
            raise

    def describe(self) -> dict[int, EnvDescription]:
        """Returns the description of each environment."""
        return {index: described for worker in self._workers for index, described in worker.ready().items()}

    def send(self, calls: Mapping[int, Call]) -> None:
        """Starts one call per given index without waiting; an environment has at most one pending call.

        Lost workers are restarted. If that fails, the next call tries again; until then their environments
        are lost.

        Raises:
            ConfigError: If a call cannot be pickled; then none is carried out.
        """
        packed = pack(calls, "call", self._dumps)
        ready: list[tuple[PipedWorker, dict[int, bytes]]] = []
        for worker in self._workers:
            share = {i: packed[i] for i in worker.env_fns if i in packed}
            if share and (missing := _not_there(worker)):
                self._absent |= missing
            elif share:
                ready.append((worker, share))
        for worker, share in ready:  # only now; otherwise the first would work while others are still starting
            worker.send(share, self._timeout_s)

    def recv(self, timeout_s: float | None = None) -> dict[int, CallResult]:
        """Returns the available replies, at least one if a call is pending.

        Args:
            timeout_s: Maximum time to wait for the first, in seconds; None for no limit.

        Returns:
            Replies by index, and one for every other environment lost in the meantime; empty after the time
            limit.
        """
        replies, self._absent = self._absent, {}
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while not replies and (waiting := {worker.pipe: worker for worker in self._workers if worker.unanswered}):
            next_deadline = min(worker.deadline for worker in waiting.values())
            wait_s = max(0.0, min(next_deadline, until) - time.monotonic())
            pipes = connection.wait([pipe for pipe in waiting if pipe is not None], wait_s)
            for pipe in pipes:
                replies |= self._received(waiting[pipe])  # type: ignore[index]
            for worker in waiting.values():
                if worker.unanswered and worker.pipe not in pipes and worker.deadline <= time.monotonic():
                    replies |= self._lost(worker, f"gave no answer within {self._timeout_s} s")
            if not replies and time.monotonic() >= until:
                break
        return replies

    @property
    def awaited(self) -> list[Connection]:
        """The pipes of workers with pending calls."""
        return [worker.pipe for worker in self._workers if worker.unanswered and worker.pipe is not None]

    def _received(self, worker: PipedWorker) -> dict[int, CallResult]:
        """Returns the available replies of a worker, or the loss of its environments if the worker has died."""
        replies: dict[int, CallResult] = {}
        while not replies or (worker.unanswered and worker.has_answered):
            try:
                index, reply = worker.receive(self._timeout_s)
            except (EOFError, OSError):
                return replies or self._lost(worker, "died")  # if there were replies, the next call notices the death
            replies[index] = reply
        return replies

    def _lost(self, worker: PipedWorker, why: str) -> dict[int, CallResult]:
        """Restarts a worker and returns the loss of each of its environments."""
        lost = f"{worker} {why} (awaited: {sorted(worker.unanswered)})."
        _logger.warning("%s Restarting its environments.", lost)
        worker.stop(kill=True)
        with suppress(Exception):  # the next call tries again and reports the error
            worker.start()
        return {index: CallResult(lost=lost) for index in worker.env_fns}

    def cancel(self) -> None:
        """Kills the workers with pending calls; the next call restarts them."""
        self._absent = {}
        for worker in self._workers:
            if worker.unanswered:
                worker.stop(kill=True)

    def close(self) -> None:
        """Ends every worker; may be called repeatedly."""
        for worker in self._workers:
            worker.stop()


WorkerPool = SerialPool | PipedPool


def run(pool: WorkerPool, calls: Mapping[int, Call]) -> dict[int, CallResult]:
    """Carries out one call per given index, after canceling earlier ones.

    Returns:
        A reply for every index in `calls`, and one for every other environment lost in the meantime.

    Raises:
        ConfigError: If a call cannot be pickled; then none is carried out.
    """
    pool.cancel()
    replies: dict[int, CallResult] = {}
    try:
        pool.send(calls)
        while received := pool.recv():
            for index, reply in received.items():
                had = replies.get(index)
                replies[index] = reply if had is None else replace(had, lost=reply.lost)
    except BaseException:
        pool.cancel()
        raise
    return replies


def _not_there(worker: PipedWorker) -> dict[int, CallResult]:
    """Returns the loss of a worker's environments if it cannot be started, else an empty dict."""
    try:
        worker.ready()
    except Exception as error:  # raised in creating an environment
        lost = f"{worker} could not be started: {type(error).__name__}: {error}"
        _logger.warning("%s", lost)
        return {index: CallResult(error=error, lost=lost) for index in worker.env_fns}
    return {}


def shares_of(env_fns: Mapping[int, EnvFn], num_workers: int, dumps: Dumps | None = None) -> list[dict[int, EnvFn]]:
    """Returns the share of each of up to `num_workers` workers: environment i belongs to worker i mod `num_workers`.

    Raises:
        ConfigError: If functions are to be pickled, and one cannot be.
    """
    if dumps is not None:
        packed = pack(env_fns, "environment function", dumps)
        env_fns = {index: PackedEnvFn(content) for index, content in packed.items()}
    shares: list[dict[int, EnvFn]] = [{} for _ in range(min(num_workers, len(env_fns)))]
    for position, (index, env_fn) in enumerate(env_fns.items()):
        shares[position % len(shares)][index] = env_fn
    return shares
