"""`python -m benchmarks page BOARD`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from benchmarks.models.board.board import telling_of
from benchmarks.models.page.page import build_page
from vlm_envs.arguments.ranges import require_above


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Write a board's page anew: one HTML file with its numbers, its episodes, and its levels to play.

    Attributes:
        board: The board's folder.
        max_megabytes: Most room for turns and pictures; fewer levels are shown turn by turn where they need more.
    """

    board: Annotated[Path, Positional, arg(metavar="BOARD")]
    max_megabytes: float = 16

    def __post_init__(self) -> None:
        require_above(self, 0, "max_megabytes")


def run_page(options: PageOptions) -> None:
    """Writes the page and prints where it is."""
    with telling_of(options.board):
        print(build_page(options.board, max_bytes=round(1e6 * options.max_megabytes)))
