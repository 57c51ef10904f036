"""Takes commands of pages as far as their arguments are understood, and runs none."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from tests.docs.blocks import CHECKOUT
from tests.docs.shell import Command

_ENV_ID = re.compile(r"\bVLM/[\w-]+")
OURS = ("vlm_envs", "agents", "judges", "training", "benchmarks")

_LEFT_OUT = ("…", "...")
_CHOSEN = {
    "RECIPE": "frozenlake_tiny",
    "RECIPE_OR_WORLD": "frozenlake_tiny",
    "NAME": "frozenlake_tiny",
    "ENV_ID": "VLM/FrozenLake-v0",
    "URL": "http://127.0.0.1:8000/v1",
}
_OWN_PATH = re.compile(r"(?:^|[=:])((?:docs|examples|tests|training)/[\w./-]+)")


class RefusedCommandError(AssertionError):
    """A command of a page has arguments that its program does not take."""


class _ParsedCommand(Exception):
    """Ends a command where its work would begin."""


def check_command(command: Command) -> None:
    """Parses the arguments of one command.

    Raises:
        RefusedCommandError: If its program does not take them; the message is the program's own.
    """
    program, *words = command.words
    _check_names(command)
    if program == "accelerate":
        _require(words[:1] == ["launch"], command.words, "accelerate takes launch")
        program, words = "python", words[words.index("-m") :]
    if program == "vlm-envs":
        program, words = "python", ["-m", "vlm_envs", *words]
    if program == "make":
        _check_make(words)
    elif program == "pip":
        _check_pip(words)
    elif program in ("python", "python3") and words[0] == "-m" and words[1] in _MODULES:
        folders = [folder for folder in command.python_path.split(os.pathsep) if folder]
        with _from(command.folder, folders):
            _check_module(words[1], words[2:])
    elif program in ("python", "python3") and words[0] == "-m":
        _require(_is_module(words[1]), command.words, f"there is no module {words[1]}")
    elif program in ("python", "python3") and words[0] != "-m":
        _require((command.folder / words[0]).is_file(), command.words, "no such file")


def check_inline(text: str, folder: Path) -> None:
    """Checks a command in a sentence: its name alone, or one with `…`, as far as its options are known.

    Words in capitals stand for what the reader chooses.

    Raises:
        RefusedCommandError: As for `check_command`.
    """
    words = [word for word in shlex.split(text) if word not in _LEFT_OUT]
    chosen = [re.sub(r"(?<![\w.-])[A-Z][A-Z_]+$", _chosen, word) for word in words]
    has_all = len(words) == len(shlex.split(text)) and len(words) > (2 if words[0] == "vlm-envs" else 4)
    needs_help = not has_all and words[0] != "make"
    check_command(Command(folder=folder, python_path="", words=(*chosen, *(["--help"] * needs_help))))


def _chosen(placeholder: re.Match[str]) -> str:
    return _CHOSEN.get(placeholder[0], placeholder[0])


def check_program(text: str) -> None:
    """Looks up what a Python program imports, and the arguments and ids of worlds in calls of it.

    Raises:
        RefusedCommandError: If one is not there.
        ImportError: If a module is not there.
    """
    body = "    ..." if text.endswith(":") else ""  # of a block that shows the head of a function alone
    tree = ast.parse(f"{text}\n{body}")
    names: dict[str, Any] = {name: importlib.import_module(name) for name in OURS}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and _is_looked_up(node.module):
            module = importlib.import_module(node.module)
            for each in node.names:
                _require(hasattr(module, each.name), [node.module], f"there is no {each.name}")
                names[each.asname or each.name] = getattr(module, each.name)
        elif isinstance(node, ast.Import):
            for each in filter(lambda each: _is_looked_up(each.name), node.names):
                module = importlib.import_module(each.name)
                names[each.asname or each.name.partition(".")[0]] = module if each.asname else sys.modules[each.name]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in OURS:
            _require(hasattr(names[node.value.id], node.attr), [node.value.id], f"there is no {node.attr}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (function := _imported(node.func, names)) is not None:
            _check_call(node, function)


def _is_looked_up(module: str) -> bool:
    return module.partition(".")[0] in (*OURS, "gymnasium")


def _imported(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Returns what an expression names among the imported; None for others."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_imported(node.value, names), node.attr, None)
    return None


def _check_call(call: ast.Call, function: Any) -> None:
    import gymnasium as gym

    import vlm_envs
    from vlm_envs.adapter.adapted_world import AdaptedWorld
    from vlm_envs.adapter.adapter_settings import require_env
    from vlm_envs.registration import added_arguments, creator_of, keyword_parameters, registered_name
    from vlm_envs.vector.make_vec import world_vector

    keywords = {keyword.arg for keyword in call.keywords if keyword.arg}
    said = [ast.unparse(call)]
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of some built-in functions
        return
    known = {*parameters}
    is_open = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    makes = function in (gym.make, gym.make_vec, vlm_envs.make, vlm_envs.make_vec)
    first = call.args[0] if call.args else None
    if (makes or function is vlm_envs.adapt) and isinstance(first, ast.Constant) and isinstance(first.value, str):
        try:
            creator = AdaptedWorld if function is vlm_envs.adapt else creator_of(registered_name(first.value))
            if function is vlm_envs.adapt:
                require_env(first.value)
        except ValueError as error:
            raise RefusedCommandError(f"{said[0]}: {error}") from error
        known |= {*keyword_parameters(creator), *added_arguments(creator)}
        known |= {*keyword_parameters(world_vector)} if function in (gym.make_vec, vlm_envs.make_vec) else set()
        is_open = False
    _require(is_open or keywords <= known, said, f"no arguments {sorted(keywords - known)}")


def _check_names(command: Command) -> None:
    """Refuses ids of worlds that are not registered, and files that the checkout would have and has not."""
    from vlm_envs.registration import VARIANTS, WORLDS

    for word in command.words:
        for env_id in _ENV_ID.findall(word):
            _require(env_id in WORLDS or env_id in VARIANTS, command.words, f"there is no world {env_id}")
        for path in _OWN_PATH.findall(word):
            _require((CHECKOUT / path).exists(), command.words, f"no such file: {path}")


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _check_make(words: Sequence[str]) -> None:
    from training.recipes.shipped import OF_A_WORLD, RECIPES, STAGED_PRESETS, STAGED_RECIPES, STAGED_VARIANTS

    recipes = {*OF_A_WORLD, *RECIPES, *STAGED_PRESETS, *STAGED_RECIPES, *STAGED_VARIANTS}
    for word in words:
        name, _, value = word.partition("=")
        _require(name != "CONFIG" or value.partition(":")[0] in recipes, words, f"there is no recipe {value}")
    made = subprocess.run(
        ["make", "--dry-run", *words, f"PYTHON={sys.executable}"], capture_output=True, text=True, cwd=CHECKOUT
    )
    _require(made.returncode == 0, ["make", *words], made.stderr)


def _check_pip(words: Sequence[str]) -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    _require(words[:1] == ["install"], ["pip", *words], "pip takes install")
    for word in words:
        for extra in re.findall(r"[\w-]+", word.partition("[")[2]):
            _require(extra in project["optional-dependencies"], words, f"there is no extra {extra}")
        is_ours = re.match(r"vlm[-_]envs\b", word) is not None
        _require(not is_ours, words, "from a checkout, pip installs '.' or '.[extra]'")


def _check_module(module: str, words: list[str]) -> None:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            _MODULES[module](words)
    except _ParsedCommand:
        return
    except SystemExit as stop:
        _require(stop.code in (0, None), [module, *words], f"exit status {stop.code}")
    except FileNotFoundError:
        # What the reader has and this machine has not
        ours = [word.rpartition(":")[2] for word in words if "training/recipes/" in word]
        _require(all(Path(path).exists() for path in ours), words, "no such file")
    except (ValueError, LookupError, OSError) as error:  # `ConfigError` is a `ValueError`
        raise RefusedCommandError(f"python -m {module} {' '.join(words)}: {error}") from error


def _check_training(words: list[str]) -> None:
    from training import __main__ as training
    from training.cold_start.cold_start_options import cold_start_options
    from training.curation.curation_command import curation_options
    from training.curation.curation_config import PairsConfig
    from training.memory_plan.plan_command import run_plan
    from training.pools.pool_command import pool_to_draw
    from training.recipes.shipped import RECIPES
    from training.run_options import configured, find_recipe
    from training.sft.sft_command import sft_options
    from training.stages.stages_config import StagesConfig
    from training.stages.stages_options import stage_options
    from training.upscaler.upscaler_command import upscaler_options
    from vlm_envs.command_line import Program, parsed

    program = Program(prog="python -m training", description="")
    commands: dict[str, Callable[[list[str]], object]] = {
        "list": lambda rest: training.main(["list", *rest]),
        "cold_start": cold_start_options,
        "sft": sft_options,
        "curate": lambda rest: curation_options(rest, program),
        "pairs": lambda rest: parsed(PairsConfig, rest, program),
        "pool": lambda rest: _without_files(pool_to_draw, rest),
        "plan": lambda rest: _stopped("training.memory_plan.plan_command.require_checkpoint", run_plan, rest),
        "upscaler": upscaler_options,
    }
    if words[-1:] == ["--help"] and len(words) <= 2:
        _require(training.main(words) == 0, words, "there is no such recipe or command")
        return
    if words[0] in commands:
        commands[words[0]](words[1:])
        return
    recipe, rest = find_recipe(words)
    _require(recipe is not None, words, "there is no such recipe")
    assert recipe is not None
    made = recipe.made()
    if isinstance(made, StagesConfig):
        stage_options(recipe, made, rest)
    else:
        config = configured(recipe, [word for word in rest if word != "--resume"])
        if recipe.name not in RECIPES or any(word.startswith("--worlds.") for word in rest):
            for spec in config.worlds:
                _make(spec.env_id, spec.kwargs)


def _check_benchmarks(words: list[str]) -> None:
    from benchmarks import __main__ as benchmarks
    from benchmarks.models.cli.evaluate_command import EvaluateOptions
    from benchmarks.models.cli.run_command import RunOptions

    options = _parsed_by(benchmarks, words)
    if isinstance(options, RunOptions | EvaluateOptions):
        _require(options.out is not None, words, "a board needs a folder: --out boards/NAME")
    if isinstance(options, RunOptions):
        _check_board(options.agent, options.world, options.split, options.reading)
    elif isinstance(options, EvaluateOptions):
        _check_board((options.sampled_agent,), options.worlds, options.split, options.reading)


def _check_board(agents: Sequence[str], worlds: Sequence[str], split: str, reading: str) -> None:
    """Refuses agents and worlds that no board takes, and checkpoints that have learned other arguments of a world."""
    from agents.hf.checkpoint import format_differences
    from benchmarks.models.board.board_spec import AgentSpec, WorldSpec
    from benchmarks.models.play.contestants import asked_agents

    specs = [WorldSpec.parse(world, split, reading) for world in worlds]
    for spec in specs:
        _make(spec.env_id, spec.kwargs)
    for agent in agents:
        _without_files(lambda text: asked_agents([text], references=False), agent)
        kind, _, directory = AgentSpec.parse(agent).name.partition(":")
        if kind != "hf" or not Path(directory).is_dir():
            continue
        for spec in specs:
            differences = format_differences(Path(directory), spec.env_id, spec.kwargs)
            _require(not differences, [agent, spec.label], f"the checkpoint has learned otherwise: {differences}")


def _check_agents(words: list[str]) -> None:
    from agents import __main__ as agents
    from agents.play_command import RECIPE, PlayConfig
    from agents.registry import require_agent

    options = _parsed_by(agents, words)
    if isinstance(options, PlayConfig):
        name = options.agent.partition(",")[0]
        if name.partition(":")[0] != RECIPE:
            _without_files(require_agent, name)


def _check_judges(words: list[str]) -> None:
    from judges import __main__ as judges

    _parsed_by(judges, words)


def _check_worlds(words: list[str]) -> None:
    from vlm_envs.cli import commands, play
    from vlm_envs.cli.commands import CheckOptions
    from vlm_envs.cli.named_worlds import parse_settings

    options = _parsed_by(commands, words)
    if isinstance(options, CheckOptions | play.PlayOptions):
        _make(options.env_id, parse_settings(options.settings))


def _make(env_id: str, kwargs: Mapping[str, Any]) -> None:
    """Makes a world, so that wrong arguments, files, and functions are found; engines and data may be missing here."""
    from vlm_envs.errors import EngineUnavailableError
    from vlm_envs.registration import creator_of, keyword_parameters, make

    unknown = set(kwargs) - set(keyword_parameters(creator_of(env_id)))
    _require(not unknown, [env_id], f"the world has no arguments {sorted(unknown)}")
    if "folder" in kwargs:  # of the reader's own data
        return
    with contextlib.suppress(EngineUnavailableError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(env_id, **kwargs).close()


_MODULES: Mapping[str, Callable[[list[str]], None]] = {
    "agents": _check_agents,
    "benchmarks": _check_benchmarks,
    "judges": _check_judges,
    "training": _check_training,
    "vlm_envs": _check_worlds,
}


def _parsed_by(module: Any, words: list[str]) -> Any:
    """Returns the options that a program's command line gives; None where it asks for help."""
    from vlm_envs import command_line

    found: list[Any] = []
    mistakes: list[object] = []

    def parse_only(*arguments: Any, **settings: Any) -> Any:
        found.append(parsed(*arguments, **settings))
        raise _ParsedCommand

    parsed = command_line.parsed
    with (
        mock.patch.object(command_line, "parsed", parse_only),
        mock.patch.object(command_line, "tell", mistakes.append),
        contextlib.suppress(_ParsedCommand),
    ):
        code = module.main(words)
        _require(code == 0, [module.__name__, *words], str(mistakes))
    return found[0] if found else None


def _stopped(function: str, command: Callable[[list[str]], object], words: list[str]) -> None:
    """Runs a command up to a function of its own."""
    with mock.patch(function, side_effect=_ParsedCommand):
        command(words)


def _without_files(function: Callable[[Any], object], argument: Any) -> None:
    """Calls a function that looks for a checkpoint of the reader's own, which is not here."""
    with contextlib.suppress(FileNotFoundError):
        function(argument)


@contextlib.contextmanager
def _from(folder: Path, python_path: Sequence[str]) -> Iterator[None]:
    """Works in a folder, as a process would that was started there."""
    paths = [str(folder), *(str(folder / path) for path in python_path)]
    before = set(sys.modules)
    with contextlib.chdir(folder), mock.patch.object(sys, "path", [*paths, *sys.path]):
        try:
            yield
        finally:  # Files of the page, whose names other pages may give to others
            for name in set(sys.modules) - before:
                if Path(getattr(sys.modules[name], "__file__", None) or "").parent == folder:
                    del sys.modules[name]


def _require(is_right: bool, words: Sequence[str], reason: str) -> None:
    if not is_right:
        raise RefusedCommandError(f"{' '.join(words)}: {reason}")
