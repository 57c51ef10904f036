"""Pools that a run draws itself when it begins, played by the model that it starts from.

    levels of a world ── filters (lengths, ids) ── attempts of the model on what is left ──> `<run>/pools/FILE`
    `<run>/pools/FILE` ── filters (pass rates) ──> what is trained on

So a stage's pool is filtered by what the stage before it has learnt, in one command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from training.config.run import RunConfig
from training.config.worlds.pool_levels import PoolLevel, chosen_levels, kept_levels
from training.config.worlds.pools import OWN_POOLS, DrawPoolConfig, PoolConfig
from training.config.worlds.spec import WorldSpec
from training.data.worlds.pool_drawing import draw_pool
from vlm_envs.validation import field_name


def draw_own_pools(config: RunConfig, directory: Path, model: Path) -> None:
    """Writes the pools that a run draws itself, those that an interruption left to their end.

    What is drawn at random afterwards is as if nobody had played.

    Args:
        config: The run.
        directory: Its own.
        model: Checkpoint that it starts from.

    Raises:
        ConfigError: If filters leave nothing of one of them, or a file there is of another run.
    """
    placed = worlds_with_pools(config.worlds, directory)
    for number, spec in enumerate(own_pools(config.worlds)):
        assert spec.pool is not None
        path = directory / OWN_POOLS / spec.pool.file
        sharing = {
            place: here.pool
            for place, (world, here) in enumerate(zip(config.worlds, placed, strict=True))
            if here.pool is not None and world.pool is not None and world.pool.draw and here.pool.file == str(path)
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with torch.random.fork_rng(devices=[]):
            drawn = draw_pool(
                spec,
                DrawPoolConfig(
                    out=str(path),
                    num_samples=spec.pool.draw,
                    exclude=spec.pool.exclude,
                    agent=f"hf:{model}" if spec.pool.attempts else None,
                    attempts=spec.pool.attempts or 1,
                    sampling=config.sampling,
                    device=config.device,
                    seed=config.seed + 1000 * number,
                ),
                takes=partial(_taken, config, sharing),
            )
        print(f"Pool {path}: {drawn}", flush=True)
    for place, (world, here) in enumerate(zip(config.worlds, placed, strict=True)):
        if here.pool is not None and world.pool is not None and world.pool.draw:
            chosen_levels(here.pool, larger=_larger(config, place))
        elif here.pool is not None:
            chosen_levels(here.pool)


def _taken(config: RunConfig, pools: Mapping[int, PoolConfig], levels: Sequence[PoolLevel]) -> frozenset[str]:
    """Returns the ids that any of some pools may take, whatever their pass rates; those alone need be played.

    Args:
        config: The run.
        pools: That share a file, by the place of their world in the mix.
        levels: That were drawn for it.

    Raises:
        ConfigError: If a pool takes none of them, or its `include` lists others.
    """
    kept = [
        kept_levels(pool.without_pass_rates(), levels, larger=_larger(config, place)) for place, pool in pools.items()
    ]
    return frozenset(level.level_id for each in kept for level in each)


def _larger(config: RunConfig, place: int) -> str:
    return f"have the run draw more levels: {field_name(config, 'worlds')}.{place}.pool.draw N"


def own_pools(specs: Sequence[WorldSpec]) -> list[WorldSpec]:
    """Returns the first world of each pool that the run draws itself."""
    first: dict[str, WorldSpec] = {}
    for spec in specs:
        if spec.pool is not None and spec.pool.draw:
            first.setdefault(spec.pool.file, spec)
    return list(first.values())


def worlds_with_pools(specs: Sequence[WorldSpec], directory: Path) -> tuple[WorldSpec, ...]:
    """Returns worlds with the pools that the run in a directory has drawn where they are now."""
    return tuple(spec if spec.pool is None else replace(spec, pool=spec.pool.within(directory)) for spec in specs)
