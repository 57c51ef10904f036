"""Provenance: the settings, versions, commit, machine, and command of a run or a checkpoint."""

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

from training.checkpoints.checkpoint_files import (
    provenance_of,
)
from training.config.run_config import RunConfig

_PACKAGES = ("torch", "transformers", "tokenizers", "gymnasium", "numpy", "vlm-envs")


def describe(config: RunConfig) -> dict[str, Any]:
    """Returns the resolved configuration with versions, commit, machine, and command."""
    return {
        **config.to_dict(),
        "recipe": config.name,
        "trained_with": config.algorithm.title,
        **circumstances(),
    }


def provenance(config: RunConfig, validation_success: float | None) -> dict[str, Any]:
    """Returns the provenance of a cold start, with its validation success if measured, saved next to its weights."""
    resolved = describe(config)
    keys = ["cold_start", "worlds", "sampling", "seed", "num_val_episodes"]
    keys += ["versions", "commit", "num_threads_used", "command"]
    made_from = {key: resolved[key] for key in keys} | {"validation_success": validation_success}
    start = config.cold_start.start_from
    if start is not None and (before := provenance_of(start)) is not None:
        made_from["started_from"] = before
    return made_from


def circumstances() -> dict[str, Any]:
    """Returns the facts that a run records in addition to its settings."""
    return {
        "versions": {package: _version(package) for package in _PACKAGES} | {"python": platform.python_version()},
        "commit": commit_of(Path(__file__).parent),
        "num_threads_used": torch.get_num_threads(),
        "command": shlex.join(["python", *_program(), *sys.argv[1:]]),
        "started": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }


def _program() -> list[str]:
    """Returns the program that was started: a package with `-m`, or a script."""
    started = Path(sys.argv[0])
    return ["-m", started.parent.name] if started.name == "__main__.py" else [sys.argv[0]]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def commit_of(checkout: Path) -> str:
    """Returns a checkout's commit, or `unknown` outside of a checkout.

    The suffix `-dirty` marks changed files, except in `docs`, where commands of several runs write
    their results.

    Args:
        checkout: Its folder, or one within it.
    """
    try:
        commit = _git(checkout, "describe", "--always", "--abbrev=12")
        changed = _git(checkout, "diff", "--name-only", "HEAD", "--", ":(top)", ":(top,exclude)docs")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return f"{commit}-dirty" if changed else commit


def _git(folder: Path, *words: str) -> str:
    shown = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    return shown.stdout.strip()
