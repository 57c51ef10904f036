"""From what a person types to a world."""

from __future__ import annotations

from typing import Any

from vlm_envs.errors import ConfigError
from vlm_envs.registration import make, not_a_world
from vlm_envs.world import World


def make_world(env_id: str, **kwargs: Any) -> World[Any, Any]:
    """Makes a world without Gymnasium's wrappers; its id may have a module in front.

    Raises:
        ConfigError: If the id is unknown, is no `World`, or does not take the arguments.
    """
    world = make(env_id, **kwargs).unwrapped
    if not isinstance(world, World):
        raise ConfigError(not_a_world(env_id))
    return world
