"""`python -m training upscaler`: its options, and its checks before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agents.hf.checkpoint import require_device
from training.checkpoints.checkpoint_files import LATEST, require_run_state
from training.config.resume import check_same_settings
from training.config.saved_config import require_writable
from training.preflight import require_unused
from training.run_options import resumable_options
from training.upscaler.upscaler_config import SUPER_RESOLUTION, UpscalerConfig

_MAY_DIFFER = {"checkpoint_every", "device", "eval_every", "num_eval_scenes", "num_steps", "num_threads", "output"}
"""Settings that a run may go on with changed; with another number of steps the rate falls otherwise from then on."""


def upscaler_options(words: Sequence[str]) -> tuple[UpscalerConfig, bool]:
    """Returns the training that a command line describes, and whether it is resumed; see `resumable_options`."""
    return resumable_options("upscaler", UpscalerConfig, words, trained_with=SUPER_RESOLUTION)


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
