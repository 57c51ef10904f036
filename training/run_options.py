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
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.processes import process_rank
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
from vlm_envs.command_line import asks_for_help, parsed
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

_Kind = TypeVar("_Kind")

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
    def title(self) -> str:
        """The first line of what it says of itself."""
        made = self.make.func if isinstance(self.make, partial) else self.make
        return (inspect.getdoc(made) or "").partition("\n")[0]

    @property
    def description(self) -> str:
        """What it says of itself, in one paragraph; its arguments are not the user's."""
        made = self.make.func if isinstance(self.make, partial) else self.make
        return " ".join((inspect.getdoc(made) or "").partition("\nArgs:")[0].split())


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
    name, colon, behind = first.partition(":")
    if colon and name in OF_A_WORLD:
        return Recipe(name=first, make=partial(OF_A_WORLD[name], behind)), rest
    if colon and name in STAGED_VARIANTS:
        return Recipe(name=first, make=partial(STAGED_VARIANTS[name], behind)), rest
    if ENV_ID.fullmatch(first):
        return Recipe(name=first, make=partial(any_world, first)), rest
    if adapting := advice_to_adapt(first):
        raise ConfigError(adapting)
    return None, rest


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
    named, words = take_option(words, "--algorithm")
    if named is not None:
        start = unchecked(start, algorithm=switched(start.algorithm, named))
    _refuse_foreign_settings(start.algorithm, words)
    start, told = _fitted(start, words) if default is None else (start, [])
    start = unchecked(start, algorithm=_with_room(start.algorithm, "--algorithm", _with_hyphens(words)))
    start = _with_endpoint(start, words)
    worlds, rest = read_world_options(words, start.worlds)
    command = "cold_start " if makes_cold_start else ""
    program = Training(
        prog=f"python -m training {command}{recipe.words}",
        description=f"{recipe.description} {_HELP}".strip(),
        main_options=(
            *(COLD_START_OPTIONS if makes_cold_start else MAIN_OPTIONS),
            *(["--algorithm."] if named else []),
        ),
        help_all=recipe.help_all,
    )
    default_options = _Options(algorithm=name_of(start.algorithm), run=unchecked(start, worlds=worlds))
    config = parsed(_Options, rest, program, default=default_options).run
    if default is None and not makes_cold_start:  # A run that goes on is compared with what it was started with.
        told += warning_of(_cold_start_without_effect(config, words))
    if process_rank() == 0:
        print(*told, sep="\n", end="\n" if told else "")
    return config


def _cold_start_option(name: str) -> str:
    return f"--cold-start.{name.replace('_', '-')}"


def _with_endpoint(config: RunConfig, words: Sequence[str]) -> RunConfig:
    """Returns a configuration whose judge has an endpoint to fill in, where its options are given or asked for."""
    if config.judge.endpoint is not None or not asks_for_endpoint(words, "--judge.endpoint."):
        return config
    return unchecked(config, judge=unchecked(config.judge, endpoint=endpoint_to_fill()))


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


def _with_room(value: _Kind, option: str, words: Sequence[str]) -> _Kind:
    """Returns a dataclass with those dictionaries empty that are given anew: the parser takes pairs for no others."""
    changes: dict[str, Any] = {}
    for name, each in ((each.name, getattr(value, each.name)) for each in fields(cast(Any, value))):
        own = f"{option}.{name.replace('_', '-')}"
        if is_dataclass(each):
            changes[name] = _with_room(each, own, words)
        elif isinstance(each, dict) and own in words:
            changes[name] = {}
    return unchecked(value, **changes)


def _refuse_foreign_settings(algorithm: Algorithm, words: Sequence[str]) -> None:
    """Refuses settings that the algorithm does not have and others do, and an algorithm given as if it were one."""
    own = {each.name for each in fields(algorithm)}
    for word, after in zip(_with_hyphens(words), [*words, ""][1:], strict=True):
        option, _, value = word.partition("=")
        setting = option.removeprefix("--algorithm.").removeprefix("no-").partition(".")[0].replace("-", "_")
        if option.startswith("--algorithm.") and setting not in own and (value or after) in SHIPPED:
            raise ConfigError(f"{option} is no option. An algorithm is chosen by --algorithm {value or after}.")
        owners = [name for name, kind in SHIPPED.items() if setting in {each.name for each in fields(kind)}]
        if option.startswith("--algorithm.") and setting not in own and owners:
            raise ConfigError(
                f"{option} is a setting of {', '.join(owners)}, not of {name_of(algorithm)}. Leave it out, or take "
                f"another algorithm: --algorithm {' or '.join(owners)}."
            )


def _fitted(config: RunConfig, words: Sequence[str]) -> tuple[RunConfig, list[str]]:
    """Returns a recipe with what does not fit its length taken back, and a line for each such setting.

    Who tries a recipe for two iterations need not know how often it evaluates, nor how long its critic warms up. Who
    asks for what does not fit is refused.
    """
    said = _with_hyphens(words)
    length = option_value(said, "--num-iterations") or ""
    num_iterations, told = int(length) if length.isdecimal() else None, []
    evaluations, warmup = "--eval-every", "--algorithm.critic.warmup-iterations"
    short = "{} lowered from {} to {} for this short run, even if it is extended."
    every, algorithm = config.eval_every, config.algorithm
    if num_iterations is not None and every >= max(1, num_iterations) and option_value(said, evaluations) is None:
        told.append(short.format("Evaluations during training (--eval-every)", every, 0))
        config = unchecked(config, eval_every=0)
    num_warmup = algorithm.critic_warmup_iterations
    if num_iterations and num_warmup >= num_iterations and option_value(said, warmup) is None:
        told.append(short.format(f"Critic warm-up ({warmup})", num_warmup, num_iterations - 1))
        config = unchecked(config, algorithm=algorithm.with_critic(warmup_iterations=num_iterations - 1))
    cold_start, of_cold_start = _fitted_cold_start(config.cold_start, said)
    return unchecked(config, cold_start=cold_start), [*told, *of_cold_start]


def _fitted_cold_start(config: ColdStartConfig, words: Sequence[str]) -> tuple[ColdStartConfig, list[str]]:
    """Returns a cold start whose kinds of steps fit its length, in the recipe's proportions, and what changed.

    Kinds whose number of steps is given keep it.
    """
    told: list[str] = []
    num_steps = _whole(words, "--cold-start.num-steps")
    kinds = {"num_copying_steps": "Copying steps", "num_first_turn_steps": "First-turn steps"}
    options = {name: _cold_start_option(name) for name in kinds}
    given = {name for name, option in options.items() if option_value(words, option) is not None}
    room = num_steps - sum(_whole(words, options[name]) for name in given)
    if num_steps == 0 or not 0 <= room < sum(getattr(config, name) for name in kinds.keys() - given):
        return config, told
    for name, kind in kinds.items():
        before = getattr(config, name)
        after = min(before * num_steps // max(config.num_steps, num_steps), room)
        if name not in given and after < before:
            told.append(f"{kind} ({options[name]}) lowered from {before} to {after} for this short cold start.")
            config = unchecked(config, **{name: after})
    return config, told


def _whole(words: Sequence[str], option: str) -> int:
    """Returns the whole number that an option is given, or 0."""
    value = option_value(words, option) or ""
    return int(value) if value.isdecimal() else 0


def _cold_start_without_effect(config: RunConfig, words: Sequence[str]) -> list[str]:
    """Returns the cold start's options that a command line gives where none is made, each with the reason.

    Only the command line knows them: a recipe with a checkpoint has the settings that its cold start was made with.
    """
    names = [word.partition("=")[0] for word in _with_hyphens(words)]
    given = dict.fromkeys(name for name in names if name.startswith("--cold-start."))
    return [f"{name} (the run starts from --model {config.model})" for name in given if config.model is not None]


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
