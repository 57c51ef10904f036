"""`python -m training report RUN`: a run's report, once or again and again while the run goes on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

import tyro

from vlm_envs.errors import require
from vlm_envs.records.report.page import build_report


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Writes a run's report again.

    Attributes:
        run: The run's directory, such as runs/frozenlake_tiny.
        beside: Directory of another run to lay beside it.
        live: Whether to write the report again and again, until interrupted; an open page follows by itself.
        every_s: Seconds between two reports with `live`.
    """

    run: Annotated[str, tyro.conf.Positional]
    beside: str | None = None
    live: bool = False
    every_s: float = 20.0

    def __post_init__(self) -> None:
        require(self.every_s >= 1, f"--every-s must be at least 1 second; got {self.every_s:g}.")


def write_report(config: ReportConfig) -> None:
    """Writes the report, and prints where it is.

    Args:
        config: Which runs, and whether to go on.

    Raises:
        MissingRunDataError: If there is no such run.
        BrokenRunDataError: If a file of a run cannot be read.
    """
    reload_s = config.every_s if config.live else None
    print(build_report(config.run, beside=config.beside, reload_s=reload_s), flush=True)
    try:
        while config.live:
            time.sleep(config.every_s)
            build_report(config.run, beside=config.beside, reload_s=reload_s)
    except KeyboardInterrupt:  # the page that stays behind must not wait for another
        build_report(config.run, beside=config.beside)
