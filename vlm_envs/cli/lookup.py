"""From what a person types to a world."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from vlm_envs.errors import ConfigError
from vlm_envs.registration import make, registered_name
from vlm_envs.world import World


def load_creator(env_id: str) -> Callable[..., Any]:
    """Returns the class, or the function, that makes a registered world."""
    entry_point = gym.registry[registered_name(env_id)].entry_point
    assert entry_point is not None, f"{env_id} is registered without an entry point"
    return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point


def make_world(env_id: str, **kwargs: Any) -> World[Any, Any]:
    """Makes a world without Gymnasium's wrappers; its id may have a module in front.

    Raises:
        ConfigError: If the id is unknown, is no `World`, or does not take the arguments.
    """
    world = make(registered_name(env_id), **kwargs).unwrapped
    if not isinstance(world, World):
        raise ConfigError(
            f"{env_id} is a {type(world).__name__}, not a vlm_envs World. List all: python -m vlm_envs list"
        )
    return world
