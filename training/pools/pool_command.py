"""`python -m training pool RECIPE_OR_WORLD`: its options, and checks that the levels of a pool can be played."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agents.hf.checkpoint import require_device
from agents.registry import require_agent
from training.config.world_spec import WorldSpec, world_names
from training.pools.pool_config import DrawPoolConfig, PoolConfig
from training.pools.pool_levels import PoolLevel, chosen_levels, looked_up, read_levels
from training.run_options import named_recipe
from training.world_options import read_world_options
from vlm_envs.command_line import HELP, HELP_ALL, Program, description_of, parsed
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.validation import require


def pool_to_draw(words: Sequence[str]) -> tuple[str, WorldSpec, DrawPoolConfig]:
    """Returns what a command line asks for: what trains on the pool, the world whose levels are drawn, and how.

    Args:
        words: A recipe or the id of a world, arguments of worlds (`--worlds.0.kwargs.size 6`), and the options of
            `DrawPoolConfig`.

    Raises:
        ConfigError: If an option is refused, or what it names is not there.
        FileNotFoundError: If the agent's checkpoint is not there.
    """
    if not words or words[0] in (*HELP, HELP_ALL):
        parsed(DrawPoolConfig, ["--help"], _program("RECIPE"))
    recipe, options = named_recipe(words, "pool")
    run = recipe.config()
    worlds, rest = read_world_options(options, run.worlds)
    config = parsed(DrawPoolConfig, rest, _program(recipe.words), default=DrawPoolConfig(sampling=run.sampling))
    spec = _chosen(worlds, config, is_named=any(word.partition("=")[0] == "--world" for word in rest))
    _require_folder(Path(config.out))
    require_device(config.device)
    if config.agent is not None:
        require_agent(config.agent)
    return f"{recipe.words} --worlds.{config.world}.pool.file {shlex.quote(config.out)}", spec, config


def _program(recipe: str) -> Program:
    return Program(prog=f"python -m training pool {recipe}", description=description_of(DrawPoolConfig))


def _chosen(worlds: Sequence[WorldSpec], config: DrawPoolConfig, *, is_named: bool) -> WorldSpec:
    """Returns the world whose levels are drawn."""
    names = ", ".join(f"{number} {name}" for number, name in enumerate(world_names(worlds)))
    require(config.world < len(worlds), f"--world {config.world}: there are {names}.")
    require(is_named or len(worlds) == 1, f"Say whose levels are drawn, --world NUMBER: there are {names}.")
    return worlds[config.world]


def _require_folder(path: Path) -> None:
    """Refuses a file that cannot be written, before anything is played."""
    is_new = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        raise ConfigError(f"--out {path} cannot be written: {error.strerror}. Name another file.") from error


def require_pools(specs: Sequence[WorldSpec]) -> list[str]:
    """Refuses pools that cannot be trained on, and a cold start that shows what is to be trained on.

    Returns:
        A line for each pool that says how many of its levels are taken, or will be drawn.

    Raises:
        ConfigError: If a file or a row of a pool is broken, its filters leave nothing, its world cannot load one of its
            levels, or that is held out for evaluations; if a level is in a `pool` and in a `cold_start_pool`.
    """
    names = world_names(specs)
    trained: dict[str, tuple[PoolLevel, PoolConfig]] = {}
    shown: dict[str, tuple[PoolLevel, int]] = {}
    told: list[str] = []
    for number, spec in enumerate(specs):
        for config in filter(None, (spec.pool, spec.cold_start_pool)):
            if config.draw:
                told.append(f"{names[number]}: {config.draw} levels are drawn for {config.file}")
                continue
            levels = chosen_levels(config)
            _require_playable(spec, config, levels)
            num_levels = len(read_levels(config.file))
            told.append(f"{names[number]}: {len(levels)} of the {num_levels} levels of {config.file}")
            if config is spec.pool:
                trained |= {level.level_id: (level, config) for level in levels}
            else:
                shown |= {level.level_id: (level, number) for level in levels}
        both = sorted(trained.keys() & shown.keys())
        if both:
            (level, config), (imitated, place) = trained[both[0]], shown[both[0]]
            raise ConfigError(
                f"{len(both)} levels of {names[number]} are both in a pool to train on and in a cold start's, the "
                f"first of them at {level.where} and {imitated.where}. Leave them out of one, such as by "
                f"--worlds.{place}.cold-start-pool.exclude {config.file}, or draw others for it: python -m training "
                f"pool RECIPE --exclude {config.file} --out FILE"
            )
    return told


def _require_playable(spec: WorldSpec, config: PoolConfig, levels: Sequence[PoolLevel]) -> None:
    with spec.make_vector(1, split="train") as worlds:
        found = looked_up(worlds, _splits, [level.level_id for level in levels])
    for level, (split, fault) in zip(levels, found, strict=True):
        require(
            not fault,
            f"{level.where}: {spec.env_id} cannot load this level as it is made here. {fault} Give the world the "
            "arguments that the pool was drawn with, or remove the row.",
        )
        require(
            split in (None, "train"),
            f"{level.where}: this level belongs to the split {split!r}, which is held out for evaluations. Remove the "
            f"row, or draw a pool: python -m training pool {spec.env_id} --out {config.file}",
        )


def _splits(world: Any, levels: Sequence[str]) -> list[tuple[str | None, str]]:
    """Returns the split of each level text, and what is wrong with it; called where the world lives."""
    found: list[tuple[str | None, str]] = []
    for level in levels:
        try:
            found.append((world.dynamics.level_split(level), ""))
        except VLMEnvsError as error:
            found.append((None, str(error)))
    return found
