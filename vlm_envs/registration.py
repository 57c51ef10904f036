"""Registration of every world with Gymnasium, by string entry points so that nothing heavy is imported."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from vlm_envs.errors import ConfigError, did_you_mean

NAMESPACE = "VLM"

WORLDS: dict[str, tuple[str, str]] = {
    "VLM/Sokoban-v0": ("vlm_envs.worlds.sokoban.world:SokobanWorld", "vlm_envs.vector:sokoban_vector"),
    "VLM/FrozenLake-v0": (
        "vlm_envs.worlds.frozen_lake.world:FrozenLakeWorld",
        "vlm_envs.vector:frozen_lake_vector",
    ),
}
"""Env id to entry point and vector entry point."""


def register_worlds() -> None:
    """Registers every world of this package; doing so twice changes nothing."""
    for env_id, (entry_point, vector_entry_point) in WORLDS.items():
        if env_id not in gym.registry:
            gym.register(env_id, entry_point=entry_point, vector_entry_point=vector_entry_point)


def env_ids() -> list[str]:
    """Returns the ids of all registered worlds, those of users included, sorted."""
    return sorted(env_id for env_id in gym.registry if env_id.startswith(f"{NAMESPACE}/"))


def make(env_id: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """Makes a world, with an error that suggests the id you meant.

    Args:
        env_id: A registered id, with or without the `vlm_envs:` prefix.
        **kwargs: Arguments of the world.

    Returns:
        The environment, as `gymnasium.make` returns it.

    Raises:
        ConfigError: If no such world is registered, or it has no such argument.
    """
    name = env_id.removeprefix("vlm_envs:")
    if name not in gym.registry:
        raise ConfigError(
            f"Unknown env {env_id!r}.{did_you_mean(name, env_ids())} List all: python -m vlm_envs list"
        )
    try:
        return gym.make(name, **kwargs)
    except TypeError as error:
        raise ConfigError(f"{env_id} cannot be made with {kwargs}: {error}") from error
