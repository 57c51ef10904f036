"""`python -m training upscaler`: its options, and its checks before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, arg

from agents.hf.checkpoint import require_device
from training.checkpoints.checkpoint_files import LATEST, require_run_state
from training.config.resume import check_same_settings, saved_by
from training.config.saved_config import require_writable
from training.preflight import require_unused
from training.run_options import option_value
from training.upscaler.upscaler_config import SUPER_RESOLUTION, UpscalerConfig
from vlm_envs.command_line import Program, asks_for_help, description_of, parsed

_MAY_DIFFER = {"checkpoint_every", "device", "eval_every", "num_eval_scenes", "num_steps", "num_threads", "output"}
"""Settings that a run may go on with changed; with another number of steps the rate falls otherwise from then on."""


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


def check_upscaler(config: UpscalerConfig, *, resume: bool) -> None:
    """Refuses a run that something is missing for.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        FileNotFoundError: If `resume` is True and there is no run.
        ConfigError: If it cannot be written, or, on resumption, its settings are others.
    """
    directory = Path(config.output) / config.name
    require_writable(directory, config.output)
    if resume:
        check_same_settings(config.to_dict(), directory, may_differ=lambda name: name in _MAY_DIFFER)
        require_run_state(directory / LATEST)
    else:
        require_unused(directory)
    require_device(config.device)


def saved_upscaler(directory: Path) -> UpscalerConfig:
    """Returns the configuration a run was started with.

    Raises:
        FileNotFoundError: If there is no run.
        ConfigError: If it is another kind of run.
    """
    return saved_by("upscaler", UpscalerConfig, directory, trained_with=SUPER_RESOLUTION)
