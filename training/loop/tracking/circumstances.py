"""Under what circumstances a run was made: versions, commit, threads, command."""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

_PACKAGES = ("torch", "transformers", "tokenizers", "gymnasium", "numpy", "vlm-envs")


def circumstances() -> dict[str, Any]:
    """Returns what a run writes down beside its settings."""
    return {
        "versions": {each: _version(each) for each in _PACKAGES} | {"python": platform.python_version()},
        "commit": _commit(),
        "num_threads_used": torch.get_num_threads(),
        "command": shlex.join(["python", "-m", "training", *sys.argv[1:]]),
        "started": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """Returns the checkout's commit, marked when files differ from it; `unknown` outside a checkout."""
    try:
        shown = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return shown.stdout.strip()
