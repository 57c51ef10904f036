"""Runs that end in an empty report, which takes longer than all the rest.

As a program it is `python -m training` with such reports.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def empty_report(directory: Path, *_: object) -> Path:
    """Writes a report of nothing."""
    path = directory / "report.html"
    path.write_text("")
    return path


@contextmanager
def empty_reports() -> Iterator[None]:
    """Has runs, fine-tunings and runs of stages end in empty reports while it is open."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("run.build_report", "sft.sft_loop.build_report", "stages.stages_loop.build_stages_report"):
            patched.setattr(f"training.{name}", empty_report)
        yield


if __name__ == "__main__":
    from training.__main__ import main

    with empty_reports():
        sys.exit(main())
