"""Vector environments of registered worlds, including those that users register.

`"vlm_envs.vector.make_vec:VLM/Sokoban-v0"` is the vector entry point of `VLM/Sokoban-v0`; the same holds for
every id.
"""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import SyncVectorEnv, VectorEnv

from vlm_envs.errors import ConfigError
from vlm_envs.registration import (
    ACTION_MODES,
    WorldType,
    added_arguments,
    creator_of,
    keyword_parameters,
    make,
    registered_name,
)
from vlm_envs.validation import require_choice, require_positive
from vlm_envs.vector.vector_world import VectorWorld

_VECTOR_ARGUMENTS = ("workers", "num_workers", "step_timeout_s", "start_method")


def world_vector(env_id: str, num_envs: int = 1, **kwargs: Any) -> VectorWorld:
    """Creates a `VectorWorld` of equal worlds.

    Args:
        env_id: A registered id, with or without a module in front.
        num_envs: Number of worlds.
        **kwargs: `workers`, `num_workers`, `step_timeout_s`, and `start_method` are passed to `VectorWorld`,
            all others to each world.

    Returns:
        The vector environment.

    Raises:
        ConfigError: If the world does not exist, or an argument is not valid.
    """
    require_positive("num_envs", num_envs)
    if not _has_own_mode(env_id):
        require_choice("action_mode of a VectorWorld", kwargs.pop("action_mode", "text"), ("text",))
    vector_kwargs = {name: kwargs.pop(name) for name in _VECTOR_ARGUMENTS if name in kwargs}
    env_fn = functools.partial(_make, gym.spec(registered_name(env_id)), **kwargs)
    return VectorWorld([env_fn] * num_envs, **vector_kwargs)


def _make(spec: EnvSpec, **kwargs: Any) -> gym.Env[Any, Any]:
    """Creates a world in its worker. A worker process may lack the registration of a user's own world."""
    gym.registry.setdefault(spec.id, spec)
    # vlm_envs.testing already verifies what Gymnasium's checker would check at run time
    return make(spec.id, disable_env_checker=True, **kwargs)


def registered_vector(env_id: str, num_envs: int = 1, **kwargs: Any) -> VectorEnv[Any, Any, Any]:
    """Creates the vector environment that `gymnasium.make_vec` returns.

    Args:
        env_id: A registered id.
        num_envs: Number of worlds.
        **kwargs: See `world_vector`. Unless the world has its own `action_mode`, `action_mode="discrete"`
            creates worlds with integer actions; `num_levels` is then the number of levels drawn in advance
            (None for a new one each episode), and all others are arguments of the world. In this mode grid
            worlds are many times faster: see `vlm_envs.worlds.grids.grid_vector`. Other worlds use a
            `gymnasium.vector.SyncVectorEnv`.

    Returns:
        The vector environment.

    Raises:
        ConfigError: If an argument is not valid, or the world has no named actions.
    """
    if _has_own_mode(env_id):
        return world_vector(env_id, num_envs, **kwargs)
    action_mode = require_choice("action_mode", kwargs.pop("action_mode", "text"), ACTION_MODES)
    return (world_vector if action_mode == "text" else _discrete_vector)(env_id, num_envs, **kwargs)


def _has_own_mode(env_id: str) -> bool:
    """Returns whether a world class has a parameter `action_mode`; functions may pass it on to the class."""
    creator = creator_of(env_id)
    return isinstance(creator, WorldType) and "action_mode" not in added_arguments(creator)


def _discrete_vector(env_id: str, num_envs: int, **kwargs: Any) -> VectorEnv[Any, Any, Any]:
    has_own_levels = "num_levels" in keyword_parameters(creator_of(env_id))
    levels = {} if has_own_levels else {"num_levels": kwargs.pop("num_levels", None)}
    world: Any = make(env_id, disable_env_checker=True, **kwargs).unwrapped
    if hasattr(world, "discrete_vector"):
        vector: VectorEnv[Any, Any, Any] = world.discrete_vector(num_envs, **levels)
        return vector
    world.close()
    given = {name: value for name, value in levels.items() if value is not None}
    env_fn = functools.partial(make, env_id, disable_env_checker=True, action_mode="discrete", **given, **kwargs)
    worlds = SyncVectorEnv([env_fn] * require_positive("num_envs", num_envs))
    if not isinstance(worlds.single_action_space, spaces.Discrete):
        worlds.close()
        raise ConfigError(
            f"{env_id} ignores action_mode='discrete': its actions are {worlds.single_action_space}. Pass "
            "action_mode "
            "on to the world's class, or omit it."
        )
    return worlds


def __getattr__(env_id: str) -> functools.partial[VectorEnv[Any, Any, Any]]:
    """Returns the function that creates vectors of a world: Gymnasium gets entry points as module attributes."""
    if env_id not in gym.registry:
        raise AttributeError(f"module {__name__!r} has no attribute {env_id!r}")
    return functools.partial(registered_vector, env_id)
