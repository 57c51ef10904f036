"""From words on the command line to the training of an upscaler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, arg

from training.cli.command_line import option_value
from training.config.supervised.upscaler import UpscalerConfig
from training.preflight.upscaler import saved_upscaler
from vlm_envs.command_line import Program, asks_for_help, description_of, parsed


@dataclass(frozen=True, kw_only=True)
class _Options:
    """What a command line says of the training of an upscaler.

    Attributes:
        resume: Goes on with the run of this name, or extends it with more steps. Its own options need not be repeated.
        run: The run.
    """

    resume: FlagCreatePairsOff[bool] = False
    run: Annotated[UpscalerConfig, arg(name="")]


def upscaler_options(words: Sequence[str]) -> tuple[UpscalerConfig, bool]:
    """Returns what a command line says of the training of an upscaler, and whether one goes on.

    Raises:
        FileNotFoundError: If one is to go on that is not there.
        ConfigError: If an option is not known, lacks its value or cannot be.
    """
    resume, asks = "--resume" in words, asks_for_help(words)
    program = Program(prog="python -m training upscaler", description=description_of(UpscalerConfig))
    default = _Options(run=_resumed(words) if resume and not asks else UpscalerConfig())
    return parsed(_Options, [word for word in words if word != "--resume"], program, default=default).run, resume


def _resumed(words: Sequence[str]) -> UpscalerConfig:
    """Returns the configuration of the run that goes on."""
    output = option_value(words, "--output") or UpscalerConfig.output
    name = option_value(words, "--name") or UpscalerConfig.name
    return replace(saved_upscaler(Path(output) / name), output=output, name=name)
