"""Everything on the boards in docs/boards goes today as it was recorded."""

from pathlib import Path

import pytest

from benchmarks.__main__ import main

BOARDS = sorted(path.parent for path in (Path(__file__).parents[2] / "docs" / "boards").glob("*/board.json"))


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_shown_board_replays(board):
    assert not main(["replay", str(board)])
