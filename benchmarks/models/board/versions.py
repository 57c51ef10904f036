"""Versions of whatever decides a number on a board."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import vlm_envs
from vlm_envs.adapter.stored import defining_packages

_PACKAGES = (
    *("gymnasium", "numpy", "pillow", "torch", "transformers", "stable-baselines3"),
    *("openai", "anthropic", "google-genai", "panda3d"),
)


def versions(adapted: Iterable[Mapping[str, Any] | None] = ()) -> dict[str, str]:
    """Returns the versions of this project, of Python, and of the packages that are installed.

    Args:
        adapted: Arguments of adapted worlds, whose packages are included; None for other worlds.
    """
    found = {"vlm-envs": vlm_envs.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    for arguments in filter(None, adapted):
        found |= defining_packages(arguments)
    return found
