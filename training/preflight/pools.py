"""Whether the levels of pools can be played, found out before anything is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from training.config.worlds.pool_levels import PoolLevel, chosen_levels, read_levels
from training.config.worlds.pools import PoolConfig
from training.config.worlds.spec import WorldSpec, world_names
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.vector.vector_world import VectorWorld

_Found = dict[str, tuple[PoolLevel, int, PoolConfig]]
"""Levels by their id, with the place of their world among all, and the pool that they are in."""

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
    trained: _Found = {}
    shown: _Found = {}
    told: list[str] = []
    for number, spec in enumerate(specs):
        for config, found in ((spec.pool, trained), (spec.cold_start_pool, shown)):
            if config is not None and config.draw:
                told.append(f"{world_names(specs)[number]}: {config.draw} levels are drawn for {config.file}")
            elif config is not None:
                levels = chosen_levels(config)
                _require_playable(spec, config, levels)
                found |= {each.level_id: (each, number, config) for each in levels}
                told.append(
                    f"{world_names(specs)[number]}: {len(levels)} of the {len(read_levels(config.file))} levels of "
                    f"{config.file}"
                )
        both = sorted(trained.keys() & shown.keys())
        if both:
            first, name = both[0], world_names(specs)[number]
            raise ConfigError(
                f"{len(both)} levels of {name} are both in a pool to train on and in a cold start's, the first of them "
                f"at {trained[first][0].where} and {shown[first][0].where}. {_remedy(trained[first], shown[first])}"
            )
    return told


def _remedy(trained: tuple[PoolLevel, int, PoolConfig], shown: tuple[PoolLevel, int, PoolConfig]) -> str:
    """Returns how levels are left out of one of two pools that share some, or where others come from if all are."""
    file, (_, number, config) = trained[2].file, shown
    option = f"--worlds.{number}.cold-start-pool"
    if {each.level_id for each in chosen_levels(config)} - {each.level_id for each in read_levels(file)}:
        return f"Leave them out of one: {option}.exclude {file}"
    what = "Both are the same file" if Path(file).resolve() == Path(config.file).resolve() else f"All are in {file}"
    return (
        f"{what}, so nothing would be left to imitate without them. Divide its lines between two files, or draw levels "
        f"for the cold start as these were drawn, by python -m training pool with --exclude {file}; then name their "
        f"file: {option}.file FILE"
    )


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
