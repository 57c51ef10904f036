"""Options of `python -m training sft`, and the checks before anything is written."""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from pathlib import Path

from agents.hf.checkpoint import require_device
from training.checkpoints.checkpoint_files import LATEST, require_run_state
from training.config.processes import num_processes
from training.config.resume import check_same_settings, saved_by
from training.config.saved_config import require_writable
from training.config.settings_without_effect import settings_without_effect, warning_of
from training.curation.curation_config import CURATED
from training.preflight import require_attention, require_peft, require_start, require_unused
from training.run_options import resumable_options
from training.sft.sft_config import FINE_TUNING, DataSource, SFTConfig
from vlm_envs.errors import ConfigError
from vlm_envs.records.run_data import slug
from vlm_envs.validation import require

_MAY_DIFFER = {
    "checkpoint_every",
    "device",
    "eval_every",
    "memory.attention",
    "memory.gradient_checkpointing",
    "memory.packing",
    "memory.prefix_sharing",
    "micro_batch_tokens",
    "num_epochs",
    "num_steps",
    "num_threads",
    "output",
}
"""Settings that may change on resume; some change rounding or the learning rate schedule."""


def sft_options(words: Sequence[str]) -> tuple[SFTConfig, bool]:
    """Returns the settings of a command line, and whether to resume; see `resumable_options`."""
    return resumable_options("sft", SFTConfig, words, trained_with=FINE_TUNING, replaced=("data",))


def check_fine_tuning(
    config: SFTConfig, *, resume: bool, is_to_come: bool = False, data_to_come: Container[str] = ()
) -> list[str]:
    """Checks that a fine-tuning run can start; returns warnings about settings without effect.

    Args:
        config: The run.
        resume: Whether the run resumes.
        is_to_come: Whether an earlier stage makes the start checkpoint, which then need not exist yet.
        data_to_come: Paths of datasets that earlier stages make.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        FileNotFoundError: If `resume` is True and the run does not exist, or if the start checkpoint does not exist.
        ConfigError: If a requirement is missing, or if settings changed on resume.
    """
    directory = Path(config.output) / config.name
    require_writable(directory, config.output)
    if resume:
        check_same_fine_tuning(config, directory)
        require_run_state(directory / LATEST)
    else:
        require_unused(directory)
        if not is_to_come:
            require_start(config.model)
    require_device(config.device)
    require_peft(config.lora)
    require_attention(config.memory)
    for source in config.sources:
        if source.path not in data_to_come:
            data_file(source)
    return warning_of(settings_without_effect(config))


def require_one_process() -> None:
    """Checks that a standalone fine-tuning has one process; as a stage, it runs in the main process."""
    require(
        num_processes() == 1,
        f"sft trains in one process, but {num_processes()} were launched. Start it with python -m training sft; if "
        "the model does not fit on one device, try --lora.rank 32 and --memory.gradient-checkpointing.",
    )


def check_same_fine_tuning(config: SFTConfig, directory: Path) -> None:
    """Checks that a resumed fine-tuning has the settings of the run.

    Raises:
        FileNotFoundError: If the run does not exist.
        ConfigError: If a setting that affects the result differs; the message gives both values.
    """
    check_same_settings(config.to_dict(), directory, may_differ=lambda name: name in _MAY_DIFFER)


def saved_fine_tuning(directory: Path) -> SFTConfig:
    """Returns the configuration with which a fine-tuning was started.

    Raises:
        FileNotFoundError: If the run does not exist.
        ConfigError: If it is another kind of run.
    """
    return saved_by("sft", SFTConfig, directory, trained_with=FINE_TUNING)


def data_file(source: DataSource) -> tuple[Path, Path]:
    """Returns the file of a dataset's rows, and the base folder of its relative image paths.

    Raises:
        ConfigError: If the dataset does not exist.
    """
    path = Path(os.path.expanduser(source.path))
    if path.is_file():
        return path, path.parent
    curated = path / "trajectories" / f"{slug(CURATED)}.jsonl"
    if curated.is_file():
        return curated, path
    what = "has no trajectories/curated.jsonl" if path.is_dir() else "does not exist"
    raise ConfigError(
        f"--data {source.path} {what}. Expected the directory of a dataset from `python -m training curate`, or a "
        "file of conversations (`messages` and `images`), one per line, with an optional weight: PATH=2."
    )
