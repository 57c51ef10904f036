"""Pools of workers: in this thread, in threads, or in processes, all with the same behaviour.

Threads and processes are served over pipes by the same loop, so a world behaves the same in either.
"""

from __future__ import annotations

import logging
import os
import pickle
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from multiprocessing import connection

from vlm_envs.errors import ConfigError
from vlm_envs.vector.piped_worker import PipedWorker
from vlm_envs.vector.workers import Call, CallResult, EnvDescription, EnvFn, EnvGroup, pack_calls

_logger = logging.getLogger(__name__)


class WorkerPool(ABC):
    """All environments of a batch, addressed by index."""

    @abstractmethod
    def describe(self) -> dict[int, EnvDescription]:
        """Returns the description of each environment."""

    @abstractmethod
    def run(self, calls: Mapping[int, Call]) -> dict[int, CallResult]:
        """Carries out one call per given index.

        Returns:
            A reply for every index in `calls`, and one for every other environment lost on the way.
        """

    @abstractmethod
    def close(self) -> None:
        """Closes environments and workers; closing twice does no harm."""


class SerialPool(WorkerPool):
    """One environment after the other in the caller's thread; nothing can time out."""

    def __init__(self, env_fns: Mapping[int, EnvFn]) -> None:
        self._group = EnvGroup(env_fns)

    def describe(self) -> dict[int, EnvDescription]:
        """Returns the description of each environment."""
        return self._group.describe()

    def run(self, calls: Mapping[int, Call]) -> dict[int, CallResult]:
        """Carries out the calls in the order of their indices."""
        return {index: self._group.run(index, calls[index]) for index in sorted(calls)}

    def close(self) -> None:
        """Closes the environments."""
        self._group.close()


class PipedPool(WorkerPool):
    """Environments spread over threads or processes, which survive the loss of any of them.

    Args:
        env_fns: What makes each environment, by its index in the batch; environment i goes to worker
            i mod `num_workers`.
        kind: `"thread"` or `"process"`.
        num_workers: Threads or processes.
        timeout_s: Longest time one call on one environment may take, in seconds.
        start_method: How processes start, as `multiprocessing` names it.

    Raises:
        ConfigError: If an environment function cannot be sent to a process.
    """

    def __init__(
        self,
        env_fns: Mapping[int, EnvFn],
        *,
        kind: str,
        num_workers: int,
        timeout_s: float,
        start_method: str,
    ) -> None:
        if kind == "process":
            _require_picklable(env_fns)
        self._timeout_s = timeout_s
        shares: list[dict[int, EnvFn]] = [{} for _ in range(min(num_workers, len(env_fns)))]
        for position, (index, env_fn) in enumerate(env_fns.items()):
            shares[position % len(shares)][index] = env_fn
        self._workers = [PipedWorker(env_fns=share, kind=kind, start_method=start_method) for share in shares]
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

    def run(self, calls: Mapping[int, Call]) -> dict[int, CallResult]:
        """Carries out all shares at the same time, each in order; lost workers are started anew.

        A worker that cannot be started anew is tried again with the next call; until then its environments are lost.

        Raises:
            ConfigError: If a call cannot be pickled; none is carried out then.
        """
        packed = pack_calls(calls)
        shares = [(worker, {i: packed[i] for i in worker.env_fns if i in packed}) for worker in self._workers]
        absent: dict[int, CallResult] = {}
        busy: list[PipedWorker] = []
        for worker, share in shares:
            if share and (missing := _not_there(worker)):
                absent |= missing
            elif share:
                busy.append(worker)
        try:
            for worker, share in shares:
                if worker in busy:
                    worker.send(share, self._timeout_s)
            return absent | dict(self._replies(busy))
        except BaseException:
            for worker in busy:
                if worker.unanswered:
                    worker.stop(kill=True)
            raise

    def _replies(self, busy: list[PipedWorker]) -> Iterator[tuple[int, CallResult]]:
        """Yields replies as they come; a lost worker yields one more for each of its environments."""
        received: dict[int, CallResult] = {}
        while waiting := {worker.pipe: worker for worker in busy if worker.unanswered}:
            now = time.monotonic()
            timeout_s = max(0.0, min(worker.deadline for worker in waiting.values()) - now)
            pipes = connection.wait([pipe for pipe in waiting if pipe is not None], timeout_s)
            for pipe in pipes:
                worker = waiting[pipe]  # type: ignore[index]
                try:
                    index, received[index] = worker.receive(self._timeout_s)
                except (EOFError, OSError):
                    yield from self._lose(worker, "died", received)
                else:
                    yield index, received[index]
            for worker in waiting.values():
                if worker.unanswered and worker.pipe not in pipes and worker.deadline <= time.monotonic():
                    yield from self._lose(worker, f"gave no answer within {self._timeout_s} s", received)

    def _lose(
        self, worker: PipedWorker, why: str, received: Mapping[int, CallResult]
    ) -> Iterator[tuple[int, CallResult]]:
        """Starts a worker anew and yields the loss of each of its environments, with what it had answered."""
        lost = f"{worker} {why} (awaited: {sorted(worker.unanswered)})."
        _logger.warning("%s Its environments are made anew.", lost)
        worker.stop(kill=True)
        worker.start()
        for index in worker.env_fns:
            yield index, replace(received.get(index, CallResult()), lost=lost)

    def close(self) -> None:
        """Ends every worker."""
        for worker in self._workers:
            worker.stop()


def _not_there(worker: PipedWorker) -> dict[int, CallResult]:
    """Returns the loss of a worker's environments if it cannot be started, else nothing."""
    try:
        worker.ready()
    except Exception as error:  # what making an environment raises
        lost = f"{worker} could not be started: {type(error).__name__}: {error}"
        _logger.warning("%s", lost)
        return {index: CallResult(error=error, lost=lost) for index in worker.env_fns}
    return {}


def _require_picklable(env_fns: Mapping[int, EnvFn]) -> None:
    for index, env_fn in env_fns.items():
        try:
            pickle.dumps(env_fn)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"Process workers need environment functions that can be pickled; number {index}, "
                f"{env_fn!r}, cannot: {error}. Use functools.partial(vlm_envs.make, env_id, ...) or a "
                "function defined at the top of a module, not a lambda; or workers='thread'."
            ) from error


def make_pool(
    env_fns: Mapping[int, EnvFn],
    *,
    workers: str,
    num_workers: int | None,
    timeout_s: float,
    start_method: str,
) -> WorkerPool:
    """Returns the pool of one kind; `num_workers` None means one per CPU core."""
    if workers == "serial":
        return SerialPool(env_fns)
    num_workers = num_workers if num_workers is not None else os.cpu_count() or 1
    return PipedPool(env_fns, kind=workers, num_workers=num_workers, timeout_s=timeout_s, start_method=start_method)
