"""Where played episodes are kept: a folder as runs have one, or its page alone."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.records.run_data import RunWriter, holds_run
from vlm_envs.requirements import install_command
from vlm_envs.trajectory import Trajectory

LABEL = "play"
"""Under this label episodes are recorded."""


class Recording:
    """Keeps episodes, and writes a page of them when it is closed.

    Args:
        out: `FILE.html` for the page alone, which replaces an earlier one; a folder for the page, the episodes and
            their pictures; None for nothing.
        described: What the page says of who played what.

    Raises:
        ConfigError: If there is something in the folder, or it cannot be made.
        EngineUnavailableError: If the package that writes pages is not installed.
    """

    def __init__(self, out: Path | None, described: dict[str, Any]) -> None:
        self._out, self._described = out, described
        self._episodes: list[Trajectory] = []
        if out is None:
            return
        if importlib.util.find_spec("jinja2") is None:
            raise EngineUnavailableError(
                f"--out needs the package jinja2, which is not installed. Run: {install_command('records')}"
            )
        folder = out.parent if _is_page(out) else out
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise ConfigError(
                f"--out {out}: {folder} cannot be written to ({error.strerror}). Name another."
            ) from error
        if holds_run(out) or (_is_page(out) and out.is_dir()):
            raise ConfigError(f"--out {out} already holds episodes or a run. Name another folder, or a FILE.html.")

    def add(self, episode: Trajectory) -> None:
        """Keeps an episode."""
        self._episodes.append(episode)

    def close(self) -> None:
        """Writes what was kept, if anything was, and says where it is."""
        if self._out is None or not self._episodes:
            return
        if not _is_page(self._out):
            print(f"Page: {self._write(self._out)}")
            return
        with tempfile.TemporaryDirectory() as folder:
            self._out.write_bytes(self._write(Path(folder)).read_bytes())
        print(f"Page: {self._out}")

    def _write(self, folder: Path) -> Path:
        from vlm_envs.records.report_page import build_report  # Only now: most games are only watched.

        writer = RunWriter(folder)
        writer.config(self._described)
        writer.trajectories(LABEL, self._episodes)
        return build_report(folder)


def _is_page(out: Path) -> bool:
    return out.suffix.lower() in (".html", ".htm")
