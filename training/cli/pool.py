"""`python -m training pool RECIPE_OR_WORLD`: from words to a pool that can be drawn."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from agents.hf.device import require_device
from agents.registry import require_agent
from training.cli.command_line import find_recipe
from training.cli.world_options import read_world_options, world_words
from training.config.worlds.pools import DrawPoolConfig
from training.config.worlds.spec import WorldSpec, world_names
from training.recipes.shipped import RECIPES
from vlm_envs.command_line import HELP, HELP_ALL, Program, description_of, parsed
from vlm_envs.errors import ConfigError
from vlm_envs.validation import require


def pool_to_draw(words: Sequence[str]) -> tuple[str, WorldSpec, DrawPoolConfig]:
    """Returns what a command line asks for: what trains on the pool, the world whose levels are drawn, and how.

    What trains is the words that name the recipe, the options of worlds that were given, and the pool in place of one
    that was.

    Args:
        words: A recipe or the id of a world, arguments of worlds (`--worlds.0.kwargs.size 6`), and the options of
            `DrawPoolConfig`.

    Raises:
        ConfigError: If an option is refused, or what it names is not there.
        FileNotFoundError: If the agent's checkpoint is not there.
    """
    if not words or words[0] in (*HELP, HELP_ALL):
        parsed(DrawPoolConfig, ["--help"], _program("RECIPE"))
    recipe, options = find_recipe(words)
    if recipe is None:
        raise ConfigError(
            f"pool takes a recipe ({', '.join(RECIPES)}), a world's id or --recipe FILE.py, and its options; got "
            f"{words[0]!r}."
        )
    run = recipe.config()
    worlds, rest = read_world_options(options, run.worlds)
    config = parsed(DrawPoolConfig, rest, _program(recipe.words), default=DrawPoolConfig(sampling=run.sampling))
    spec = _chosen(worlds, config, is_named=any(word.partition("=")[0] == "--world" for word in rest))
    _require_folder(Path(config.out))
    require_device(config.device)
    if config.agent is not None:
        require_agent(config.agent)
    worlds_given = shlex.join(world_words(options, without_pool_of=config.world))
    pool = f"--worlds.{config.world}.pool.file {shlex.quote(config.out)}"
    return " ".join(filter(None, [recipe.words, worlds_given, pool])), spec, config


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
