"""Vectors of registered worlds, whoever registered them.

`"vlm_envs.vector.make:VLM/Sokoban-v0"` is the vector entry point of `VLM/Sokoban-v0`, and likewise for every other id.
"""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import SyncVectorEnv, VectorEnv

from vlm_envs.errors import require_choice, require_positive
from vlm_envs.making import ACTION_MODES
from vlm_envs.registration import make, registered_name
from vlm_envs.vector.env import VectorWorld

_VECTOR_ARGUMENTS = ("workers", "num_workers", "step_timeout_s", "start_method")


def world_vector(env_id: str, num_envs: int = 1, **kwargs: Any) -> VectorWorld:
    """Makes a `VectorWorld` of equal worlds.

    Args:
        env_id: A registered id, with or without a module in front.
        num_envs: How many worlds.
        **kwargs: `workers`, `num_workers`, `step_timeout_s` and `start_method` go to `VectorWorld`, all others to each
            world.

    Returns:
        The vector environment.

    Raises:
        ConfigError: If there is no such world, or an argument is not usable.
    """
    require_positive("num_envs", num_envs)
    require_choice("action_mode of a VectorWorld", kwargs.pop("action_mode", "text"), ("text",))
    vector_kwargs = {name: kwargs.pop(name) for name in _VECTOR_ARGUMENTS if name in kwargs}
    env_fn = functools.partial(_make, gym.spec(registered_name(env_id)), **kwargs)
    return VectorWorld([env_fn] * num_envs, **vector_kwargs)


def _make(spec: EnvSpec, **kwargs: Any) -> gym.Env[Any, Any]:
    """Makes a world where it is to live; a worker process may know nothing of the registration of a user's own."""
    gym.registry.setdefault(spec.id, spec)
    # What Gymnasium's checker would look for at run time is proved by vlm_envs.testing
    return make(spec.id, disable_env_checker=True, **kwargs)


def registered_vector(
    env_id: str, num_envs: int = 1, *, action_mode: str = "text", num_levels: int | None = None, **kwargs: Any
) -> VectorEnv[Any, Any, Any]:
    """Makes what `gymnasium.make_vec` returns.

    Args:
        env_id: A registered id.
        num_envs: How many worlds.
        action_mode: `"text"` for a `VectorWorld`; `"discrete"` for worlds moved by numbers. Grid worlds are many times
            faster then: `vlm_envs.worlds.grids.discrete_vector`. Others are a `gymnasium.vector.SyncVectorEnv`.
        num_levels: With `"discrete"`, levels that are drawn beforehand; None for a fresh one each episode.
        **kwargs: As in `world_vector`; with `"discrete"` arguments of the world only.

    Returns:
        The vector environment.

    Raises:
        ConfigError: If an argument is not usable, or the world has no named actions.
    """
    if require_choice("action_mode", action_mode, ACTION_MODES) == "text":
        return world_vector(env_id, num_envs, **kwargs if num_levels is None else {**kwargs, "num_levels": num_levels})
    world: Any = make(env_id, disable_env_checker=True, **kwargs).unwrapped
    if hasattr(world, "discrete_vector"):
        vector: VectorEnv[Any, Any, Any] = world.discrete_vector(num_envs, num_levels=num_levels)
        return vector
    world.close()
    numbered = functools.partial(make, env_id, disable_env_checker=True, action_mode="discrete", num_levels=num_levels)
    return SyncVectorEnv([functools.partial(numbered, **kwargs)] * require_positive("num_envs", num_envs))


def __getattr__(env_id: str) -> functools.partial[VectorEnv[Any, Any, Any]]:
    """Returns what makes vectors of a world: Gymnasium looks an entry point up as an attribute of its module."""
    if env_id not in gym.registry:
        raise AttributeError(f"module {__name__!r} has no attribute {env_id!r}")
    return functools.partial(registered_vector, env_id)
