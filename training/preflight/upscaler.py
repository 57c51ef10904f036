"""What is found out before an upscaler is trained, without torch."""

from __future__ import annotations

from pathlib import Path

from agents.hf.checkpoint import require_device
from training.checkpoints.files import LATEST, require_run_state
from training.config.places import require_writable
from training.config.resume import check_same_settings, saved_by
from training.config.supervised.upscaler import SUPER_RESOLUTION, UpscalerConfig
from training.preflight.start import require_unused

_MAY_DIFFER = {"checkpoint_every", "device", "eval_every", "num_eval_scenes", "num_steps", "num_threads", "output"}
"""Settings that a run may go on with changed; with another number of steps the rate falls otherwise from then on."""


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
