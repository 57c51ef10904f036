"""`python -m training plan RECIPE --model DIR --num-gpus 8 --gpu-memory 80`: from the command line to a verdict."""

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
_OWN = tuple(f"--{each.name.replace('_', '-')}" for each in fields(PlanConfig))
_FLAGS = ("--json", "--no-json")


class DoesNotFitError(ConfigError):
    """A run needs more memory than its GPUs, or their host, have."""


def run_plan(words: Sequence[str]) -> None:
    """Prints the memory plan of the run that a command line describes.

    Raises:
        DoesNotFitError: If it needs more memory than there is; the message lists options that help.
        ConfigError: If an option is wrong, or the length of rows is not known.
    """
    if asks_for_help(words):
        usage = f"usage: {PROG} RECIPE --model DIR [--options of the plan] [--options of the recipe]"
        print(*wrapped_usage(usage), "", sep="\n")
        parsed(PlanConfig, ["--help"], Program(prog=PROG, description=description_of(PlanConfig)))
    config, plan = _parsed(words)
    if config.model is None:
        raise ConfigError(
            f"{PROG} plans for a checkpoint, and {config.name} starts from none. Name a directory with a config.json: "
            "--model DIR."
        )
    directory = require_checkpoint(model_directory(config.model))
    if not plan.json:
        print("Counting parameters and the tokens of episodes ...", file=sys.stderr)
    from training.memory_plan.plan_report import show_plan  # only now: mistakes need not wait for torch

    fault = show_plan(config, plan, directory)
    if fault is not None:
        raise DoesNotFitError(fault)


def _parsed(words: Sequence[str]) -> tuple[RunConfig, PlanConfig]:
    own, rest = _own_words(words)
    plan = parsed(PlanConfig, own, Program(prog=PROG, description=description_of(PlanConfig)))
    with fields_named(option_names(PlanConfig)):
        return _configured(rest, to_stderr=plan.json), plan


def _configured(words: list[str], *, to_stderr: bool) -> RunConfig:
    """Returns the run's configuration; what is told meanwhile may not stand in the way of JSON."""
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
