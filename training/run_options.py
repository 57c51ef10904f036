"""The options of a recipe, parsed into a run's configuration without importing torch."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_type_hints

import tyro
from tyro.conf import FlagCreatePairsOff, arg

from agents.api.endpoint_config import EndpointConfig
from training.algorithms.algorithm import Algorithm
from training.algorithms.shipped import SHIPPED, algorithm_class, name_of
from training.config.processes import print_on_main
from training.config.resume import saved_by
from training.config.run_config import RunConfig
from training.config.saved_config import unchecked
from training.config.settings_without_effect import warning_of
from training.recipes.shipped import (
    OF_A_WORLD,
    RECIPES,
    STAGED_PRESETS,
    STAGED_RECIPES,
    STAGED_VARIANTS,
    require_trainable,
)
from training.recipes.tiny import any_world
from training.stages.stages_config import StagesConfig
from training.world_options import ENV_ID, Training, read_world_options
from vlm_envs.command_line import Program, asks_for_help, description_of, parsed
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.registration import advice_to_adapt
from vlm_envs.user_code import fault_in_module, import_named
from vlm_envs.validation import did_you_mean, require

_HELP = (
    "Any argument of a world: --worlds.0.kwargs.max-turns 5 (a Python literal, or a string where it is none; a flag "
    "alone is True, --worlds.0.kwargs.no-NAME is False); --worlds.1.env-id ID adds a world."
)

_ALGORITHM_HELP = (
    f"How the policy learns from what it played: {', '.join(SHIPPED)}; or your own as in an import statement. Settings "
    "that it shares with the recipe's own stay. Those of any are listed by --algorithm NAME --help."
)

ConfigT = TypeVar("ConfigT")

_VALUES = {
    "--algorithm": f" There are {', '.join(SHIPPED)}; one of your own is MODULE:CLASS.",
    "--recipe": " It is FILE.py, FILE.py:FUNCTION or MODULE:FUNCTION.",
}
"""What options take that are read before the others, for messages."""
MAIN_OPTIONS = (
    *("--algorithm", "--resume", "--name", "--output", "--model", "--num-iterations", "--num-groups", "--group-size"),
    *("--num-eval-episodes", "--eval-every", "--checkpoint-every", "--seed", "--device", "--num-threads"),
    *("--worlds.0.env-id", "--sampling.temperature", "--judge.episode-reward", "--ppo.learning-rate", "--ppo.kl-coef"),
    "--lora.rank",
)
"""Options that `--help` of a recipe shows."""

COLD_START_OPTIONS = (
    *("--name", "--output", "--seed", "--device", "--num-threads", "--worlds.0.env-id", "--lora.rank"),
    *("--cold-start.num-steps", "--cold-start.num-first-turn-steps", "--cold-start.batch-size"),
    *("--cold-start.learning-rate", "--cold-start.warmup-steps", "--cold-start.mistake-rate"),
    *("--cold-start.suboptimal-rate", "--cold-start.num-demonstrations", "--cold-start.data"),
    *("--cold-start.start-from", "--cold-start.checkpoint-every"),
)
"""Options that `--help` of a cold start shows."""

CURATION_OPTIONS = (
    *("--name", "--env-id", "--set", "--again", "--episode-reward", "--judge", "--expert", "--num-samples"),
    *("--num-kept", "--pool", "--exclude", "--num-rollouts", "--threshold", "--output", "--seed", "--device"),
    *("--endpoint.model", "--endpoint.provider", "--endpoint.base-url", "--endpoint.api-key-variable"),
)
"""Options that `--help` of a curation shows."""


@dataclass(frozen=True, kw_only=True)
class _Options:
    """What a command line says of a run.

    Attributes:
        algorithm: How the policy learns from what it played, by name.
        resume: Goes on with the run of this name, or extends it with a larger --num-iterations. The run's own options
            need not be repeated.
        run: The run.
    """

    algorithm: Annotated[str, arg(metavar="NAME|MODULE:CLASS", help=_ALGORITHM_HELP)]
    resume: FlagCreatePairsOff[bool] = False
    run: Annotated[RunConfig, arg(name="")]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A function that returns a configuration, and what the user called it.

    Attributes:
        name: What that is.
        make: The function.
        option: The option whose value the name is on a command line; empty where the name stands alone.
        help_all: Command that lists every option, where that is not the name with `--help-all`.
    """

    name: str
    make: Callable[[], RunConfig | StagesConfig]
    option: str = ""
    help_all: str = ""

    @property
    def words(self) -> str:
        """How a command line names it."""
        return " ".join(self.as_words)

    @property
    def as_words(self) -> list[str]:
        """The words by which a command line names it."""
        return [self.option, self.name] if self.option else [self.name]

    def config(self) -> RunConfig:
        """Returns the configuration of one run.

        Raises:
            ConfigError: If the function gives something else, or fails; the message names file and line.
        """
        made = self.made()
        if isinstance(made, StagesConfig):
            raise ConfigError(
                f"{self.name} is a run of stages ({', '.join(stage.name for stage in made.stages)}), and this takes a "
                "recipe of one run. Name one; python -m training --help lists them."
            )
        return made

    def made(self) -> RunConfig | StagesConfig:
        """Returns the configuration, of one run or of stages.

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
        if not isinstance(made, RunConfig | StagesConfig):
            raise ConfigError(f"--recipe {self.name}: gives {type(made).__name__}, not a RunConfig or StagesConfig.")
        return made

    @property
    def _docstring(self) -> str:
        return inspect.getdoc(self.make.func if isinstance(self.make, partial) else self.make) or ""

    @property
    def title(self) -> str:
        """The first line of the function's docstring."""
        return self._docstring.partition("\n")[0]

    @property
    def description(self) -> str:
        """The function's docstring without its arguments, as one paragraph."""
        return " ".join(self._docstring.partition("\nArgs:")[0].split())


def find_recipe(words: Sequence[str]) -> tuple[Recipe | None, list[str]]:
    """Returns the recipe that a command line names, None where the first word names none, and the other words.

    Args:
        words: A shipped recipe's name or an env id first, such as `vagen_full:navigation` for a preset's world,
            `arm_thinker:DIR` for a preset's data or `argos:outcome_only` for an ablation; or `--recipe FILE.py`,
            `--recipe FILE.py:FUNCTION` or `--recipe MODULE:FUNCTION` anywhere.

    Raises:
        ConfigError: If the file or module has no such recipe, or a recipe no such world; or if it names a start that
            only `python -m training cold_start` makes, or a Gymnasium environment that has to be adapted.
    """
    named, rest = take_option(words, "--recipe")
    if named is not None:
        return load_recipe(named), rest
    first, rest = (rest[0], rest[1:]) if rest else ("", [])
    require_trainable(first)
    whole = RECIPES | STAGED_RECIPES | STAGED_PRESETS
    if first in whole:
        return Recipe(name=first, make=whole[first]), rest
    name, colon, variant = first.partition(":")
    variants: dict[str, Callable[[str], RunConfig | StagesConfig]] = {**OF_A_WORLD, **STAGED_VARIANTS}
    if colon and name in variants:
        return Recipe(name=first, make=partial(variants[name], variant)), rest
    if ENV_ID.fullmatch(first):
        return Recipe(name=first, make=partial(any_world, first)), rest
    if adapting := advice_to_adapt(first):
        raise ConfigError(adapting)
    return None, rest


def named_recipe(words: Sequence[str], command: str, *others: str) -> tuple[Recipe, list[str]]:
    """Returns the recipe that the command line of another command names, and the other words.

    `others` are more names that the command takes, for messages.

    Raises:
        ConfigError: If it names none, or as `find_recipe` does.
    """
    recipe, rest = find_recipe(words)
    if recipe is None:
        known = (*RECIPES, *others)
        meant = did_you_mean(words[0], known) if words else ""
        raise ConfigError(
            f"{command} takes a recipe ({', '.join(known)}), a world's id or --recipe FILE.py, and its options; got "
            f"{[*words[:1]]}.{meant}"
        )
    return recipe, rest


def recipe_word(words: Sequence[str]) -> str | None:
    """Returns what a command line calls its recipe; None where it is empty."""
    named, rest = take_option(words, "--recipe")
    return named if named is not None else next(iter(rest), None)


def load_recipe(named: str) -> Recipe:
    """Returns a recipe of the user's own.

    Args:
        named: `my_recipe.py`, whose only function that says it returns a `RunConfig` or a `StagesConfig` is taken;
            `my_recipe.py:name`; or `my_module:name`.

    Raises:
        ConfigError: If there is no such file, module or function, or the choice is not clear.
    """
    where, _, function = named.partition(":")
    module = _module_of(where, named)
    known = _recipes_in(module)
    if function and not callable(getattr(module, function, None)):
        raise ConfigError(f"--recipe {named}: {where} has no function {function!r}.{did_you_mean(function, known)}")
    if not function and len(known) != 1:
        what = f"{len(known)} of them ({', '.join(known)}); say which: --recipe {where}:{known[0]}" if known else "none"
        raise ConfigError(
            f"--recipe {named} needs one function that says `-> RunConfig` (from training.config.run_config) or "
            f"`-> StagesConfig` (from training.stages.stages_config); {where} has {what}."
        )
    return Recipe(name=named, make=getattr(module, function or known[0]), option="--recipe")


def _recipes_in(module: Any) -> list[str]:
    """Returns the functions of a module that say they return a configuration, those it imported left out."""
    return [
        name
        for name, made in vars(module).items()
        if inspect.isfunction(made)
        and made.__module__ == module.__name__
        and made.__annotations__.get("return") in ("RunConfig", RunConfig, "StagesConfig", StagesConfig)
    ]


def _module_of(where: str, named: str) -> Any:
    """Imports what holds a recipe; a file with its folder on the path, so that a world beside it is found too."""
    instead = "Give a Python file, or MODULE:FUNCTION as in an import statement."
    if not where.endswith(".py"):
        return import_named(where, option=f"--recipe {named}", instead=instead)
    path = Path(where)
    require(path.is_file(), f"--recipe {path}: no such file. Give a Python file, or MODULE:FUNCTION.")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = import_named(path.stem, option=f"--recipe {path}", instead=instead)
    is_this = Path(getattr(module, "__file__", None) or "").resolve() == path.resolve()
    require(is_this, f"--recipe {path}: another module is called {path.stem!r}. Rename the file.")
    return module


def configured(
    recipe: Recipe, words: Sequence[str], default: RunConfig | None = None, *, makes_cold_start: bool = False
) -> RunConfig:
    """Returns a recipe's configuration, or that of a run that goes on (`default`), with the command line's changes.

    With `makes_cold_start` one is made even where the recipe starts from a checkpoint.

    Raises:
        ConfigError: If an option is not known or would do nothing, or one of a world cannot be read. Other mistakes end
            the process with a message and status 2.
    """
    start = recipe.config() if default is None else default
    named, words = take_option(_with_hyphens(words), "--algorithm")
    if named is not None:
        start = unchecked(start, algorithm=switched(start.algorithm, named))
    start, told = _fitted(start, words) if default is None else (start, [])
    start = unchecked(start, algorithm=_with_room(start.algorithm, "--algorithm", words))
    if start.judge.endpoint is None and asks_for_endpoint(words, "--judge.endpoint."):
        start = unchecked(start, judge=unchecked(start.judge, endpoint=endpoint_to_fill()))
    worlds, rest = read_world_options(words, start.worlds)
    main_options = COLD_START_OPTIONS if makes_cold_start else MAIN_OPTIONS
    program = Training(
        prog=f"python -m training {'cold_start ' * makes_cold_start}{recipe.words}",
        description=f"{recipe.description} {_HELP}".strip(),
        main_options=main_options if named is None else (*main_options, "--algorithm."),
        help_all=recipe.help_all,
    )
    options = _Options(algorithm=name_of(start.algorithm), run=unchecked(start, worlds=worlds))
    config = parsed(_Options, rest, program, default=options).run
    if default is None and not makes_cold_start and config.model is not None:
        # Only the command line knows: a recipe with a checkpoint has the settings of the cold start that made it
        given = dict.fromkeys(word.partition("=")[0] for word in words if word.startswith("--cold-start."))
        told += warning_of([f"{option} (the run starts from --model {config.model})" for option in given])
    print_on_main(told)
    return config


def switched(algorithm: Algorithm, name: str) -> Algorithm:
    """Returns another algorithm, with the settings that both have, of one name and type, as they were.

    Raises:
        ConfigError: If there is none of this name, or not with these settings.
    """
    kind = algorithm_class(name)
    if type(algorithm) is kind:
        return algorithm
    had, hints = get_type_hints(type(algorithm)), get_type_hints(kind)
    names = {each.name for each in fields(algorithm)}
    shared = [each.name for each in fields(kind) if each.name in names and had[each.name] == hints[each.name]]
    return kind(**{name: getattr(algorithm, name) for name in shared})


def _with_room(value: ConfigT, option: str, words: Sequence[str]) -> ConfigT:
    """Returns a dataclass with those dictionaries empty that are given anew: the parser takes pairs for no others."""
    changes: dict[str, Any] = {}
    for name, each in ((each.name, getattr(value, each.name)) for each in fields(cast(Any, value))):
        own = f"{option}.{name.replace('_', '-')}"
        if is_dataclass(each):
            changes[name] = _with_room(each, own, words)
        elif isinstance(each, dict) and own in words:
            changes[name] = {}
    return unchecked(value, **changes)


def _fitted(config: RunConfig, words: Sequence[str]) -> tuple[RunConfig, list[str]]:
    """Returns a recipe shortened to a given length, and a line for each lowered setting.

    Options that are given stay, and are validated later. Kinds of cold-start steps keep the recipe's proportions.
    """
    told: list[str] = []
    given = {word.partition("=")[0] for word in words}

    def lowered(option: str, before: int, after: int) -> int:
        told.append(f"{option} lowered from {before} to {after} for this short run, even if it is extended.")
        return after

    num_iterations = _whole(words, "--num-iterations")
    every, warmup = config.eval_every, config.algorithm.critic_warmup_iterations
    of_warmup = "--algorithm.critic.warmup-iterations"
    if num_iterations is not None and every >= max(1, num_iterations) and "--eval-every" not in given:
        config = unchecked(config, eval_every=lowered("--eval-every", every, 0))
    if num_iterations and warmup >= num_iterations and of_warmup not in given:
        after = lowered(of_warmup, warmup, num_iterations - 1)
        config = unchecked(config, algorithm=config.algorithm.with_critic(warmup_iterations=after))
    cold_start, num_steps = config.cold_start, _whole(words, "--cold-start.num-steps")
    kinds = {name: f"--cold-start.{name.replace('_', '-')}" for name in ("num_copying_steps", "num_first_turn_steps")}
    left = [name for name, option in kinds.items() if option not in given]
    room = (num_steps or 0) - sum(_whole(words, option) or 0 for option in kinds.values())
    if num_steps and 0 <= room < sum(getattr(cold_start, name) for name in left):
        for name in left:
            before = getattr(cold_start, name)
            after = min(before * num_steps // max(config.cold_start.num_steps, num_steps), room)
            if after < before:
                cold_start = unchecked(cold_start, **{name: lowered(kinds[name], before, after)})
    return unchecked(config, cold_start=cold_start), told


def _whole(words: Sequence[str], option: str) -> int | None:
    """Returns the whole number that an option is given; None without one."""
    value = option_value(words, option) or ""
    return int(value) if value.isdecimal() else None


def _with_hyphens(words: Sequence[str]) -> list[str]:
    """Returns a command line with its options as they are documented; the parser takes underscores, too."""
    split = [word.partition("=") for word in words]
    return [(name.replace("_", "-") if name.startswith("--") else name) + rest + value for name, rest, value in split]


def option_value(words: Sequence[str], option: str) -> str | None:
    """Returns the value that is given to an option, the last one if it is given more than once; None if it is not."""
    return take_option(words, option)[0]


def take_option(words: Sequence[str], option: str) -> tuple[str | None, list[str]]:
    """Returns an option's last value, None if it is not given, and the words without it wherever it stands."""
    rest: list[str] = []
    value, left = None, iter(words)
    for word in left:
        name, has_value, given = word.partition("=")
        if name.replace("_", "-") != option:
            rest.append(word)
            continue
        value = given if has_value else next(left, None)
        if value is None or (not has_value and value.startswith("--")):
            behind = "" if value is None else f" but the option {value}"
            raise ConfigError(f"{option} takes a value; got none{behind}.{_VALUES.get(option, '')}")
    return value, rest


def asks_for_endpoint(words: Sequence[str], prefix: str) -> bool:
    """Returns whether options of an endpoint, which begin with `prefix`, are given or asked for."""
    return asks_for_help(words) or any(word.startswith(prefix) for word in words)


def endpoint_to_fill() -> EndpointConfig:
    """Returns an endpoint for the parser of a command line to fill in; what has no default has to be given."""
    empty = object.__new__(EndpointConfig)
    for each in fields(EndpointConfig):
        object.__setattr__(empty, each.name, tyro.MISSING if each.default is MISSING else each.default)
    return empty


def resumable_options(
    command: str, kind: type[ConfigT], words: Sequence[str], *, trained_with: str, replaced: Sequence[str] = ()
) -> tuple[ConfigT, bool]:
    """Returns the run of a command that a command line describes, and whether it is resumed.

    A resumed run keeps its own settings unless they are given.

    Args:
        command: Such as `sft`.
        kind: Type of its configurations, with `name` and `output`.
        words: The options.
        trained_with: What its runs record as `trained_with`.
        replaced: Tuples whose options replace the run's own values instead of adding to them.

    Raises:
        FileNotFoundError: If a run is to be resumed that is not there.
        ConfigError: If an option is not known, lacks its value, or is not valid.
    """
    resume = "--resume" in words
    description = f"{description_of(kind)}\n\n--resume goes on with the run of this --name, or extends it."
    program = Program(prog=f"python -m training {command}", description=description)
    default = None
    if resume and not asks_for_help(words):
        changes: dict[str, Any] = {
            name: option_value(words, f"--{name}") or getattr(kind, name) for name in ("output", "name")
        }
        saved = saved_by(command, kind, Path(changes["output"]) / changes["name"], trained_with=trained_with)
        changes |= {name: () for name in replaced if option_value(words, f"--{name}") is not None}
        default = unchecked(saved, **changes)
    return parsed(kind, [word for word in words if word != "--resume"], program, default=default), resume
