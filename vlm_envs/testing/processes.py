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


def digests_elsewhere(under_test: WorldUnderTest, entry_point: str, hash_seeds: tuple[str, ...]) -> list[str]:
    """Returns the episode's digest in one new process per `PYTHONHASHSEED`, all running at once.

    Raises:
        WorldContractError: If the episode cannot be played there.
    """
    request = pickle.dumps((under_test.env_id, entry_point, under_test.kwargs))
    children = [_start(hash_seed) for hash_seed in hash_seeds]
    digests = []
    for child in children:
        output, errors = child.communicate(request, timeout=_TIMEOUT_S)
        require(child.returncode == 0, f"the episode fails in another process: {errors.decode()[-2000:]}")
        digests.append(output.decode().strip())
    return digests


def _start(hash_seed: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import print_digest; print_digest()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
    )


def print_digest() -> None:
    """Prints the digest of the episode asked for on standard input; runs in the other process."""
    request: tuple[str, str, dict[str, Any]] = pickle.load(sys.stdin.buffer)
    env_id, entry_point, kwargs = request
    importlib.import_module(entry_point.partition(":")[0])
    if env_id.removeprefix("vlm_envs:") not in gym.registry:
        gym.register(env_id, entry_point=entry_point)
    print(episode_digest(WorldUnderTest(env_id=env_id, kwargs=kwargs).make(), EPISODE_SEED))
