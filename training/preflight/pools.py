"""Whether the levels of pools can be played, found out before anything is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from training.config.worlds.pool_levels import PoolLevel, chosen_levels, read_levels
from training.config.worlds.pools import PoolConfig
from training.config.worlds.spec import WorldSpec, world_names
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.vector.env import VectorWorld

_AT_ONCE = 32
"""Levels that are read in one call of a world, which has only so much time."""


def require_pools(specs: Sequence[WorldSpec]) -> list[str]:
    """Refuses pools that cannot be trained on, and a cold start that shows what is to be trained on.

    Returns:
        A line for each pool that says how many of its levels are taken, or will be drawn.

    Raises:
        ConfigError: If a file or a row of a pool is broken, its filters leave nothing, its world cannot load one of its
            levels, or that is held out for evaluations; if a level is in a `pool` and in a `cold_start_pool`.
    """
    trained: dict[str, PoolLevel] = {}
    shown: dict[str, PoolLevel] = {}
    told: list[str] = []
    for number, spec in enumerate(specs):
        for config, found in ((spec.pool, trained), (spec.cold_start_pool, shown)):
            if config is not None and config.draw:
                told.append(f"{world_names(specs)[number]}: {config.draw} levels are drawn for {config.file}")
            elif config is not None:
                levels = chosen_levels(config)
                _require_playable(spec, config, levels)
                found |= {each.level_id: each for each in levels}
                told.append(
                    f"{world_names(specs)[number]}: {len(levels)} of the {len(read_levels(config.file))} levels of "
                    f"{config.file}"
                )
        both = sorted(trained.keys() & shown.keys())
        if both:
            first, name = both[0], world_names(specs)[number]
            raise ConfigError(
                f"{len(both)} levels of {name} are both in a pool to train on and in a cold start's, the first of them "
                f"at {trained[first].where} and {shown[first].where}. Leave them out of one: "
                f"--worlds.{number}.cold-start-pool.exclude {trained[first].where.rpartition(', line')[0]}"
            )
    return told


def _require_playable(spec: WorldSpec, config: PoolConfig, levels: Sequence[PoolLevel]) -> None:
    with spec.make_vector(1, split="train") as worlds:
        for start in range(0, len(levels), _AT_ONCE):
            _require_some(worlds, spec, config, levels[start : start + _AT_ONCE])


def _require_some(worlds: VectorWorld, spec: WorldSpec, config: PoolConfig, levels: Sequence[PoolLevel]) -> None:
    found = worlds.apply({0: partial(_looked_up, ids=[each.level_id for each in levels])})[0]
    for level, (split, fault) in zip(levels, found, strict=True):
        if fault:
            raise ConfigError(
                f"{level.where}: {spec.env_id} cannot load this level as it is made here. {fault} Give the world the "
                "arguments that the pool was drawn with, or remove the row."
            )
        if split not in (None, "train"):
            raise ConfigError(
                f"{level.where}: this level belongs to the split {split!r}, which is held out for evaluations. Remove "
                f"the row, or draw a pool: python -m training pool {spec.env_id} --out {config.file}"
            )


def _looked_up(world: Any, ids: Sequence[str]) -> list[tuple[str | None, str]]:
    """Returns the split of each level text, and what is wrong with it; called where the world lives."""
    found: list[tuple[str | None, str]] = []
    for level in ids:
        try:
            found.append((world.dynamics.level_split(level), ""))
        except VLMEnvsError as error:
            found.append((None, str(error)))
    return found
