"""`python -m training sft`: its options, and its checks before anything is written."""

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
"""Settings that a fine-tuning may go on with changed; some round sums differently, or have the rate fall otherwise."""


def sft_options(words: Sequence[str]) -> tuple[SFTConfig, bool]:
    """Returns the fine-tuning that a command line describes, and whether it is resumed; see `resumable_options`."""
    return resumable_options("sft", SFTConfig, words, trained_with=FINE_TUNING, replaced=("data",))


def check_fine_tuning(
    config: SFTConfig, *, resume: bool, is_to_come: bool = False, data_to_come: Container[str] = ()
) -> list[str]:
    """Refuses a fine-tuning that something is missing for, and returns a line for its settings without effect.

    Args:
        config: The run.
        resume: Whether it goes on.
        is_to_come: Whether what it starts from is yet to be made, so that it need not be there.
        data_to_come: Paths of data sets that are yet to be made.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        FileNotFoundError: If `resume` is True and there is no run, or the checkpoint to start from is not one.
        ConfigError: If something it needs is not there, or, on resumption, its settings are others.
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
    """Refuses a fine-tuning by itself in several processes; as a stage it is the main one's."""
    require(
        num_processes() == 1,
        f"sft trains in one process, and {num_processes()} were launched. Start it with python -m training sft; a "
        "model that does not fit one device may with --lora.rank 32 and --memory.gradient-checkpointing.",
    )


def check_same_fine_tuning(config: SFTConfig, directory: Path) -> None:
    """Refuses to go on with a fine-tuning under another configuration.

    Raises:
        FileNotFoundError: If there is no run.
        ConfigError: If a setting that shapes the result differs from the run's own; the message gives both values.
    """
    check_same_settings(config.to_dict(), directory, may_differ=lambda name: name in _MAY_DIFFER)


def saved_fine_tuning(directory: Path) -> SFTConfig:
    """Returns the configuration a fine-tuning was started with.

    Raises:
        FileNotFoundError: If there is no run.
        ConfigError: If it is another kind of run.
    """
    return saved_by("sft", SFTConfig, directory, trained_with=FINE_TUNING)


def data_file(source: DataSource) -> tuple[Path, Path]:
    """Returns the file that holds a data set's rows, and the folder that paths of its pictures begin at.

    Raises:
        ConfigError: If there is none.
    """
    path = Path(os.path.expanduser(source.path))
    if path.is_file():
        return path, path.parent
    curated = path / "trajectories" / f"{slug(CURATED)}.jsonl"
    if curated.is_file():
        return curated, path
    what = "has no trajectories/curated.jsonl" if path.is_dir() else "does not exist"
    raise ConfigError(
        f"--data {source.path} {what}. Expected the directory of a data set that `python -m training curate` made, or "
        "a file of conversations (`messages` and `images`), one a line; a weight stands behind it: PATH=2."
    )
