"""From words on the command line to a cold start that is made and not trained from."""

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
    "usage: python -m training cold_start RECIPE [OPTIONS]\n\nMakes the cold start of a recipe, and no more; "
    "options are the recipe's own. It goes to OUTPUT/NAME_cold_start, or with the first number behind the name that is "
    "free; a --name that is taken is refused, and so is --resume.\n\n"
    f"Recipes: {', '.join(RECIPES)}; a world's id, or --recipe FILE.py.\n"
    f"Starts that those of recipes go on from: {', '.join(FIRST_STARTS)}.\n"
    "Options of one: python -m training cold_start RECIPE --help"
)


def cold_start_options(words: Sequence[str]) -> tuple[Recipe, RunConfig]:
    """Returns the recipe whose cold start a command line asks for, and its configuration, which starts from no model.

    Args:
        words: One of `FIRST_STARTS`, or what `find_recipe` takes, and options.

    Raises:
        ConfigError: If there is no such recipe, if the options name a model or --resume, or one of them is refused.
    """
    if words and words[0] in FIRST_STARTS:
        recipe, options = Recipe(name=words[0], make=FIRST_STARTS[words[0]]), list(words[1:])
    else:
        recipe, options = named_recipe(words, "cold_start", *FIRST_STARTS)
    if "--resume" in options:
        raise ConfigError(
            "cold_start takes all of its steps anew, so --resume would do nothing. --cold-start.start-from DIR begins "
            "with the weights that an interrupted one has saved; --cold-start.num-steps N takes fewer steps from there."
        )
    model = option_value(options, "--model")
    if model not in (None, "None"):
        raise ConfigError(
            f"cold_start makes a model, so --model {model} would do nothing. To go on from that checkpoint: "
            f"--cold-start.start-from {model}."
        )
    return recipe, replace(configured(recipe, options, makes_cold_start=True), model=None)


def start_directory(config: RunConfig, *, is_named: bool) -> Path:
    """Returns where a cold start goes that is to be made: what is there already is not replaced.

    Args:
        config: Of which it is.
        is_named: Whether the user chose its name. Otherwise it has the recipe's, or with the first number that is free.

    Raises:
        RunExistsError: If there is anything of the chosen name.
        ConfigError: If nothing can be written there.
    """
    directories = (Path(config.output) / f"{name}_cold_start" for name in numbered(config.name))
    directory = next(each for each in directories if is_named or not _is_taken(each))
    require_writable(directory, config.output)
    require_free(directory)
    return directory


def require_free(directory: Path) -> None:
    """Raises `RunExistsError` where a cold start would replace something: another one, whole or not, or a run."""
    if _is_taken(directory):
        raise RunExistsError(f"{directory} is there, and would be replaced. Choose another --name, or delete it.")


def _is_taken(directory: Path) -> bool:
    is_empty = directory.is_dir() and not directory.is_symlink() and not any(directory.iterdir())
    return has_model(directory) or (os.path.lexists(directory) and not is_empty)


def next_command(recipe: Recipe, made: Path) -> str:
    """Returns what is done with a cold start that has been made: training, or another cold start that goes on from it.

    Args:
        recipe: Whose it is.
        made: Its directory.
    """
    command = ["python", "-m", "training"]
    if recipe.name not in FIRST_STARTS:
        return f"Train from it: {shlex.join([*command, *recipe.as_words, '--model', str(made)])}"
    after = ["cold_start", recipe_after(recipe.name), "--cold-start.start-from", str(made)]
    return f"Go on from it: {shlex.join([*command, *after])}"
