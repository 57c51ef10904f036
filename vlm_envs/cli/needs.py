"""What a world needs besides the base package, and whether this machine has it."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym

from vlm_envs.errors import EngineUnavailableError
from vlm_envs.registration import NEEDS, WORLDS, Need
from vlm_envs.requirements import install_command


def need_of(env_id: str) -> Need | None:
    """Returns what a registered world needs; None for nothing, or for a world of somebody else's."""
    entry_point = gym.registry[env_id].entry_point
    return next((need for base_id, need in NEEDS.items() if WORLDS[base_id] == entry_point), None)


def reason_missing(need: Need) -> str | None:
    """Returns why a world with a need cannot run here and what to do, or None if it can.

    Packages are looked for; an engine is started, for only that tells whether its libraries and drivers fit.
    """
    if missing := packages_missing(need):
        return missing
    if not need.probe:
        return None
    module, _, function = need.probe.partition(":")
    try:
        getattr(importlib.import_module(module), function)()
    except EngineUnavailableError as error:
        return str(error)
    return None


def packages_missing(need: Need) -> str | None:
    """Returns which packages of a need are missing and how to install them, or None; starts no engine."""
    missing = [package for package in need.packages if importlib.util.find_spec(package) is None]
    if missing:
        besides = f" It also needs {need.besides}." if need.besides else ""
        noun = "packages" if len(missing) > 1 else "package"
        return f"no {noun} {', '.join(missing)}. Install: {install_command(need.extra)}{besides}"
    return None


def reasons_missing(needs: Iterable[Need]) -> dict[Need, str | None]:
    """Returns `reason_missing` of each need; engines start side by side, which takes seconds for some."""
    distinct = tuple(dict.fromkeys(needs))
    with ThreadPoolExecutor(max_workers=max(1, len(distinct))) as pool:
        return dict(zip(distinct, pool.map(reason_missing, distinct), strict=True))


def require_available(env_id: str) -> None:
    """Raises `EngineUnavailableError`, with the remedy, if a registered world lacks something here."""
    need = need_of(env_id)
    reason = None if need is None else reason_missing(need)
    if reason is not None:
        raise EngineUnavailableError(f"{env_id} cannot run here: {reason}")
