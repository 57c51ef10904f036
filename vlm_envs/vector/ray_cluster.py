"""The Ray cluster that worlds and models may be spread over: the one this process is told of, or a local one."""

from __future__ import annotations

import logging
import os
import signal
import site
import socket
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vlm_envs.errors import EngineUnavailableError
from vlm_envs.requirements import install_command

_DEFAULTS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # The pool says in a line of its own which worker died; Ray says so in thirty
    "RAY_DEDUP_LOGS_SKIP_REGEX": "A worker died or was killed|Raylet is terminated",
}
"""Environment variables that Ray reads, where the user has not set them."""

_REACH_TIMEOUT_S = 10.0
_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""What a client of gRPC says first, with settings that are empty (RFC 9113, section 3.4)."""
_HTTP2_FRAME_HEADER, _HTTP2_FRAME_TYPE, _HTTP2_SETTINGS = 9, 3, 4
"""A server's first frame is its settings (RFC 9113, sections 3.4 and 4.1)."""
_REMEDY = (
    "Start one with `ray start --head`; one that asks for a token wants RAY_AUTH_MODE=token here, too. Without "
    "RAY_ADDRESS a local one is started."
)


def connected_ray() -> Any:
    """Returns Ray, connected to a cluster.

    A program that has called `ray.init` keeps its cluster. Otherwise Ray looks for one as it always does: at
    `RAY_ADDRESS`, then for one that `ray start` has started on this machine; where there is none, or none answers any
    more, a local one is started that ends with this process.

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
            except Exception as error:  # whatever Ray finds wrong with addresses, tokens, versions and this machine
                raise EngineUnavailableError(f"{_where(address)}: {str(error).strip()}. {_REMEDY}") from error
    return ray


def _where(address: str) -> str:
    return f"No Ray cluster can be reached at RAY_ADDRESS={address}" if address else "No Ray cluster can be started"


def _require_reachable(address: str) -> None:
    """Refuses an address that nobody answers at, for which Ray itself would wait for minutes.

    Raises:
        EngineUnavailableError: If it is one.
    """
    if address.startswith("ray://"):
        raise EngineUnavailableError(
            f"RAY_ADDRESS={address} is for Ray's client; worlds are talked to from a machine of the cluster. Start "
            "this there, with RAY_ADDRESS=HOST:6379 or by `ray job submit`."
        )
    if address.rpartition(":")[2].isdigit():  # "auto" and "local" are names that Ray knows
        try:
            _reach(address)
        except (OSError, OverflowError) as error:
            raise EngineUnavailableError(f"{_where(address)}: {error}. {_REMEDY}") from error


def _is_started_here() -> bool:
    """Returns whether `ray start` has started a cluster on this machine that still answers.

    One that was killed leaves its address behind, for which Ray itself would wait without an end.
    """
    noted_in = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
    try:
        _reach(noted_in.read_text(encoding="utf-8").strip())
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _reach(address: str) -> None:
    """Speaks to who listens at an address as far as to know that it is a server such as Ray's, which gRPC is spoken to.

    Raises:
        OSError: If nobody listens, or says nothing in time, or something else.
    """
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_TIMEOUT_S) as there:
        if os.environ.get("RAY_USE_TLS", "").lower() in ("1", "true"):
            return
        there.sendall(_HTTP2_GREETING)
        with there.makefile("rb") as replies:
            said = replies.read(_HTTP2_FRAME_HEADER)
    if len(said) < _HTTP2_FRAME_HEADER or said[_HTTP2_FRAME_TYPE] != _HTTP2_SETTINGS:
        raise OSError(f"what listens at {address} is no Ray cluster")


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Puts back the process's own handler of SIGTERM, which Ray replaces."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def spread_over_machines(paths: str) -> dict[str, Any]:
    """Returns the options of actors that Ray spreads over the machines, and that find modules at these paths, too."""
    # By default an actor takes a machine that has CPUs, and uses none of them up: any number of pools find a place
    return {
        "scheduling_strategy": "SPREAD",
        "runtime_env": {"env_vars": {"PYTHONPATH": f"{paths}{os.pathsep}${{PYTHONPATH}}"}},
    }


def last_line(error: Exception) -> str:
    """Returns what a message of Ray, which may hold a worker's traceback, comes down to."""
    return str(error).strip().rpartition("\n")[2]


def import_paths() -> str:
    """Returns where this process finds modules that are not installed, as a `PYTHONPATH` for workers."""
    installed = (*site.getsitepackages(), site.getusersitepackages(), sysconfig.get_path("stdlib"))
    paths = [os.path.abspath(path) for path in sys.path if os.path.isdir(path or ".")]
    return os.pathsep.join(path for path in dict.fromkeys(paths) if not path.startswith(installed))
