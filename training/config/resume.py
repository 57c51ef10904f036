"""Resuming: the saved configuration, what may differ from it, and the command that resumes a run."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from training.algorithms.shipped import algorithm_class
from training.config.processes import num_processes, process_rank
from training.config.run_config import ADAPTED, RunConfig
from training.config.saved_config import rebuilt
from training.config.world_spec import WorldSpec
from training.sft.sft_config import SFTConfig
from vlm_envs.adapter.adapter_settings import source_of
from vlm_envs.adapter.stored import (
    changed_arguments,
    changed_functions,
    changed_since,
    comparable,
    functions_changed,
    restored,
)
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import parse_object
from vlm_envs.records.run_data import STAGES
from vlm_envs.validation import require

ConfigT = TypeVar("ConfigT")

MAY_DIFFER = {
    "checkpoint_every",
    "cold_start.checkpoint_every",
    "device",
    "engine",
    "eval_every",
    "judge.endpoint.api_key_variable",
    "judge.endpoint.base_url",
    "judge.endpoint.cache_dir",
    "judge.endpoint.first_wait_s",
    "judge.endpoint.max_attempts",
    "judge.endpoint.max_parallel",
    "judge.endpoint.max_wait_s",
    "judge.endpoint.prices",
    "judge.endpoint.requests_per_minute",
    "judge.endpoint.timeout_s",
    "judge.endpoint.tokens_per_minute",
    "judge.verifier.num_gpus",
    "judge.verifier.num_workers",
    "judge.verifier.timeout_s",
    "judge.verifier.workers",
    "memory.attention",
    "memory.gradient_checkpointing",
    "memory.offload_optimizer",
    "memory.offload_reference",
    "memory.packing",
    "model",
    "num_eval_episodes",
    "num_iterations",
    "num_threads",
    "num_val_episodes",
    "output",
    "ppo.max_exploding_steps",
    "ppo.micro_batch_size",
    "ppo.micro_batch_tokens",
    "ppo.num_micro_batches_at_once",
    "probe_endpoints",
    "process_timeout_min",
    "record_every",
    "wandb_project",
}
"""Settings that a resumed run may change: where it runs, what it measures, and its length, but not how it learns.
Other numbers of threads or processes and other micro-batches round sums differently, so they give up bit-exactness; so
does another number of iterations with a learning-rate decay, as the rates then follow the new schedule."""

_ADAPTED_SETTING = re.compile(rf"worlds\.(\d+)\.{ADAPTED}\.")
_COMMAND: ContextVar[str] = ContextVar("_COMMAND", default="")


def saved_config(directory: Path) -> RunConfig:
    """Returns the configuration that a run was started with.

    Raises:
        FileNotFoundError: If there is no run.
        ConfigError: If the configuration is no longer valid.
    """
    saved = saved_settings(directory)
    if "worlds" not in saved:
        raise ConfigError(
            f"{directory} is not a run of a recipe; it was started with: {saved.get('command', 'another program')}. "
            "Resume it with that command and --resume."
        )
    return run_of(saved)


def run_of(saved: Mapping[str, Any]) -> RunConfig:
    """Returns the run described by the plain data of `RunConfig.to_dict`.

    Raises:
        ConfigError: If the configuration is no longer valid.
    """
    settings: dict[str, Any] = saved.get("algorithm", {})
    if "class" in settings:
        saved = {**saved, "algorithm": rebuilt(algorithm_class(settings["class"]), settings)}
    if saved.get("vllm", {}).get("process") == "own":
        _warn_of_own_process()
        saved = {**saved, "vllm": {**saved["vllm"], "process": "same"}}
    config: RunConfig = rebuilt(RunConfig, saved)
    return config


@cache  # a command reads a configuration several times
def _warn_of_own_process() -> None:
    if process_rank() == 0:
        print(
            "The run was started with --vllm.process own, which no longer exists: without --vllm.url, vLLM now runs in "
            "the training process.",
            file=sys.stderr,
        )


def saved_settings(directory: Path) -> dict[str, Any]:
    """Returns the settings in a run's config.json.

    Raises:
        FileNotFoundError: If there is no run.
    """
    path = directory / "config.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"No run in {directory}: expected a file config.json. Start it without --resume, or name the run to resume "
            "with --name and --output."
        )
    saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return saved


def saved_by(command: str, config_class: type[ConfigT], directory: Path, *, trained_with: str) -> ConfigT:
    """Returns the configuration that a command's run was started with.

    Args:
        command: The command, such as `sft`.
        config_class: Class of its configurations.
        directory: The run's directory.
        trained_with: The value of `trained_with` in such runs' records.

    Raises:
        FileNotFoundError: If there is no run.
        ConfigError: If the run is of another kind.
    """
    saved = saved_settings(directory)
    if saved.get("trained_with") != trained_with:
        raise ConfigError(
            f"{directory} is not a run of `python -m training {command}`; it was started with: "
            f"{saved.get('command', 'another program')}. Resume it with that command and --resume."
        )
    config: ConfigT = rebuilt(config_class, saved)
    return config


def check_same_run(config: RunConfig, directory: Path) -> None:
    """Raises if a run would be resumed with another configuration.

    Raises:
        FileNotFoundError: If there is no run.
        ConfigError: If a setting that affects the result differs from the run's; the message gives both values.
    """
    check_same_settings(config.to_dict(), directory, may_differ=_may_differ)


def check_same_settings(settings: Mapping[str, Any], directory: Path, *, may_differ: Callable[[str], bool]) -> None:
    """Raises if a run would be resumed with other settings.

    Args:
        settings: The requested settings, as plain data.
        directory: The run's directory.
        may_differ: Whether a setting, by its dotted name, may differ.

    Raises:
        FileNotFoundError: If there is no run.
        ConfigError: If another setting differs; the message gives both values.
    """
    saved = flat(_with_comparable_worlds(saved_settings(directory)))
    wanted = flat(_with_comparable_worlds(json.loads(json.dumps(settings))))
    differing = [
        f"  {_flag(name)}: the run has {_shown(saved.get(name))}, requested is {_shown(wanted.get(name))}"
        for name in dict.fromkeys((*wanted, *(saved_name for saved_name in saved if saved_name.startswith("worlds."))))
        if not may_differ(name) and saved.get(name) != wanted.get(name)
    ]
    if differing:
        raise ConfigError(
            f"The run in {directory} was started with another configuration:\n" + "\n".join(differing) + "\n"
            "Leave these options out (--resume uses the run's own), or start another run: no --resume, another --name."
        )


def _with_comparable_worlds(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings without the locations of adapted worlds' files."""
    worlds = [
        {**world, ADAPTED: comparable(world[ADAPTED])} if isinstance(world, Mapping) and ADAPTED in world else world
        for world in settings.get("worlds", ())
    ]
    return {**settings, **({"worlds": worlds} if worlds else {})}


@contextmanager
def recorded_worlds(directory: Path) -> Iterator[None]:
    """Within the block, makes adapted worlds' ids refer to the definitions that a run was started with.

    Their TOML files need not exist. Has no effect if there is no run. Prints which functions have changed.

    Raises:
        ConfigError: If a file has changed since the run was started.
    """
    with ExitStack() as stack:
        for env_id, adapted in _recorded(directory).items():
            keys = changed_arguments(env_id, adapted, directory)
            require(
                not keys,
                f"The run in {directory} was started with other settings of {env_id}: {changed_since(env_id, keys)}. "
                "Undo the change to resume, or start another run: no --resume, another --name.",
            )
            if (files := changed_functions(env_id, adapted, directory)) and process_rank() == 0:
                print(functions_changed(env_id, files), file=sys.stderr)
            stack.enter_context(restored(env_id, adapted, directory))
        yield


def _recorded(directory: Path) -> dict[str, dict[str, Any]]:
    """Returns the records of a run's adapted worlds by their ids."""
    if (directory / STAGES).is_file():
        return dict(parse_object((directory / STAGES).read_bytes(), str(directory / STAGES)).get(ADAPTED, {}))
    worlds = saved_settings(directory).get("worlds", ()) if (directory / "config.json").is_file() else ()
    return {world["env_id"]: world[ADAPTED] for world in worlds if ADAPTED in world}


def _may_differ(name: str) -> bool:
    of_workers = name.startswith("worlds.") and name.endswith((".workers", ".num_workers", ".step_timeout_s"))
    of_pool = name.startswith("worlds.") and name.endswith(".pool.file")  # the checkpoint knows its levels
    return name in MAY_DIFFER or name.startswith("vllm.") or of_workers or of_pool


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Returns nested data by dotted names, as on the command line."""
    if isinstance(value, Mapping) and value:
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        return {path: None if value == {} else value}
    return {name: leaf for key, item in items for name, leaf in flat(item, f"{path}.{key}" if path else key).items()}


def _flag(name: str) -> str:
    if found := _ADAPTED_SETTING.match(name):
        return f"{name[found.end() :]} of --worlds.{found.group(1)}, an adapted world"
    if name == "judge.reward_settings":
        return "--judge.reward-set"
    return "--" + name.removesuffix(".class").replace("_", "-")


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value)


def started_by(directory: Path) -> list[str]:
    """Returns the arguments after `python -m training` or a script's name that started a run; empty if unknown.

    Raises:
        FileNotFoundError: If there is no run.
    """
    words = shlex.split(str(saved_settings(directory).get("command", "")))
    return words[3:] if words[1:2] == ["-m"] else words[2:]


def check_same_worlds(recipe: str, worlds: Sequence[WorldSpec], config: RunConfig) -> None:
    """Raises if a run with other worlds than those of the named recipe would be resumed.

    Raises:
        ConfigError: If the ids differ, apart from module prefixes and the spelling of paths.
    """
    asked, own = ([spec.env_id for spec in specs] for specs in (worlds, config.worlds))
    if {source_of(env_id.rpartition(":")[2]) for env_id in asked} != {
        source_of(env_id.rpartition(":")[2]) for env_id in own
    }:
        raise ConfigError(
            f"{recipe} trains {', '.join(asked)}, but the run in {Path(config.output) / config.name} trains "
            f"{', '.join(own)}: name the recipe or the world it was started with, or another run with --name."
        )


def check_length(num_iterations: int, num_done: int) -> None:
    """Raises if the run already has more iterations.

    Raises:
        ConfigError: If `num_iterations` is less than `num_done`.
    """
    if num_iterations < num_done:
        raise ConfigError(
            f"--num-iterations {num_iterations}: the run has already done {num_done}. Give a larger number to "
            "extend it; to keep an earlier state, start another run."
        )


def continued(
    config: RunConfig | SFTConfig, directory: Path, *, num_done: int, described: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the recorded configuration of a resumed run: its settings, the changes, and when they were made.

    `described` is the record of a run that would start now.
    """
    saved = saved_settings(directory)
    before, after = flat(saved), flat(json.loads(json.dumps(config.to_dict())))
    changes = {name: [before.get(name), after[name]] for name in after if before.get(name) != after[name]}
    now = {key: described[key] for key in ("command", "commit", "started", "versions")}
    return {
        **saved,
        **config.to_dict(),
        "resumed": [*saved.get("resumed", ()), {"at": num_done, "changes": changes, **now}],
    }


@contextmanager
def going_on_by(words: Sequence[str], run: Any, *, name: str, output: str) -> Iterator[None]:
    """Within the block, makes `how_to_go_on` return the full command instead of only `--resume`.

    Args:
        words: The arguments after `python -m training`, without options.
        run: The run, with `name` and `output`.
        name: Default name of such a run.
        output: Its default output directory.
    """
    placed = ["--output", run.output] if run.output != output else []
    named = ["--name", run.name] if run.name != name else []
    token = _COMMAND.set(shlex.join(["python", "-m", "training", *words, *placed, *named, "--resume"]))
    try:
        yield
    finally:
        _COMMAND.reset(token)


def how_to_go_on() -> str:
    """Returns how to resume: the command, or only the option to add to the original command.

    With several processes it is the option, because a launcher starts them.
    """
    command = _COMMAND.get()
    return f"`{command}`" if command and num_processes() == 1 else "--resume"
