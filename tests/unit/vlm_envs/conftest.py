"""What tests of worlds share."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest


@pytest.fixture
def register() -> Any:
    env_id = "Test/Corridor-v0"

    def _register(entry_point: Any) -> str:
        gym.register(env_id, entry_point=entry_point)
        return env_id

    yield _register
    gym.registry.pop(env_id, None)
