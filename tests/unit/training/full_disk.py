"""Runs a function of a test module in a process whose files cannot grow, as on a full disk.

The limit holds for every file of a process, so in pytest's own process it would also end what pytest writes.
"""

from __future__ import annotations

import importlib
import resource
import subprocess
import sys
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


if __name__ == "__main__":
    getattr(importlib.import_module(sys.argv[1]), sys.argv[2])(*sys.argv[3:])
