"""The command `python -m training plan RECIPE --model DIR --num-gpus 8 --gpu-memory 80`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import fields

from agents.hf.checkpoint import require_checkpoint
from training.checkpoints.checkpoint_files import model_directory
from training.config.run_config import RunConfig
from training.memory_plan.plan_config import PlanConfig
from training.run_options import configured, named_recipe
from vlm_envs.command_line import Program, asks_for_help, description_of, option_names, parsed, wrapped_usage
from vlm_envs.errors import ConfigError
from vlm_envs.validation import fields_named

PROG = "python -m training plan"
_OWN = tuple(f"--{field.name.replace('_', '-')}" for field in fields(PlanConfig))
_FLAGS = ("--json", "--no-json")


class DoesNotFitError(ConfigError):
    """A run needs more memory than its GPUs, or their host, have."""


def run_plan(words: Sequence[str]) -> None:
    """Prints the memory plan of the run that a command line describes.

    Raises:
        DoesNotFitError: If it needs more memory than there is; the message lists options that help.
        ConfigError: If an option is invalid, or the length of rows is unknown.
    """
    if asks_for_help(words):
        usage = f"usage: {PROG} RECIPE --model DIR [--options of the plan] [--options of the recipe]"
        print(*wrapped_usage(usage), "", sep="\n")
        parsed(PlanConfig, ["--help"], Program(prog=PROG, description=description_of(PlanConfig)))
    config, plan = _parsed(words)
    if config.model is None:
        raise ConfigError(
            f"{PROG} requires a checkpoint, but {config.name} starts from none. Name a directory with a config.json: "
            "--model DIR."
        )
    directory = require_checkpoint(model_directory(config.model))
    if not plan.json:
        print("Counting parameters and the tokens of episodes ...", file=sys.stderr)
    from training.memory_plan.plan_report import (
        show_plan,
    )  # imported late, so that usage errors appear without waiting for torch

    fault = show_plan(config, plan, directory)
    if fault is not None:
        raise DoesNotFitError(fault)


def _parsed(words: Sequence[str]) -> tuple[RunConfig, PlanConfig]:
    own, rest = _own_words(words)
    plan = parsed(PlanConfig, own, Program(prog=PROG, description=description_of(PlanConfig)))
    with fields_named(option_names(PlanConfig)):
        return _configured(rest, to_stderr=plan.json), plan


def _configured(words: list[str], *, to_stderr: bool) -> RunConfig:
    """Returns the run's configuration; with `to_stderr`, messages do not mix with JSON on stdout."""
    recipe, options = named_recipe(words, PROG)
    with contextlib.redirect_stdout(sys.stderr) if to_stderr else contextlib.nullcontext():
        return configured(recipe, options)


def _own_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the plan's own options with their values, and all other words."""
    own: list[str] = []
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        name, has_value, _ = word.partition("=")
        if name.replace("_", "-") not in (*_OWN, *_FLAGS):
            rest.append(word)
            continue
        own.append(word)
        if not has_value and name not in _FLAGS and left and not left[0].startswith("--"):
            own.append(left.pop(0))
    return own, rest
