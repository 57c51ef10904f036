"""`python -m vlm_envs report RUN`: a run's report, once or again and again while the run goes on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from vlm_envs.arguments.ranges import require_at_least
from vlm_envs.errors import EngineUnavailableError
from vlm_envs.requirements import install_command


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Write the report of a run, or of any recorded episodes, as one HTML file.

    Attributes:
        run: The run's directory, such as runs/frozenlake_tiny; of a run of stages, that of all of them.
        beside: Directory of another run to lay beside it.
        live: Whether to write the report again and again, until interrupted; an open page follows by itself, but for
            one of stages.
        every_s: Seconds between two reports with `live`.
    """

    run: Annotated[str, Positional, arg(metavar="RUN")]
    beside: str | None = None
    live: bool = False
    every_s: float = 20.0

    def __post_init__(self) -> None:
        """Refuses a report that would be written without pause."""
        require_at_least(self, 1, "every_s")


def run_report(options: ReportOptions) -> None:
    """Writes the report, and prints where it is."""
    try:
        from vlm_envs.records.report.page import build_report
        from vlm_envs.records.report.stages import build_stages_report, stage_folders
    except ImportError as error:
        raise EngineUnavailableError(f"{error}. A report needs: {install_command('records')}") from error

    def write(reload_s: float | None) -> Path:
        if options.beside is None and (folders := stage_folders(options.run)):
            return build_stages_report(options.run, folders)
        return build_report(options.run, beside=options.beside, reload_s=reload_s)

    print(write(options.every_s if options.live else None), flush=True)
    try:
        while options.live:
            time.sleep(options.every_s)
            write(options.every_s)
    except KeyboardInterrupt:  # the page that stays behind must not wait for another
        write(None)
