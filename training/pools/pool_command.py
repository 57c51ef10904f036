"""Options of `python -m training pool RECIPE_OR_WORLD`, and checks that the levels of a pool can be played."""

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
    """Parses a command line; returns the training arguments with the pool, the world to draw from, and settings.

    Args:
        words: A recipe or the id of a world, arguments of worlds (`--worlds.0.kwargs.size 6`), and the options of
            `DrawPoolConfig`.

    Raises:
        ConfigError: If an option is invalid, or something that it names does not exist.
        FileNotFoundError: If the agent's checkpoint does not exist.
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
    """Returns the world to draw levels from."""
    names = ", ".join(f"{number} {name}" for number, name in enumerate(world_names(worlds)))
    require(config.world < len(worlds), f"--world {config.world} does not exist. The recipe's worlds: {names}.")
    require(
        is_named or len(worlds) == 1,
        f"Choose the world to draw from with --world NUMBER. The recipe's worlds: {names}.",
    )
    return worlds[config.world]


def _require_folder(path: Path) -> None:
    """Checks that the output file can be written."""
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
    """Checks that pools can be trained on and share no level with pools of the cold start.

    Returns: One line per pool with the number of its levels that are selected or will be drawn.

    Raises:
        ConfigError: If a file or a row of a pool is broken, its filters drop all levels, its world cannot load one of
            its levels, or a level is held out for evaluations; or if a level is in both a `pool` and a
            `cold_start_pool`.
    """
    names = world_names(specs)
    trained: dict[str, tuple[PoolLevel, PoolConfig]] = {}
    shown: dict[str, tuple[PoolLevel, int]] = {}
    lines: list[str] = []
    for number, spec in enumerate(specs):
        for config in filter(None, (spec.pool, spec.cold_start_pool)):
            if config.draw:
                lines.append(f"{names[number]}: {config.draw} levels are drawn for {config.file}")
                continue
            levels = chosen_levels(config)
            _require_playable(spec, config, levels)
            num_levels = len(read_levels(config.file))
            lines.append(f"{names[number]}: {len(levels)} of the {num_levels} levels of {config.file}")
            if config is spec.pool:
                trained |= {level.level_id: (level, config) for level in levels}
            else:
                shown |= {level.level_id: (level, number) for level in levels}
        both = sorted(trained.keys() & shown.keys())
        if both:
            (level, config), (imitated, index) = trained[both[0]], shown[both[0]]
            raise ConfigError(
                f"{len(both)} levels of {names[number]} are both in a training pool and in a cold start pool, the "
                f"first at {level.where} and {imitated.where}. Exclude them from one, for example with "
                f"--worlds.{index}.cold-start-pool.exclude {config.file}, or draw others for it: python -m training "
                f"pool RECIPE --exclude {config.file} --out FILE"
            )
    return lines


def _require_playable(spec: WorldSpec, config: PoolConfig, levels: Sequence[PoolLevel]) -> None:
    with spec.make_vector(1, split="train") as worlds:
        found = looked_up(worlds, _splits, [level.level_id for level in levels])
    for level, (split, fault) in zip(levels, found, strict=True):
        require(
            not fault,
            f"{level.where}: {spec.env_id} cannot load this level with its current arguments. {fault} Use the "
            "arguments with which the pool was drawn, or remove the row.",
        )
        require(
            split in (None, "train"),
            f"{level.where}: this level belongs to the split {split!r}, which is held out for evaluations. Remove the "
            f"row, or draw a pool: python -m training pool {spec.env_id} --out {config.file}",
        )


def _splits(world: Any, levels: Sequence[str]) -> list[tuple[str | None, str]]:
    """Returns split and error message of each level; runs in the world's worker."""
    found: list[tuple[str | None, str]] = []
    for level in levels:
        try:
            found.append((world.dynamics.level_split(level), ""))
        except VLMEnvsError as error:
            found.append((None, str(error)))
    return found
