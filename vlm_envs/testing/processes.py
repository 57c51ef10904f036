"""The same episode in another process, to prove that nothing depends on the process."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from typing import Any

import gymnasium as gym

from vlm_envs.testing.episodes import episode_digest
from vlm_envs.testing.world_under_test import WorldUnderTest, require

EPISODE_SEED = 7
_TIMEOUT_S = 120


def digest_elsewhere(under_test: WorldUnderTest, entry_point: str) -> str:
    """Returns the episode's digest in a new process, of another `PYTHONHASHSEED`.

    Raises:
        WorldContractError: If the episode cannot be played there.
    """
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    child = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import print_digest; print_digest()"],
        input=pickle.dumps((under_test.env_id, entry_point, {**_registered_kwargs(under_test), **under_test.kwargs})),
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    require(child.returncode == 0, f"the episode fails in another process: {child.stderr.decode()[-2000:]}")
    return child.stdout.decode().strip()


def _registered_kwargs(under_test: WorldUnderTest) -> dict[str, Any]:
    return dict(gym.spec(under_test.env_id.removeprefix("vlm_envs:")).kwargs)


def print_digest() -> None:
    """Prints the digest of the episode asked for on standard input; runs in the other process."""
    request: tuple[str, str, dict[str, Any]] = pickle.load(sys.stdin.buffer)
    env_id, entry_point, kwargs = request
    importlib.import_module(entry_point.partition(":")[0])
    if env_id.removeprefix("vlm_envs:") not in gym.registry:
        gym.register(env_id, entry_point=entry_point)
    under_test = WorldUnderTest(env_id=env_id, kwargs=kwargs)
    print(episode_digest(under_test.make(), EPISODE_SEED, under_test.planner))
