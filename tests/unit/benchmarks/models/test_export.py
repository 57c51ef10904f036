"""Boards as tables: the same numbers as on the board, every text intact, and readable by pandas."""

from __future__ import annotations

import csv
import io
import shutil

import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install '.[records]'")

from agents.oracle import OracleAgent, RandomAgent
from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.measures.board_export import COLUMNS, episode_rows
from benchmarks.models.measures.measures import rows
from tests.unit.benchmarks.models.playing import LAKE, Failing, contestant, play


@pytest.fixture
def board(made, tmp_path):
    return Board(shutil.copytree(made, tmp_path / "board"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three agents on two levels, one of which failed twice and was repaired for one level."""
    out = tmp_path_factory.mktemp("boards") / "made"
    agents = [
        contestant(OracleAgent(), "oracle"),
        contestant(RandomAgent(), 'a "quoted", name'),
        failing(lambda n: True),
    ]
    play(out, agents, episodes=2)
    play(out, [failing(lambda n: n > 0)], episodes=2)
    return out


def failing(fails):
    return contestant(Failing(fails), "failing", num_parallel=1)


def quote_an_error(board):
    """Lets every error quote what a table or UTF-8 has a meaning of its own for."""
    lines = board.lines()
    with board.writing():
        board.rewrite([{**line, "error": 'HTTP 429:\n"slow", \ud800'} if line["error"] else line for line in lines])


def written(board, tmp_path, *words):
    out = tmp_path / "table"
    assert main(["export", str(board.directory), "--out", str(out), *words]) == 0
    return out.read_bytes()


def test_a_row_per_episode_with_the_boards_numbers(board):
    table = episode_rows(board)
    assert len(table) == len(board.episodes()) == 6
    assert list(table[0])[: len(COLUMNS)] == list(COLUMNS)
    for row in rows(board.lines()):
        own = [each for each in table if (each["agent"], each["world"]) == (row.agent, row.world)]
        played = [each for each in own if not each["error"]]
        assert (len(played), len(own) - len(played)) == (row.num_episodes, row.num_errors)
        assert sum(each["success"] for each in played) == row.num_successes
        assert {each["world"] for each in own} == {LAKE} and {each["split"] for each in own} == {"test"}


def test_an_episode_that_failed_says_why_and_how_often_and_nothing_of_success(board):
    failed = [each for each in episode_rows(board) if each["error"]]
    assert failed and all(each["success"] is each["reward"] is each["first_mistake"] is None for each in failed)
    assert all(each["tries"] == 2 for each in episode_rows(board) if each["agent"] == "failing")


def test_csv_keeps_commas_quotes_and_line_breaks(board, tmp_path):
    quote_an_error(board)
    table = list(csv.DictReader(io.StringIO(written(board, tmp_path, "--to", "csv").decode(), newline="")))
    assert [row["agent"] for row in table] == [row["agent"] for row in episode_rows(board)]
    assert {row["error"] for row in table} == {"", 'HTTP 429:\n"slow", \\ud800'}
    assert {row["success"] for row in table if not row["error"]} <= {"true", "false"}
    assert {row["success"] for row in table if row["error"]} == {""}


def test_parquet_has_typed_columns_and_the_same_rows(board, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install '.[parquet]'")
    table = parquet.read_table(io.BytesIO(written(board, tmp_path, "--to", "parquet")))
    assert table.column("seed").to_pylist() == [row["seed"] for row in episode_rows(board)]
    assert str(table.schema.field("success").type) == "bool" and str(table.schema.field("reward").type) == "double"


def test_the_file_is_on_the_board_unless_it_is_named(board, capsys):
    assert main(["export", str(board.directory), "--to", "csv"]) == 0
    assert capsys.readouterr().out.strip() == str(board.directory / "episodes.csv")
    play(board.directory, [contestant(OracleAgent(), "oracle")], episodes=3)  # still a board that can be added to


@pytest.mark.parametrize("words", [("nowhere", "--to", "csv"), (".", "--to", "xlsx"), (".",)])
def test_what_cannot_be_exported_is_one_line(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["export", *words]) == 2
    assert "Traceback" not in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_folder_is_no_file(board, tmp_path, capsys):
    assert main(["export", str(board.directory), "--to", "csv", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_data_frame(board):
    pytest.importorskip("pandas", reason="needs pandas: pip install '.[frames]'")
    from benchmarks import load_board

    quote_an_error(board)
    frame = load_board(board.directory)
    assert len(frame) == len(board.episodes()) and frame["error"].notna().sum() >= 1
    for row in rows(board.lines()):
        own = frame[(frame.agent == row.agent) & (frame.world == row.world)]
        assert own.success.sum() == row.num_successes


def test_without_pandas_the_remedy_is_named(board, monkeypatch):
    from benchmarks import load_board
    from vlm_envs.errors import EngineUnavailableError

    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(EngineUnavailableError, match="frames") as raised:
        load_board(board.directory)
    assert raised.value.__suppress_context__, "one traceback, with the remedy"
