"""The board in docs/boards is what its page says: every row replayed, every number of the table in it."""

import re
import shutil
from pathlib import Path

from agents.oracle import OracleAgent
from benchmarks.models.board.board import Board
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.board.verification import mark, marked_rows, verified_rows, verify
from benchmarks.models.measures.measures import rows
from docs import pages
from tests.unit.benchmarks.models.playing import LAKE, contestant, play

BOARDS = Path(__file__).parents[4] / "docs" / "boards"


def test_the_shown_board_is_verified_and_its_table_is_what_it_measured():
    board = Board(BOARDS / "four-worlds")
    measured = rows(board.lines(), board.record["worlds"])
    assert marked_rows(board, board.episodes()) == {(row.agent, row.world) for row in measured}
    page = (BOARDS.parent / "reference" / "boards.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(.+?)` \| (.+?) \| ([\d.]+) \| (.+?) \|$", page, re.MULTILINE)
    assert sorted(told) == sorted(
        (row.world.partition(":")[0], row.agent, f"{row.success:.3f}", "{:.3f} to {:.3f}".format(*row.interval))
        for row in measured
    )


def test_the_command_fails_where_an_episode_does_not_replay(monkeypatch, capsys):
    monkeypatch.setattr(pages, "write_boards", lambda: ["made: episode 3 differs", "made: episode 4 differs"])
    assert pages.main(boards=True) == 1
    assert capsys.readouterr().err == "made: episode 3 differs\nmade: episode 4 differs\n"
    monkeypatch.setattr(pages, "write_boards", list)
    assert pages.main(boards=True) == 0


def test_pages_are_written_from_episodes_without_images(tmp_path, monkeypatch):
    play(tmp_path / "made", [contestant(OracleAgent(), "oracle")], worlds=[WorldSpec.parse(LAKE)], episodes=1)
    board = Board(tmp_path / "made")
    mark(board, verify(board))
    stored = tmp_path / "boards" / "small"
    stored.mkdir(parents=True)
    for name in pages.RECORDS:
        shutil.copyfile(board.directory / name, stored / name)
    monkeypatch.setattr(pages, "BOARDS", stored.parent)
    assert pages.write_boards(tmp_path / "site") == []
    written = Board(tmp_path / "site" / "small")
    episodes = written.episodes()
    assert verified_rows(written, episodes) == {(each["agent"], each["world"]) for each in episodes}
    assert (written.directory / "index.html").is_file()
    assert sorted(path.name for path in stored.iterdir()) == sorted(pages.RECORDS)
