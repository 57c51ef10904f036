"""Runs a function of a test module in a process whose files cannot grow, as on a full disk.

The limit holds for every file of a process, so in pytest's own process it would also end what pytest writes.
"""

from __future__ import annotations

import importlib
import os
import resource
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]


def limit_files(num_bytes: int) -> None:
    """Lets no file of this process grow beyond a size."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def run_apart(function: Callable[..., None], *arguments: object) -> str:
    """Runs a module's function in a process of its own, with arguments as text, and returns what it printed."""
    command = [sys.executable, "-m", __name__, function.__module__, function.__name__, *map(str, arguments)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def run_forked(function: Callable[..., None], *arguments: object) -> None:
    """Runs a function in a forked process, which starts at once, and fails if it raises. It must not use autograd."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            function(*arguments)
            status = 0
        except BaseException:
            os.write(writer, traceback.format_exc()[-60_000:].encode())
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    assert os.waitpid(child, 0)[1] == 0, said


if __name__ == "__main__":
    getattr(importlib.import_module(sys.argv[1]), sys.argv[2])(*sys.argv[3:])
