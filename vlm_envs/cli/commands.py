"""The commands of `vlm-envs`, or `python -m vlm_envs`: each is one module with its options and what runs them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from vlm_envs import __version__
from vlm_envs.arguments.options import Commands, run_command
from vlm_envs.cli import check, gallery, list_worlds, play
from vlm_envs.cli.film import FilmOptions, run_film
from vlm_envs.cli.new import NewOptions, run_new
from vlm_envs.cli.report import ReportOptions, run_report

COMMANDS: Commands = {
    "list": (list_worlds.ListOptions, list_worlds.run),
    "new": (NewOptions, run_new),
    "check": (check.CheckOptions, check.run),
    "play": (play.PlayOptions, play.run),
    "gallery": (gallery.GalleryOptions, gallery.run),
    "report": (ReportOptions, run_report),
    "film": (FilmOptions, run_film),
}

SCRIPT = "vlm-envs"
"""Command that an installation adds."""


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        words: Arguments after the program's name; None takes those of the process.

    Returns:
        The exit code: 0 when all is well, 1 when a check failed, 2 when the call was wrong.
    """
    is_script = Path(sys.argv[0]).stem == SCRIPT
    if is_script and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does, for the user's own worlds
    program = SCRIPT if is_script else "python -m vlm_envs"
    return run_command(program, COMMANDS, words, version=f"vlm-envs {__version__}")
