"""Whether pictures can be drawn here: a trial start of the engine in a process of its own.

A Vulkan driver that does not fit may end the whole process instead of raising, so the first start is made where
that does no harm.
"""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
from pathlib import Path

from vlm_envs.errors import EngineUnavailableError
from vlm_envs.requirements import install_command

PROBE_TIMEOUT_S = 120
INSTALL_DRIVER = (
    "install a software Vulkan driver, Mesa's lavapipe of 2024 or later: on Debian 12 that is "
    "`apt-get install -t bookworm-backports mesa-vulkan-drivers libvulkan1` after adding the suite "
    "bookworm-backports to the sources, on newer Debian and Ubuntu `apt-get install mesa-vulkan-drivers libvulkan1`"
)

_PROBE = """
import sapien
sapien.set_log_level("off")
scene = sapien.Scene([sapien.physx.PhysxCpuSystem(), sapien.render.RenderSystem(sapien.Device("cpu"))])
print("started")
"""


def mani_skill_assets() -> Path:
    """Returns the folder of ManiSkill's assets, found without importing ManiSkill (which would import torch).

    Raises:
        EngineUnavailableError: If ManiSkill or SAPIEN is not installed.
    """
    for package in ("sapien", "mani_skill"):
        if importlib.util.find_spec(package) is None:
            install = install_command("manipulation")
            raise EngineUnavailableError(f"PrimitiveSkill needs the package {package}. Run: {install}")
    spec = importlib.util.find_spec("mani_skill")
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "assets"


@functools.cache
def why_unavailable() -> str | None:
    """Returns why the engine cannot run here and what to do, or None if it can; tried once a process."""
    try:
        mani_skill_assets()
    except EngineUnavailableError as error:
        return str(error)
    try:
        trial = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"SAPIEN did not start its renderer within {PROBE_TIMEOUT_S} s; {INSTALL_DRIVER}"
    if trial.returncode == 0 and "started" in trial.stdout:
        return None
    last_words = (trial.stderr.strip() or "nothing was printed").splitlines()[-1]
    return f"SAPIEN could not start its renderer (exit status {trial.returncode}: {last_words}); {INSTALL_DRIVER}"


def require_engine() -> None:
    """Raises `EngineUnavailableError`, with the remedy, unless the engine can run here."""
    reason = why_unavailable()
    if reason is not None:
        raise EngineUnavailableError(reason)
