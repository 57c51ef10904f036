"""From what a person types to a world."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from vlm_envs.errors import ConfigError, did_you_mean
from vlm_envs.registration import env_ids, make
from vlm_envs.world import World


def import_prefix(env_id: str) -> str:
    """Imports the module in `"module:Namespace/Name-v0"`, so that a world of one's own registers itself.

    Args:
        env_id: An id with or without a module in front.

    Returns:
        The id without the module.

    Raises:
        ConfigError: If there is a module and it cannot be imported.
    """
    module, colon, name = env_id.rpartition(":")
    if not colon:
        return env_id
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"Cannot import {module!r}, the module in {env_id!r}: {error}. "
            "Write it as in an import statement and run from the folder that holds it."
        ) from error
    return name


def registered_name(env_id: str) -> str:
    """Returns the id as it is registered, its module imported.

    Args:
        env_id: An id with or without a module in front.

    Returns:
        The id without the module.

    Raises:
        ConfigError: If no such world is registered; the message names the closest one.
    """
    name = import_prefix(env_id)
    if name not in gym.registry:
        raise ConfigError(f"Unknown env {env_id!r}.{did_you_mean(name, env_ids())} List all: python -m vlm_envs list")
    return name


def load_creator(env_id: str) -> Callable[..., Any]:
    """Returns the class, or the function, that makes a registered world."""
    entry_point = gym.registry[registered_name(env_id)].entry_point
    assert entry_point is not None, f"{env_id} is registered without an entry point"
    return load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point


def make_world(env_id: str, **kwargs: Any) -> World[Any, Any]:
    """Makes a world without Gymnasium's wrappers.

    Args:
        env_id: A registered id, with or without a module in front.
        **kwargs: Arguments of the world.

    Returns:
        The world itself.

    Raises:
        ConfigError: If the id is unknown, is no `World`, or does not take the arguments.
    """
    world = make(registered_name(env_id), **kwargs).unwrapped
    if not isinstance(world, World):
        raise ConfigError(
            f"{env_id} is a {type(world).__name__}, not a vlm_envs World. List all: python -m vlm_envs list"
        )
    return world
