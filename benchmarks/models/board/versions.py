"""Versions of whatever decides a number on a board."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import vlm_envs

_PACKAGES = (
    *("gymnasium", "numpy", "pillow", "torch", "transformers", "stable-baselines3"),
    *("openai", "anthropic", "google-genai", "panda3d"),
)


def versions() -> dict[str, str]:
    """Returns the versions of this project, of Python, and of the packages that are installed."""
    found = {"vlm-envs": vlm_envs.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
