"""Environments in Ray actors, spread over the machines of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vlm_envs.errors import ConfigError
from vlm_envs.vector.pools import PipedPool, shares_of
from vlm_envs.vector.ray_cluster import connected_ray, import_paths
from vlm_envs.vector.ray_worker import PackedEnvFn, RayWorker
from vlm_envs.vector.workers import EnvFn


class RayPool(PipedPool):
    """Environments spread over actors, which survives the loss of any of them and of the machines they are on.

    Actors are served by the loop that serves processes. Functions and arguments are pickled by Ray's cloudpickle, so
    lambdas and what a script itself defines may be sent, too.

    Args:
        env_fns: What makes each environment, by its index in the batch.
        num_workers: Actors; None for one per CPU of the cluster.
        timeout_s: Longest time one call on one environment may take, in seconds.

    Raises:
        ConfigError: If an environment function cannot be sent to an actor.
        EngineUnavailableError: If Ray is not installed, or no cluster can be reached or started.
        WorkerError: If an actor cannot start.
        Exception: What making an environment raised.
    """

    def __init__(self, env_fns: Mapping[int, EnvFn], *, num_workers: int | None, timeout_s: float) -> None:
        ray = connected_ray()
        dumps = ray.cloudpickle.dumps
        packed = {index: _packed(index, env_fn, dumps) for index, env_fn in env_fns.items()}
        num_workers = num_workers if num_workers is not None else int(ray.cluster_resources().get("CPU", 1))
        paths = import_paths()
        workers = [RayWorker(env_fns=share, paths=paths) for share in shares_of(packed, max(1, num_workers))]
        super().__init__(workers, timeout_s=timeout_s, dumps=dumps)


def _packed(index: int, env_fn: EnvFn, dumps: Any) -> PackedEnvFn:
    """Returns an environment function as it is sent.

    Raises:
        ConfigError: If it cannot be.
    """
    try:
        return PackedEnvFn(dumps(env_fn))
    except Exception as error:  # an object's own `__reduce__` may raise anything
        raise ConfigError(
            f"Ray workers need environment functions that can be pickled; number {index}, {env_fn!r}, cannot: {error}. "
            "Use functools.partial(vlm_envs.make, env_id, ...) with arguments that can be pickled, or workers='thread'."
        ) from error
