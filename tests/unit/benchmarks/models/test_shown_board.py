"""The board in docs/boards is what its page says: every row replayed, every number of the table in it."""

import re
from pathlib import Path

from benchmarks.models.board.board import Board
from benchmarks.models.board.verification import verified_rows
from benchmarks.models.measures.measures import rows

BOARDS = Path(__file__).parents[4] / "docs" / "boards"


def test_the_shown_board_is_verified_and_its_table_is_what_it_measured():
    board = Board(BOARDS / "four-worlds")
    measured = rows(board.lines(), board.record["worlds"])
    assert verified_rows(board, board.episodes()) == {(row.agent, row.world) for row in measured}
    page = (BOARDS.parent / "boards.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(.+?)` \| (.+?) \| ([\d.]+) \| (.+?) \|$", page, re.MULTILINE)
    assert sorted(told) == sorted(
        (row.world.partition(":")[0], row.agent, f"{row.success:.3f}", "{:.3f} to {:.3f}".format(*row.interval))
        for row in measured
    )
