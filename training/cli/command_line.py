"""From words on the command line to a run's configuration. Nothing here waits for torch or transformers."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from training.config.options import ENV_ID, Command, parsed
from training.config.run import RunConfig
from training.config.worlds import WorldSpec
from training.recipes import RECIPES
from training.recipes.tiny import any_world
from vlm_envs.arguments.faults import fault_in_module
from vlm_envs.arguments.ranges import fields_named
from vlm_envs.cli.settings import parse_settings
from vlm_envs.errors import ConfigError, VLMEnvsError, did_you_mean

_WORLD_OPTION = re.compile(
    r"--worlds\.(?P<number>\d+)\.(?P<kwargs>kwargs\.)?(?P<name>[\w-]+)(?:=(?P<value>.*))?", re.DOTALL
)
_HELP = (
    "Any argument of a world: --worlds.0.kwargs.max-turns 5 (a Python literal, or a string where it is none; a flag "
    "alone is True, --worlds.0.kwargs.no-NAME is False); --worlds.1.env-id ID adds a world. Add --resume to go on with "
    "a run of this name, or to extend it with a larger --num-iterations; its own options need not be repeated."
)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A function that returns a configuration, and what it is called.

    Attributes:
        name: What the user wrote.
        make: Returns the configuration.
    """

    name: str
    make: Callable[[], RunConfig]

    def config(self) -> RunConfig:
        """Returns the configuration.

        Raises:
            ConfigError: If the function gives something else, or fails; the message names file and line.
        """
        try:
            made = self.make()
        except VLMEnvsError:
            raise
        except Exception as error:
            problem = fault_in_module(error) or f"{type(error).__name__}: {error}"
            raise ConfigError(f"--recipe {self.name}: {problem}") from error
        if not isinstance(made, RunConfig):
            raise ConfigError(f"--recipe {self.name}: gives {type(made).__name__}, not a RunConfig.")
        return made

    @property
    def description(self) -> str:
        """What it says of itself, in one paragraph."""
        made = self.make.func if isinstance(self.make, partial) else self.make
        return " ".join((inspect.getdoc(made) or "").split())


def find_recipe(words: Sequence[str]) -> tuple[Recipe | None, list[str]]:
    """Returns the recipe that a command line names, and the other words.

    Args:
        words: A shipped recipe's name or an env id first; or `--recipe FILE.py`, `--recipe FILE.py:FUNCTION` or
            `--recipe MODULE:FUNCTION` anywhere.

    Returns:
        The recipe, None where the first word names none; and the words that are its options.

    Raises:
        ConfigError: If the file or module has no such recipe.
    """
    named, rest = _take_option(list(words), "--recipe")
    if named is not None:
        return load_recipe(named), rest
    first, rest = (rest[0], rest[1:]) if rest else ("", [])
    if first in RECIPES:
        return Recipe(name=first, make=RECIPES[first]), rest
    if ENV_ID.fullmatch(first):
        return Recipe(name=first, make=partial(any_world, first)), rest
    return None, rest


def recipe_word(words: Sequence[str]) -> str | None:
    """Returns what a command line calls its recipe; None where it is empty.

    Args:
        words: What stands behind `python -m training`.
    """
    named, rest = _take_option(list(words), "--recipe")
    return named if named is not None else next(iter(rest), None)


def load_recipe(named: str) -> Recipe:
    """Returns a recipe of the user's own.

    Args:
        named: `my_recipe.py`, whose only function that says it returns a `RunConfig` is taken; `my_recipe.py:name`; or
            `my_module:name`.

    Raises:
        ConfigError: If there is no such file, module or function, or the choice is not clear.
    """
    where, _, function = named.partition(":")
    module = _load_file(Path(where)) if where.endswith(".py") else _import(where, named)
    if function:
        if not callable(getattr(module, function, None)):
            known = _recipes_in(module)
            raise ConfigError(f"--recipe {named}: {where} has no function {function!r}.{did_you_mean(function, known)}")
        return Recipe(name=named, make=getattr(module, function))
    known = _recipes_in(module)
    if len(known) != 1:
        what = f"{len(known)} of them ({', '.join(known)}); say which: --recipe {where}:{known[0]}" if known else "none"
        raise ConfigError(
            f"--recipe {named} needs one function that says `-> RunConfig` (from training.config.run); "
            f"{where} has {what}."
        )
    return Recipe(name=named, make=getattr(module, known[0]))


def _recipes_in(module: Any) -> list[str]:
    """Returns the functions of a module that say they return a configuration, those it imported left out."""
    return [
        name
        for name, made in vars(module).items()
        if inspect.isfunction(made)
        and made.__module__ == module.__name__
        and made.__annotations__.get("return") in ("RunConfig", RunConfig)
    ]


def _load_file(path: Path) -> Any:
    """Imports a file as a module, with its folder on the path: a world beside it can be imported too."""
    if not path.is_file():
        raise ConfigError(f"--recipe {path}: no such file. Give a Python file, or MODULE:FUNCTION.")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = _import(path.stem, str(path))
    if Path(getattr(module, "__file__", None) or "").resolve() != path.resolve():
        raise ConfigError(f"--recipe {path}: another module is called {path.stem!r}. Rename the file.")
    return module


def _import(module: str, named: str) -> Any:
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if fault := fault_in_module(error):
            raise ConfigError(f"--recipe {named}: cannot import {module!r}: {fault}") from error
        raise ConfigError(
            f"--recipe {named}: cannot import {module!r}: {error}. Give a Python file, or MODULE:FUNCTION as in an "
            "import statement."
        ) from error


def configured(
    recipe: Recipe, words: Sequence[str], default: RunConfig | None = None, *, makes_cold_start: bool = False
) -> RunConfig:
    """Returns a recipe's configuration with the command line's changes.

    Args:
        recipe: Gives what is not said, and the help text.
        words: Options.
        default: What is not said, in place of the recipe's; for a run that goes on.
        makes_cold_start: Whether a cold start is made even where the recipe starts from a checkpoint.

    Raises:
        ConfigError: If an option is not known or would do nothing, or one of a world cannot be read. Other mistakes end
            the process with a message and status 2.
    """
    start = recipe.config() if default is None else default
    start, told = _fitted_to_length(start, words) if default is None else (start, [])
    worlds, rest = read_world_options(words, start.worlds)
    command = Command(
        prog=f"python -m training {recipe.name}", description=f"{recipe.description} {_HELP}", takes_worlds=True
    )
    config = parsed(RunConfig, rest, command, default=_unchecked(start, worlds=worlds))
    if default is None and not makes_cold_start:  # A run that goes on is compared with what it was started with.
        _refuse_cold_start_options(config, words)
    print(*told, sep="\n", end="\n" if told else "")
    return config


def _fitted_to_length(config: RunConfig, words: Sequence[str]) -> tuple[RunConfig, list[str]]:
    """Returns a recipe with what does not fit into so short a run taken back, and a line for each such setting.

    Who tries a recipe for two iterations need not know how often it evaluates, nor how long its critic warms up. Who
    asks for both numbers is told by the table of settings that do nothing.
    """
    said = _with_hyphens(words)
    length = option_value(said, "--num-iterations") or ""
    if not length.isdecimal():
        return config, []
    evaluations, warmup = "--eval-every", "--ppo.critic-warmup-iterations"
    num_iterations, told = int(length), []
    if config.eval_every >= max(1, num_iterations) and option_value(said, evaluations) is None:
        told.append(_instead(evaluations, 0, config.eval_every))
        config = _unchecked(config, eval_every=0)
    num_warmup = config.ppo.critic_warmup_iterations
    has_critic = config.advantage.estimator != "grpo" and option_value(said, "--advantage.estimator") != "grpo"
    if has_critic and num_warmup >= num_iterations > 0 and option_value(said, warmup) is None:
        told.append(_instead(warmup, num_iterations - 1, num_warmup))
        ppo = replace(config.ppo, critic_warmup_iterations=num_iterations - 1)
        config = _unchecked(config, ppo=ppo)
    return config, told


def _instead(option: str, taken: int, own: int) -> str:
    return (
        f"So short a run takes {option} {taken} in place of {own}, the recipe's own; it stays if the run is extended."
    )


def _refuse_cold_start_options(config: RunConfig, words: Sequence[str]) -> None:
    """Refuses options of a cold start where none is made.

    Only the command line knows what was said: a recipe with a checkpoint holds the settings its cold start was made
    with, and `python -m training cold_start` makes it anew.
    """
    names = [word.partition("=")[0] for word in _with_hyphens(words)]
    given = list(dict.fromkeys(name for name in names if name.startswith("--cold-start.")))
    if given and config.model is not None:
        raise ConfigError(
            f"{' and '.join(given)} would do nothing: the run starts from --model {config.model}, so no cold start is "
            f"made. Add --model None to have one made, or drop {'this' if len(given) == 1 else 'these'}."
        )


def _with_hyphens(words: Sequence[str]) -> list[str]:
    """Returns a command line with its options as they are documented; the parser takes underscores, too."""
    split = [word.partition("=") for word in words]
    return [(name.replace("_", "-") if name.startswith("--") else name) + rest + value for name, rest, value in split]


def _unchecked(config: RunConfig, **changes: Any) -> RunConfig:
    """Returns a changed copy that may be at odds with itself: only with all options together is it to be checked."""
    changed = copy.copy(config)
    for name, value in changes.items():
        object.__setattr__(changed, name, value)
    return changed


def read_world_options(words: Sequence[str], worlds: Sequence[WorldSpec]) -> tuple[tuple[WorldSpec, ...], list[str]]:
    """Applies the options that begin with `--worlds.`; a world's arguments are too many to be known beforehand.

    Args:
        words: A command line.
        worlds: The mix so far.

    Returns:
        The mix with its changes, and the other words.

    Raises:
        ConfigError: If an option cannot be read or a world cannot be had.
    """
    changes: dict[int, dict[str, Any]] = {}
    left, rest = list(words), []
    while left:
        word = left.pop(0)
        match = _WORLD_OPTION.fullmatch(word)
        if match is None:
            rest.append(word)
            continue
        values = _values(left) if match["value"] is None else [match["value"]]
        name = match["name"].replace("-", "_")
        change = changes.setdefault(int(match["number"]), {"kwargs": {}})
        if match["kwargs"]:
            change["kwargs"] |= dict([_argument(name, values)])
        else:
            change[name] = _field(word.partition("=")[0], name, values)
    return _changed(tuple(worlds), changes), rest


def _values(left: list[str]) -> list[str]:
    """Takes the words up to the next option off the front."""
    values = []
    while left and not left[0].startswith("--") and left[0] != "-h":
        values.append(left.pop(0))
    return values


def _argument(name: str, values: list[str]) -> tuple[str, Any]:
    """Returns a world's argument: a flag, one value, or several as a tuple."""
    if not values:
        return (name.removeprefix("no_"), False) if name.startswith("no_") else (name, True)
    read = tuple(parse_settings([f"{name}={value}"])[name] for value in values)
    return name, read[0] if len(read) == 1 else read


def _field(option: str, name: str, values: list[str]) -> Any:
    known = [each.name for each in fields(WorldSpec) if each.name != "kwargs"]
    if name not in known:
        raise ConfigError(
            f"{option}: a world of a mix has {', '.join(known)} and kwargs.{did_you_mean(name, known)} For an argument "
            f"of the world itself: --worlds.0.kwargs.{name.replace('_', '-')}"
        )
    if len(values) != 1:
        raise ConfigError(f"{option} takes one value; got {' '.join(values) or 'none'}.")
    if name != "weight":
        return None if (name, values[0]) == ("name", "None") else values[0]
    try:
        return float(ast.literal_eval(values[0]))
    except (ValueError, SyntaxError, TypeError):
        raise ConfigError(f"{option} takes a number; got {values[0]!r}.") from None


def _changed(worlds: tuple[WorldSpec, ...], changes: dict[int, dict[str, Any]]) -> tuple[WorldSpec, ...]:
    """Returns the mix with the changes of each world; the number after the last adds one."""
    for number, change in sorted(changes.items()):
        if number < len(worlds):
            old = worlds[number]
            new = _spec(number, vars(old) | change | {"kwargs": {**old.kwargs, **change["kwargs"]}})
            worlds = (*worlds[:number], new, *worlds[number + 1 :])
        elif number == len(worlds) and "env_id" in change:
            worlds = (*worlds, _spec(number, change))
        else:
            raise ConfigError(
                f"--worlds.{number}: the mix has {len(worlds)} world{'s' * (len(worlds) != 1)}, counted from 0. "
                f"--worlds.{len(worlds)}.env-id ID adds one."
            )
    return worlds


def _spec(number: int, settings: dict[str, Any]) -> WorldSpec:
    with fields_named({WorldSpec: {each.name: f"--worlds.{number}.{each.name}" for each in fields(WorldSpec)}}):
        return WorldSpec(**settings)


def option_value(words: Sequence[str], option: str) -> str | None:
    """Returns the value that is given to an option, the last one if it is given more than once; None if it is not."""
    rest, value = list(words), None
    while True:
        found, rest = _take_option(rest, option)
        if found is None:
            return value
        value = found


def _take_option(words: list[str], option: str) -> tuple[str | None, list[str]]:
    """Returns an option's value, and the words without both."""
    for index, word in enumerate(words):
        name, has_value, value = word.partition("=")
        if name.replace("_", "-") != option:
            continue
        if has_value:
            return value, words[:index] + words[index + 1 :]
        if index + 1 == len(words):
            raise ConfigError(f"{option} takes a value; got none.")
        return words[index + 1], words[:index] + words[index + 2 :]
    return None, words
