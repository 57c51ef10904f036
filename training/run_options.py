"""Parses a recipe's options into a run's configuration without importing torch."""

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
    "Any argument of a world: --worlds.0.kwargs.max-turns 5 (a Python literal, or else a string; a flag alone is True, "
    "--worlds.0.kwargs.no-NAME is False); --worlds.1.env-id ID adds a world."
)

_ALGORITHM_HELP = (
    f"The training algorithm: {', '.join(SHIPPED)}; or your own as in an import statement. Settings shared "
    "with the recipe's algorithm are kept. --algorithm NAME --help lists those of any algorithm."
)

ConfigT = TypeVar("ConfigT")

_VALUES = {
    "--algorithm": f" Choose one of {', '.join(SHIPPED)}, or your own as MODULE:CLASS.",
    "--recipe": " It is FILE.py, FILE.py:FUNCTION or MODULE:FUNCTION.",
}
"""Valid values of options that are parsed before the others, for messages."""
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
    """The parsed options of a run.

    Attributes:
        algorithm: The training algorithm, by name.
        resume: Resume the run with this name, or extend it with a larger --num-iterations. The run's own options
            need not be repeated.
        run: The run.
    """

    algorithm: Annotated[str, arg(metavar="NAME|MODULE:CLASS", help=_ALGORITHM_HELP)]
    resume: FlagCreatePairsOff[bool] = False
    run: Annotated[RunConfig, arg(name="")]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A function that returns a configuration, with its name on the command line.

    Attributes:
        name: The name as given by the user.
        make: The function.
        option: The option whose value is the name; empty if the name stands alone.
        help_all: Command that lists all options, if it is not the name with `--help-all`.
    """

    name: str
    make: Callable[[], RunConfig | StagesConfig]
    option: str = ""
    help_all: str = ""

    @property
    def words(self) -> str:
        """The recipe as written on the command line."""
        return " ".join(self.as_words)

    @property
    def as_words(self) -> list[str]:
        """The recipe's command-line arguments."""
        return [self.option, self.name] if self.option else [self.name]

    def config(self) -> RunConfig:
        """Returns the configuration of a single run.

        Raises:
            ConfigError: If the function fails or returns something else; the message gives file and line.
        """
        made = self.made()
        if isinstance(made, StagesConfig):
            raise ConfigError(
                f"{self.name} is a staged run ({', '.join(stage.name for stage in made.stages)}), but this command "
                "needs a recipe for a single run. python -m training --help lists them."
            )
        return made

    def made(self) -> RunConfig | StagesConfig:
        """Returns the configuration of a single or a staged run.

        Raises:
            ConfigError: If the function fails or returns something else; the message gives file and line.
        """
        try:
            made = self.make()
        except VLMEnvsError:
            raise
        except Exception as error:
            problem = fault_in_module(error) or f"{type(error).__name__}: {error}"
            raise ConfigError(f"--recipe {self.name}: {problem}") from error
        if not isinstance(made, RunConfig | StagesConfig):
            raise ConfigError(f"--recipe {self.name}: returns {type(made).__name__}, not a RunConfig or StagesConfig.")
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
    """Returns the recipe named on a command line, or None if there is none, and the remaining words.

    Args:
        words: A shipped recipe's name or an env id first, such as `vagen_full:navigation` for a preset's world,
            `arm_thinker:DIR` for a preset's data, or `argos:outcome_only` for an ablation; or `--recipe FILE.py`,
            `--recipe FILE.py:FUNCTION`, or `--recipe MODULE:FUNCTION` anywhere.

    Raises:
        ConfigError: If there is no such recipe or world, or the name is a start that only `python -m training
            cold_start` creates, or a Gymnasium environment that must be adapted.
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
    """Returns the recipe named on another command's command line, and the remaining words.

    `others` are further names that the command accepts, for messages.

    Raises:
        ConfigError: If there is none, or as for `find_recipe`.
    """
    recipe, rest = find_recipe(words)
    if recipe is None:
        known = (*RECIPES, *others)
        meant = did_you_mean(words[0], known) if words else ""
        raise ConfigError(
            f"{command} takes a recipe ({', '.join(known)}), a world's id, or --recipe FILE.py, and its options; got "
            f"{[*words[:1]]}.{meant}"
        )
    return recipe, rest


def recipe_word(words: Sequence[str]) -> str | None:
    """Returns the name of the recipe on a command line; None if it is empty."""
    named, rest = take_option(words, "--recipe")
    return named if named is not None else next(iter(rest), None)


def load_recipe(named: str) -> Recipe:
    """Returns a user's own recipe.

    Args:
        named: `my_recipe.py`, which must have one function annotated to return a `RunConfig` or a `StagesConfig`;
            `my_recipe.py:name`; or `my_module:name`.

    Raises:
        ConfigError: If there is no such file, module, or function, or the choice is ambiguous.
    """
    where, _, function = named.partition(":")
    module = _module_of(where, named)
    known = _recipes_in(module)
    if function and not callable(getattr(module, function, None)):
        raise ConfigError(f"--recipe {named}: {where} has no function {function!r}.{did_you_mean(function, known)}")
    if not function and len(known) != 1:
        what = (
            f"{len(known)} of them ({', '.join(known)}); choose one: --recipe {where}:{known[0]}" if known else "none"
        )
        raise ConfigError(
            f"--recipe {named} needs one function annotated `-> RunConfig` (from training.config.run_config) or "
            f"`-> StagesConfig` (from training.stages.stages_config); {where} has {what}."
        )
    return Recipe(name=named, make=getattr(module, function or known[0]), option="--recipe")


def _recipes_in(module: Any) -> list[str]:
    """Returns a module's own functions that are annotated to return a configuration."""
    return [
        name
        for name, made in vars(module).items()
        if inspect.isfunction(made)
        and made.__module__ == module.__name__
        and made.__annotations__.get("return") in ("RunConfig", RunConfig, "StagesConfig", StagesConfig)
    ]


def _module_of(where: str, named: str) -> Any:
    """Imports a recipe's module; the folder of a file is added to the path, so that worlds in it are found, too."""
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
    require(is_this, f"--recipe {path}: another module is named {path.stem!r}. Rename the file.")
    return module


def configured(
    recipe: Recipe, words: Sequence[str], default: RunConfig | None = None, *, makes_cold_start: bool = False
) -> RunConfig:
    """Returns the configuration of a recipe, or of a resumed run (`default`), with the command line's changes.

    With `makes_cold_start`, a cold start is configured even if the recipe starts from a checkpoint.

    Raises:
        ConfigError: If an option is unknown or has no effect, or a world's option is invalid. Other mistakes end
            the process with a message and status 2.
    """
    start = recipe.config() if default is None else default
    named, words = take_option(_with_hyphens(words), "--algorithm")
    if named is not None:
        start = unchecked(start, algorithm=switched(start.algorithm, named))
    start, messages = _fitted(start, words) if default is None else (start, [])
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
        # Checked here, as a recipe with a checkpoint keeps the settings of the cold start that produced it
        given = dict.fromkeys(word.partition("=")[0] for word in words if word.startswith("--cold-start."))
        messages += warning_of([f"{option} (the run starts from --model {config.model})" for option in given])
    print_on_main(messages)
    return config


def switched(algorithm: Algorithm, name: str) -> Algorithm:
    """Returns another algorithm with the shared settings (same name and type) of the current one.

    Raises:
        ConfigError: If there is no such algorithm, or it rejects these settings.
    """
    kind = algorithm_class(name)
    if type(algorithm) is kind:
        return algorithm
    had, hints = get_type_hints(type(algorithm)), get_type_hints(kind)
    names = {setting.name for setting in fields(algorithm)}
    shared = [
        setting.name for setting in fields(kind) if setting.name in names and had[setting.name] == hints[setting.name]
    ]
    return kind(**{name: getattr(algorithm, name) for name in shared})


def _with_room(value: ConfigT, option: str, words: Sequence[str]) -> ConfigT:
    """Returns a dataclass without the dictionaries that options replace, as the parser adds pairs to existing ones."""
    changes: dict[str, Any] = {}
    for name, part in ((setting.name, getattr(value, setting.name)) for setting in fields(cast(Any, value))):
        own = f"{option}.{name.replace('_', '-')}"
        if is_dataclass(part):
            changes[name] = _with_room(part, own, words)
        elif isinstance(part, dict) and own in words:
            changes[name] = {}
    return unchecked(value, **changes)


def _fitted(config: RunConfig, words: Sequence[str]) -> tuple[RunConfig, list[str]]:
    """Returns a recipe fitted to a shorter length, and a message for each lowered setting.

    Explicitly given options stay, and are validated later. Kinds of cold-start steps keep the recipe's proportions.
    """
    messages: list[str] = []
    given = {word.partition("=")[0] for word in words}

    def lowered(option: str, before: int, after: int) -> int:
        messages.append(f"{option} lowered from {before} to {after} for this short run, even if it is extended.")
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
    return unchecked(config, cold_start=cold_start), messages


def _whole(words: Sequence[str], option: str) -> int | None:
    """Returns an option's value as an integer; None if it is not given or not a whole number."""
    value = option_value(words, option) or ""
    return int(value) if value.isdecimal() else None


def _with_hyphens(words: Sequence[str]) -> list[str]:
    """Returns a command line with hyphens in its option names; the parser accepts underscores, too."""
    split = [word.partition("=") for word in words]
    return [(name.replace("_", "-") if name.startswith("--") else name) + rest + value for name, rest, value in split]


def option_value(words: Sequence[str], option: str) -> str | None:
    """Returns the last value given for an option; None if it is not given."""
    return take_option(words, option)[0]


def take_option(words: Sequence[str], option: str) -> tuple[str | None, list[str]]:
    """Returns the last value given for an option, or None, and the words without the option."""
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
    """Returns whether endpoint options that begin with `prefix` are given, or help is requested."""
    return asks_for_help(words) or any(word.startswith(prefix) for word in words)


def endpoint_to_fill() -> EndpointConfig:
    """Returns an endpoint for the command-line parser to fill in; fields without defaults are required."""
    empty = object.__new__(EndpointConfig)
    for setting in fields(EndpointConfig):
        object.__setattr__(empty, setting.name, tyro.MISSING if setting.default is MISSING else setting.default)
    return empty


def resumable_options(
    command: str, kind: type[ConfigT], words: Sequence[str], *, trained_with: str, replaced: Sequence[str] = ()
) -> tuple[ConfigT, bool]:
    """Returns the run described by a command's options, and whether it is resumed.

    A resumed run keeps its own settings unless options change them.

    Args:
        command: The command, such as `sft`.
        kind: Type of its configurations, with `name` and `output`.
        words: The options.
        trained_with: The value of `trained_with` in its runs' records.
        replaced: Tuples whose options replace the run's own values instead of adding to them.

    Raises:
        FileNotFoundError: If the run to resume does not exist.
        ConfigError: If an option is unknown, lacks its value, or is invalid.
    """
    resume = "--resume" in words
    description = f"{description_of(kind)}\n\n--resume resumes the run with this --name, or extends it."
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
