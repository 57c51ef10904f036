"""From words on the command line to a fine-tuning's configuration."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, arg

from training.cli.command_line import option_value
from training.config.supervised.sft import SFTConfig
from training.preflight.sft import saved_fine_tuning
from vlm_envs.command_line import Program, asks_for_help, description_of, parsed

_DEFAULTS = {"output": "runs", "name": "sft"}


@dataclass(frozen=True, kw_only=True)
class _Options:
    """What a command line says of a fine-tuning.

    Attributes:
        resume: Goes on with the run of this name, or extends it with more epochs or steps. The run's own options need
            not be repeated.
        run: The run.
    """

    resume: FlagCreatePairsOff[bool] = False
    run: Annotated[SFTConfig, arg(name="")]


def sft_options(words: Sequence[str]) -> tuple[SFTConfig, bool]:
    """Returns what a command line says of a fine-tuning, and whether one goes on.

    Raises:
        FileNotFoundError: If one is to go on that is not there.
        ConfigError: If an option is not known, lacks its value or cannot be.
    """
    resume, asks = "--resume" in words, asks_for_help(words)
    program = Program(prog="python -m training sft", description=description_of(SFTConfig))
    default = _Options(run=_resumed(words)) if resume and not asks else None
    return parsed(_Options, [word for word in words if word != "--resume"], program, default=default).run, resume


def _resumed(words: Sequence[str]) -> SFTConfig:
    """Returns the configuration of the run that goes on; data sets that are named stand in place of its own."""
    output, name = (option_value(words, f"--{each}") or default for each, default in _DEFAULTS.items())
    config = copy.copy(saved_fine_tuning(Path(output) / name))
    changes = {"output": output, "name": name} | ({"data": ()} if option_value(words, "--data") is not None else {})
    for field, value in changes.items():
        object.__setattr__(config, field, value)  # not made anew: that is for what the words make of it
    return config
