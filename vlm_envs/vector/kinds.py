"""Where the worlds of a vector environment may live, by name."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping

from vlm_envs.errors import ConfigError
from vlm_envs.vector.local_worker import LocalWorker
from vlm_envs.vector.pools import PipedPool, SerialPool, WorkerPool, shares_of
from vlm_envs.vector.ray_pool import RayPool
from vlm_envs.vector.workers import EnvFn

LOCAL_KINDS = ("serial", "thread", "process")
WORKER_KINDS = (*LOCAL_KINDS, "ray")


def make_pool(
    env_fns: Mapping[int, EnvFn],
    *,
    workers: str,
    num_workers: int | None,
    timeout_s: float,
    start_method: str,
) -> WorkerPool:
    """Returns the pool of one kind.

    Args:
        env_fns: What makes each environment, by its index in the batch.
        workers: One of `WORKER_KINDS`.
        num_workers: Threads, processes or actors; None for one per CPU core of the machine, or of the cluster.
        timeout_s: Longest time one call on one environment may take, in seconds; serial workers have no timeout.
        start_method: How processes start, as `multiprocessing` names it.

    Raises:
        ConfigError: If an environment function cannot be sent to where it is to be called.
        EngineUnavailableError: If there is no Ray.
        WorkerError: If a worker cannot start.
    """
    if workers == "serial":
        return SerialPool(env_fns)
    if workers == "ray":
        return RayPool(env_fns, num_workers=num_workers, timeout_s=timeout_s)
    if workers == "process":
        _require_picklable(env_fns)
    shares = shares_of(env_fns, num_workers if num_workers is not None else os.cpu_count() or 1)
    return PipedPool(
        [LocalWorker(env_fns=share, kind=workers, start_method=start_method) for share in shares], timeout_s=timeout_s
    )


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
