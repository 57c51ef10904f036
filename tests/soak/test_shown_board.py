"""Everything on the boards in docs/boards goes today as it was recorded."""

import shutil
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.board.verification import marked_rows, verified_rows
from docs.pages import RECORDS

BOARDS = sorted(path.parent for path in (Path(__file__).parents[2] / "docs" / "boards").glob("*/board.json"))


@pytest.mark.parametrize("folder", BOARDS, ids=lambda folder: folder.name)
def test_a_shown_board_replays_and_its_images_are_drawn_again(folder, tmp_path):
    for name in RECORDS:  # A replay writes images, marks, and the page
        shutil.copyfile(folder / name, tmp_path / name)
    marked = marked_rows(Board(folder), Board(folder).episodes())
    assert not main(["replay", str(tmp_path)])
    board = Board(tmp_path)
    assert board.has_images()
    assert verified_rows(board, board.episodes()) == marked
