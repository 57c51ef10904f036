"""What a run of stages writes down of itself: its configuration, and which stages are finished."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training.config.curation.curate import CurateConfig
from training.config.resume import run_of
from training.config.saved import rebuilt
from training.config.stages import Stage, StageRun, StagesConfig
from training.config.supervised.sft import SFTConfig
from vlm_envs.records.json_lines import parse_object, replace_file
from vlm_envs.records.run_data import STAGES


def save_stages(config: StagesConfig, finished: Sequence[str]) -> None:
    """Writes a run of stages down, with the names of those that are finished, in place of what was there."""
    text = json.dumps({**config.to_dict(), "finished": [*finished]}, indent=2) + "\n"
    replace_file(config.directory / STAGES, text.encode(), sync=True)


def holds_stages(directory: Path) -> bool:
    """Returns whether a directory is that of a run of stages."""
    return (directory / STAGES).is_file()


def saved_stages(directory: Path) -> tuple[StagesConfig, list[str]]:
    """Returns what a run of stages was started with, and the names of the stages that are finished.

    Raises:
        FileNotFoundError: If there is none.
        BrokenRunDataError: If its file cannot be read.
        ConfigError: If what it was started with is no longer possible.
    """
    path = directory / STAGES
    if not path.is_file():
        raise FileNotFoundError(
            f"No run of stages at {directory}: expected a file {STAGES}. Start it without --resume, or say which one "
            "goes on with --name and --output."
        )
    saved = parse_object(path.read_bytes(), str(path))
    config = StagesConfig(
        name=saved["name"],
        output=saved["output"],
        model=saved["model"],
        stages=tuple(
            Stage(
                name=each["name"],
                starts_from=each["starts_from"],
                reference=each["reference"],
                run=_run_of(each["kind"], each["run"]),
            )
            for each in saved["stages"]
        ),
    )
    return config, list(saved["finished"])


def _run_of(kind: str, saved: dict[str, Any]) -> StageRun:
    if kind == "rl":
        return run_of(saved)
    if kind == "curation":
        curation: CurateConfig = rebuilt(CurateConfig, saved)
        return curation
    config: SFTConfig = rebuilt(SFTConfig, saved)
    return config
