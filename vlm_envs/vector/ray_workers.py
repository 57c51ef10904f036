"""Workers on a Ray cluster: an existing one that this process is configured for, or a local one."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import site
import socket
import sys
import sysconfig
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from vlm_envs.errors import EngineUnavailableError, WorkerError
from vlm_envs.requirements import install_command
from vlm_envs.vector.worker_pools import PipedPool, shares_of
from vlm_envs.vector.workers import START_TIMEOUT_S, STOP_TIMEOUT_S, EnvFn, PipedWorker, named_environments, serve

_DEFAULTS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # The pool reports in one line which worker died; Ray would print thirty
    "RAY_DEDUP_LOGS_SKIP_REGEX": "A worker died or was killed|Raylet is terminated",
}
"""Environment variables for Ray, set unless the user has set them."""

_REACH_TIMEOUT_S = 10.0
_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""First bytes that a gRPC client sends, with empty settings (RFC 9113, section 3.4)."""
_HTTP2_FRAME_HEADER, _HTTP2_FRAME_TYPE, _HTTP2_SETTINGS = 9, 3, 4
"""A server's first frame contains its settings (RFC 9113, sections 3.4 and 4.1)."""
_REMEDY = (
    "Start one with `ray start --head`; if it requires a token, set RAY_AUTH_MODE=token here, too. Without "
    "RAY_ADDRESS, a local cluster is started."
)


def connected_ray() -> Any:
    """Returns Ray, connected to a cluster.

    A program that has called `ray.init` keeps its cluster. Otherwise Ray looks for one in its usual order: at
    `RAY_ADDRESS`, then for one that `ray start` has started on this machine. If there is none, or it no
    longer answers, a local one is started, which ends with this process.

    Raises:
        EngineUnavailableError: If Ray is not installed, or no cluster can be reached or started.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise EngineUnavailableError(f"workers='ray' needs Ray. Install it: {install_command('ray')}") from error
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS", "")
        _require_reachable(address)
        quiet: dict[str, Any] = {"log_to_driver": False, "include_dashboard": False, "logging_level": logging.ERROR}
        with _sigterm_kept():
            try:
                ray.init(address=None if address or _is_started_here() else "local", **quiet)
            except Exception as error:  # any problem with addresses, tokens, versions, or this machine
                raise EngineUnavailableError(f"{_where(address)}: {str(error).strip()}. {_REMEDY}") from error
    return ray


def _where(address: str) -> str:
    return f"No Ray cluster can be reached at RAY_ADDRESS={address}" if address else "No Ray cluster can be started"


def _require_reachable(address: str) -> None:
    """Rejects an address that does not answer, for which Ray itself would wait for minutes.

    Raises:
        EngineUnavailableError: If the address does not answer.
    """
    if address.startswith("ray://"):
        raise EngineUnavailableError(
            f"RAY_ADDRESS={address} is for Ray's client, but worlds must be used from a machine of the cluster. Run "
            "this program there, with RAY_ADDRESS=HOST:6379 or by `ray job submit`."
        )
    if address.rpartition(":")[2].isdigit():  # "auto" and "local" are names that Ray interprets
        try:
            _reach(address)
        except (OSError, OverflowError) as error:
            raise EngineUnavailableError(f"{_where(address)}: {error}. {_REMEDY}") from error


def _is_started_here() -> bool:
    """Returns whether `ray start` has started a cluster on this machine that still answers.

    A cluster that was killed leaves its address behind, and Ray itself would wait for it indefinitely.
    """
    noted_in = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
    try:
        _reach(noted_in.read_text(encoding="utf-8").strip())
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _reach(address: str) -> None:
    """Checks that the server at an address speaks gRPC, as Ray does.

    Raises:
        OSError: If there is no server, or it does not answer in time or as gRPC requires.
    """
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_TIMEOUT_S) as there:
        if os.environ.get("RAY_USE_TLS", "").lower() in ("1", "true"):
            return
        there.sendall(_HTTP2_GREETING)
        with there.makefile("rb") as replies:
            said = replies.read(_HTTP2_FRAME_HEADER)
    if len(said) < _HTTP2_FRAME_HEADER or said[_HTTP2_FRAME_TYPE] != _HTTP2_SETTINGS:
        raise OSError(f"the server at {address} is not a Ray cluster")


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Restores the process's own SIGTERM handler, which Ray replaces."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def spread_over_machines(paths: str) -> dict[str, Any]:
    """Returns the options of actors that Ray spreads over the machines, with these paths added to their import path."""
    # By default an actor is placed on a machine with CPUs but reserves none, so any number of pools can be
    # placed
    return {
        "scheduling_strategy": "SPREAD",
        "runtime_env": {"env_vars": {"PYTHONPATH": f"{paths}{os.pathsep}${{PYTHONPATH}}"}},
    }


def last_line(error: Exception) -> str:
    """Returns the last line of one of Ray's messages, which may contain a worker's traceback."""
    return str(error).strip().rpartition("\n")[2]


def import_paths() -> str:
    """Returns the paths where this process finds modules that are not installed, as a `PYTHONPATH` for workers."""
    installed = (*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("stdlib"))
    paths = [os.path.abspath(path) for path in sys.path if os.path.isdir(path or ".")]
    return os.pathsep.join(path for path in dict.fromkeys(paths) if not path.startswith(installed))


class WorldActor:
    """Holds environments on a machine that Ray chooses, and serves them over a socket as a process does over a pipe.

    Calling an actor's method takes almost a millisecond in Ray, many times longer than a message through a
    process's pipe, and one call for all environments of a worker could not identify the one that hangs. So
    Ray places, starts, monitors, and ends the actor, while calls and replies go directly between the
    machines. Ray shields its processes from Ctrl-C: the owner handles it and then closes the socket.
    """

    def listen(self, key: bytes) -> Any:
        """Returns the address at which this actor waits for the owner, who has the key."""
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
    """Makes the socket send small messages without waiting for earlier ones to be acknowledged."""
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
        """Asks Ray for the actor, on the machine with the fewest so far, without waiting for it.

        Raises:
            EngineUnavailableError: If there is no longer a cluster.
        """
        self._hang_up()
        self._ray = connected_ray()
        self._key, self._host = secrets.token_bytes(32), ""
        self._actor = self._ray.remote(WorldActor).options(**spread_over_machines(self.paths)).remote()
        self._address = self._actor.listen.remote(self._key)
        self._served = self._actor.serve.remote(self.env_fns)

    def stop(self, *, kill: bool = False) -> None:
        """Asks the actor to close its environments, unless it is to be killed, and ends it."""
        ray, actor, served, was_connected = self._ray, self._actor, self._served, self.pipe is not None
        self._actor = self._address = self._served = None
        self._hang_up()
        # Leaving the cluster has already ended its actors; a call would make Ray start another one
        if actor is None or not ray.is_initialized():
            return
        with suppress(Exception):  # an actor of a cluster that this process has left
            if was_connected and not kill:
                ray.wait([served], timeout=STOP_TIMEOUT_S)
            ray.kill(actor)

    def _connect(self) -> Connection:
        """Returns the pipe once the actor listens.

        Raises:
            WorkerError: If Ray cannot place the actor, or cannot create it there.
        """
        if self.pipe is not None:
            return self.pipe
        if self._actor is None:
            self.start()
        try:
            self._host, port = self._ray.get(self._address, timeout=START_TIMEOUT_S)
        except self._ray.exceptions.GetTimeoutError as error:
            raise WorkerError(
                f"{self} was not placed within {START_TIMEOUT_S} s. `ray status` shows whether the cluster has a "
                "free CPU."
            ) from error
        except self._ray.exceptions.RayError as error:
            raise WorkerError(f"{self} could not be started by Ray: {last_line(error)}") from error
        pipe = self._reached((self._host, port))
        _send_at_once(pipe)
        return pipe

    def _reached(self, address: tuple[str, int]) -> Connection:
        """Returns a connection to the actor's address, within a time limit; `Client` alone could wait forever.

        Raises:
            WorkerError: If the actor does not authenticate itself in time.
            OSError: If there is no listener.
        """
        answers: SimpleQueue[Connection | Exception] = SimpleQueue()

        def connect() -> None:
            try:
                answers.put(Client(address, authkey=self._key))
            except Exception as error:  # any error belongs to the waiting thread
                answers.put(error)

        Thread(target=connect, name="ray worker", daemon=True).start()
        try:
            answer = answers.get(timeout=START_TIMEOUT_S)
        except Empty:
            raise WorkerError(f"{self} accepted no connection within {START_TIMEOUT_S} s.") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __str__(self) -> str:
        """Names the worker by its environments and its host."""
        return f"The ray worker of {named_environments(self.env_fns)}" + (self._host and f" at {self._host}")


def ray_pool(env_fns: Mapping[int, EnvFn], *, num_workers: int | None, timeout_s: float) -> PipedPool:
    """Returns environments spread over actors; the pool survives the loss of any actor or machine.

    Actors are served by the same loop as processes. Functions and arguments are pickled with Ray's
    cloudpickle, so lambdas and definitions in a script can be sent, too.

    Args:
        env_fns: Functions that create the environments, by index in the batch.
        num_workers: Number of actors; None for one per CPU of the cluster.
        timeout_s: Maximum time of a call on one environment, in seconds.

    Raises:
        ConfigError: If an environment function cannot be sent to an actor.
        EngineUnavailableError: If Ray is not installed, or no cluster can be reached or started.
        WorkerError: If an actor cannot start.
        Exception: Any exception raised in creating an environment.
    """
    ray = connected_ray()
    dumps, paths = ray.cloudpickle.dumps, import_paths()
    num_workers = num_workers if num_workers is not None else int(ray.cluster_resources().get("CPU", 1))
    shares = shares_of(env_fns, max(1, num_workers), dumps)
    return PipedPool([RayWorker(env_fns=share, paths=paths) for share in shares], timeout_s=timeout_s, dumps=dumps)
