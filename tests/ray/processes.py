"""Programs that use Ray, and what is left of them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

CHECKOUT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    """Returns this process's environment without its cluster, so that a program starts one of its own."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return mine | {"PYTHONPATH": str(CHECKOUT)} | more


def program(script: Path, code: str) -> subprocess.Popen[str]:
    """Starts a program in a folder of its own, as the leader of a process group."""
    script.write_text(code)
    return subprocess.Popen(
        [sys.executable, str(script)],
        cwd=script.parent,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def actors(owner: psutil.Process) -> list[psutil.Process]:
    """Returns the processes that hold worlds, of the local cluster that a process has started."""
    return _running("ray::WorldActor", owner)


def model_actors(owner: psutil.Process) -> list[psutil.Process]:
    """Returns the processes that hold a verifier's models, of the local cluster that a process has started."""
    return _running("ray::ModelActor", owner)


def _running(kind: str, owner: psutil.Process) -> list[psutil.Process]:
    return [each for each in owner.children(recursive=True) if _name(each).startswith(kind)]


def _name(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def wait_until(holds, timeout_s: float = 30.0) -> bool:
    """Returns whether a condition holds within some seconds."""
    until = time.monotonic() + timeout_s
    while not holds() and time.monotonic() < until:
        time.sleep(0.1)
    return bool(holds())
