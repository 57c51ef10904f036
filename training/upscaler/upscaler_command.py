"""Options of `python -m training upscaler`, and the checks before anything is written."""

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
"""Settings that may change on resume; another number of steps changes the learning rate schedule from then on."""


def upscaler_options(words: Sequence[str]) -> tuple[UpscalerConfig, bool]:
    """Returns the settings of a command line, and whether to resume; see `resumable_options`."""
    return resumable_options("upscaler", UpscalerConfig, words, trained_with=SUPER_RESOLUTION)


def check_upscaler(config: UpscalerConfig, *, resume: bool) -> None:
    """Checks that a run can start.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        FileNotFoundError: If `resume` is True and the run does not exist.
        ConfigError: If the output is not writable, or if settings changed on resume.
    """
    directory = Path(config.output) / config.name
    require_writable(directory, config.output)
    if resume:
        check_same_settings(config.to_dict(), directory, may_differ=lambda name: name in _MAY_DIFFER)
        require_run_state(directory / LATEST)
    else:
        require_unused(directory)
    require_device(config.device)
