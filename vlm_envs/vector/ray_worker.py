"""A Ray actor that serves some of the environments, and its owner's side."""

from __future__ import annotations

import pickle
import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import gymnasium as gym

from vlm_envs.errors import WorkerError
from vlm_envs.vector.piped_worker import START_TIMEOUT_S, STOP_TIMEOUT_S, PipedWorker, named_environments
from vlm_envs.vector.ray_cluster import connected_ray, last_line, spread_over_machines
from vlm_envs.vector.workers import EnvFn, serve


@dataclass(frozen=True)
class PackedEnvFn:
    """An environment function as it travels: what cannot be read where it arrives is told like any other failure."""

    content: bytes

    def __call__(self) -> gym.Env[Any, Any]:
        """Returns a new environment."""
        env_fn: EnvFn = pickle.loads(self.content)
        return env_fn()


class WorldActor:
    """Holds environments on whichever machine Ray chooses, and serves them over a socket as a process does over a pipe.

    A call of an actor's method takes Ray close to a millisecond, many times what a process's pipe takes; and one call
    for all environments of a worker could not tell which of them hangs. So Ray finds the place, starts, watches and
    ends, and what worlds say goes straight from machine to machine. Ray keeps Ctrl-C from its processes: it is left to
    the owner, which then closes the socket.
    """

    def listen(self, key: bytes) -> Any:
        """Returns the address at which the owner, who has the key, is awaited."""
        import ray

        self._listener = Listener((ray.util.get_node_ip_address(), 0), authkey=key)
        return self._listener.address

    def serve(self, env_fns: Mapping[int, EnvFn]) -> None:
        """Serves environments until the owner closes its end."""
        from ray import cloudpickle

        with self._listener:
            pipe = self._listener.accept()
        _send_at_once(pipe)
        serve(pipe, env_fns, cloudpickle.dumps)


def _send_at_once(pipe: Connection) -> None:
    """Has small messages sent without waiting for the other side to acknowledge the last one."""
    with socket.fromfd(pipe.fileno(), socket.AF_INET, socket.SOCK_STREAM) as same:
        same.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@dataclass(kw_only=True, eq=False)
class RayWorker(PipedWorker):
    """An actor that serves some of the environments, on a machine of the cluster that this process is connected to.

    Attributes:
        paths: The `PYTHONPATH` of the actor.
    """

    paths: str
    _ray: Any = None
    _actor: Any = None
    _address: Any = None
    _served: Any = None
    _key: bytes = field(default=b"", repr=False)
    _host: str = ""

    def start(self) -> None:
        """Asks Ray for the actor, on the machine that has the fewest so far, without waiting for it.

        Raises:
            EngineUnavailableError: If there is no cluster any more.
        """
        self._reset()
        self._ray = connected_ray()
        self._key, self._host = secrets.token_bytes(32), ""
        self._actor = self._ray.remote(WorldActor).options(**spread_over_machines(self.paths)).remote()
        self._address = self._actor.listen.remote(self._key)
        self._served = self._actor.serve.remote(self.env_fns)

    def stop(self, *, kill: bool = False) -> None:
        """Asks the actor to close its environments, unless it is to be killed, and ends it."""
        ray, actor, served, pipe = self._ray, self._actor, self._served, self.pipe
        self._actor = self._address = self._served = self.pipe = None
        self.unanswered, self._queued = set(), {}
        if pipe is not None:
            pipe.close()
        # Whoever has left the cluster has ended its actors; Ray would start another one to be asked
        if actor is None or not ray.is_initialized():
            return
        with suppress(Exception):  # an actor of a cluster that was left before
            if pipe is not None and not kill:
                ray.wait([served], timeout=STOP_TIMEOUT_S)
            ray.kill(actor)

    def _connect(self) -> Connection:
        """Returns the pipe once the actor listens.

        Raises:
            WorkerError: If Ray gives it no place, or it cannot be made there.
        """
        if self.pipe is not None:
            return self.pipe
        if self._actor is None:
            self.start()
        try:
            self._host, port = self._ray.get(self._address, timeout=START_TIMEOUT_S)
        except self._ray.exceptions.GetTimeoutError as error:
            raise WorkerError(
                f"{self} was given no place within {START_TIMEOUT_S} s. `ray status` tells whether the cluster has a "
                "free CPU."
            ) from error
        except self._ray.exceptions.RayError as error:
            raise WorkerError(f"{self} could not be started by Ray: {last_line(error)}") from error
        pipe = self._reached((self._host, port))
        _send_at_once(pipe)
        return pipe

    def _reached(self, address: tuple[str, int]) -> Connection:
        """Returns a connection to where the actor listens; `Client` alone would wait for ever for one that hangs.

        Raises:
            WorkerError: If it does not say who it is in time.
            OSError: If nobody listens there.
        """
        answers: SimpleQueue[Connection | Exception] = SimpleQueue()

        def connect() -> None:
            try:
                answers.put(Client(address, authkey=self._key))
            except Exception as error:  # whatever it is, it is for the thread that waits
                answers.put(error)

        Thread(target=connect, name="ray worker", daemon=True).start()
        try:
            answer = answers.get(timeout=START_TIMEOUT_S)
        except Empty:
            raise WorkerError(f"{self} took no connection within {START_TIMEOUT_S} s.") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __str__(self) -> str:
        """Names the worker by what it serves, and where."""
        return f"The ray worker of {named_environments(self.env_fns)}" + (self._host and f" at {self._host}")
