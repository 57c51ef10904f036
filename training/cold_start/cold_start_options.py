"""Options of `python -m training cold_start`, which makes a cold start without training from it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from training.checkpoints.checkpoint_files import has_model
from training.config.run_config import RunConfig
from training.config.saved_config import numbered, require_writable
from training.recipes.shipped import FIRST_STARTS, RECIPES, recipe_after
from training.run_options import Recipe, configured, named_recipe, option_value
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import RunExistsError

COLD_START_USAGE = (
    "usage: python -m training cold_start RECIPE [OPTIONS]\n\nMakes only the cold start of a recipe; options are the "
    "recipe's own. It is written to OUTPUT/NAME_cold_start, with a number appended to NAME if that exists; an "
    "existing --name is an error, and so is --resume.\n\n"
    f"Recipes: {', '.join(RECIPES)}; a world's id, or --recipe FILE.py.\n"
    f"Initial stages, from which cold starts of recipes continue: {', '.join(FIRST_STARTS)}.\n"
    "Options of one: python -m training cold_start RECIPE --help"
)


def cold_start_options(words: Sequence[str]) -> tuple[Recipe, RunConfig]:
    """Returns the recipe and configuration of a cold start command line.

    Args:
        words: One of `FIRST_STARTS` or an argument of `find_recipe`, followed by options.

    Raises:
        ConfigError: If the recipe does not exist, if the options include --model or --resume, or if one is invalid.
    """
    if words and words[0] in FIRST_STARTS:
        recipe, options = Recipe(name=words[0], make=FIRST_STARTS[words[0]]), list(words[1:])
    else:
        recipe, options = named_recipe(words, "cold_start", *FIRST_STARTS)
    if "--resume" in options:
        raise ConfigError(
            "cold_start always takes all steps, so --resume would have no effect. --cold-start.start-from DIR starts "
            "from the weights of an interrupted cold start; --cold-start.num-steps N reduces the number of steps."
        )
    model = option_value(options, "--model")
    if model not in (None, "None"):
        raise ConfigError(
            f"cold_start makes a model, so --model {model} would have no effect. To continue from that checkpoint: "
            f"--cold-start.start-from {model}."
        )
    return recipe, replace(configured(recipe, options, makes_cold_start=True), model=None)


def start_directory(config: RunConfig, *, is_named: bool) -> Path:
    """Returns the directory of a new cold start; existing files are never replaced.

    Args:
        config: The run of the cold start.
        is_named: Whether the user chose the name. Otherwise it is the recipe's, with a number appended if it exists.

    Raises:
        RunExistsError: If the chosen name exists.
        ConfigError: If the directory is not writable.
    """
    directories = (Path(config.output) / f"{name}_cold_start" for name in numbered(config.name))
    directory = next(path for path in directories if is_named or not _is_taken(path))
    require_writable(directory, config.output)
    require_free(directory)
    return directory


def require_free(directory: Path) -> None:
    """Raises `RunExistsError` if a directory holds a cold start, finished or not, or anything else."""
    if _is_taken(directory):
        raise RunExistsError(f"{directory} already exists. Choose another --name, or delete it.")


def _is_taken(directory: Path) -> bool:
    is_empty = directory.is_dir() and not directory.is_symlink() and not any(directory.iterdir())
    return has_model(directory) or (os.path.lexists(directory) and not is_empty)


def next_command(recipe: Recipe, made: Path) -> str:
    """Returns the command that uses a new cold start: training, or the next cold start.

    Args:
        recipe: Recipe of the cold start.
        made: Directory of the cold start.
    """
    command = ["python", "-m", "training"]
    if recipe.name not in FIRST_STARTS:
        return f"Train from it: {shlex.join([*command, *recipe.as_words, '--model', str(made)])}"
    after = ["cold_start", recipe_after(recipe.name), "--cold-start.start-from", str(made)]
    return f"Continue from it: {shlex.join([*command, *after])}"
