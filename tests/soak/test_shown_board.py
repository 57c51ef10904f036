"""Everything on the boards in docs/boards goes today as it was recorded."""

import shutil
from pathlib import Path

import pytest

from benchmarks.__main__ import main

BOARDS = sorted(path.parent for path in (Path(__file__).parents[2] / "docs" / "boards").glob("*/board.json"))


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_shown_board_replays(board, tmp_path):
    copied = shutil.copytree(board, tmp_path / board.name)  # A replay writes marks and page anew
    assert not main(["replay", str(copied)])
