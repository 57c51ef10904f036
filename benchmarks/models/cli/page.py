"""`python -m benchmarks page BOARD`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from benchmarks.models.board.board import Board, telling_of
from benchmarks.models.page.page import build_page
from vlm_envs.validation import require_above


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Write a board's page again: index.html with its numbers and levels to play, and a folder with its episodes.

    Attributes:
        board: The board's folder.
        single_file: Embed all episodes and images in index.html, which can then be sent on alone; for small boards.
        max_megabytes: Largest single file.
    """

    board: Annotated[Path, Positional, arg(metavar="BOARD")]
    single_file: bool = False
    max_megabytes: float = 16

    def __post_init__(self) -> None:
        require_above(self, 0, "max_megabytes")


def run_page(options: PageOptions) -> None:
    """Writes the page and prints where it is."""
    with telling_of(options.board):
        max_bytes = round(1e6 * options.max_megabytes)
        print(build_page(options.board, single_file=options.single_file, max_bytes=max_bytes))
        if not Board(options.board).has_images():
            print(
                "The board's folder lacks images, so the page shows none for some turns. "
                f"Draw them: python -m benchmarks replay {options.board}",
                file=sys.stderr,
            )
