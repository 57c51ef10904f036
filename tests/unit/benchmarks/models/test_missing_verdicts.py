"""A judge that does not answer costs no score, and is asked again for what is missing only."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")

from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.measures.measures import judged_worlds, rows
from benchmarks.models.page.page_tables import columns
from tests.unit.agents.api.endpoint import YES, FakeEndpoint, status

WORLD = "VLM/FrozenLake-v0:size=3,max_turns=2"
EPISODES = 3


@pytest.fixture
def judge(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with FakeEndpoint() as serving:
        serving.answer = lambda messages: YES
        yield serving


@pytest.fixture
def board(tmp_path):
    """A board that the exact judge has judged."""
    assert evaluate(tmp_path / "board") == 0
    return Board(tmp_path / "board")


def evaluate(out, *words, episodes=EPISODES):
    start = ["evaluate", "oracle", "--world", WORLD, "--episodes", str(episodes), "--no-references"]
    return main([*start, "--out", str(out), *words])


def rescore(board, *words):
    return main(["rescore", str(board.directory), *words])


def direct(judge):
    words = ["--judge", "direct", "--judge-endpoint.model", "m", "--judge-endpoint.base-url", judge.base_url]
    return [*words, "--judge-endpoint.max-attempts", "1", "--judge-endpoint.max-parallel", "1"]


def every_second(num):
    """Scripts so many replies, every second of which is a failure."""
    return [failing if index % 2 else None for index, failing in zip(range(num), itertools.repeat(status(500)))]


def content(board):
    return (board.directory / "episodes.jsonl").read_bytes()


def test_an_unreachable_judge_leaves_the_board_as_it_is(board, judge, capsys):
    before = content(board)
    judge.on_probe = status(404, "no model m")
    capsys.readouterr()
    assert rescore(board, *direct(judge)) == 1
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1 and "no model m" in told.err
    assert content(board) == before


def test_a_judge_without_any_verdict_leaves_the_board_as_it_is(board, judge, capsys):
    before = content(board)
    judge.answer = lambda messages: "Who knows?"
    capsys.readouterr()
    assert rescore(board, *direct(judge)) == 1
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1 and "direct m gave no verdict" in told.err
    assert content(board) == before


def test_old_scores_stay_where_there_is_no_new_one_and_only_these_are_asked_for_again(board, judge, capsys):
    num_texts = sum(len(turn["scores"]) for line in board.lines() for turn in line["turns"])
    judge.script.extend(every_second(num_texts))
    capsys.readouterr()
    assert rescore(board, *direct(judge)) == 1
    told = capsys.readouterr()
    num_missing = sum(len(line.get("unjudged", ())) for line in board.lines())
    assert 0 < num_missing < num_texts
    assert f"{num_missing} of {num_texts}" in told.out, "in the table"
    assert f"{num_missing} of {num_texts}" in told.err
    missing = [entry for line in board.lines() for entry in line.get("unjudged", ())]
    assert {entry["kept"] for entry in missing} == {"exact"}
    assert {line["judge"] for line in board.lines()} == {"direct m"}
    assert sum(len(turn["scores"]) for line in board.lines() for turn in line["turns"]) == num_texts
    assert not judged_worlds(board.lines()), "scores of two judges do not compare"
    (row,) = rows(board.lines())
    assert (row.num_unjudged, row.num_asked) == (num_missing, num_texts)
    (texts,) = [column.texts for column in columns([row]) if column.title == "no verdict"]
    assert texts == [f"{num_missing} of {num_texts}"]
    assert f"{num_missing} of {num_texts}" in (board.directory / "index.html").read_text()
    assert main(["replay", str(board.directory)]) == 0
    judge.script.clear()
    asked = len(judge.requests)
    assert rescore(board, *direct(judge)) == 0
    assert 0 < len(judge.requests) - asked <= num_missing
    assert not any("unjudged" in line for line in board.lines())
    assert judged_worlds(board.lines())


def test_the_next_evaluation_asks_for_what_is_missing(tmp_path, judge, capsys):
    judge.answer = lambda messages: "Who knows?"
    assert evaluate(tmp_path / "board", *direct(judge)) == 1
    board = Board(tmp_path / "board")
    assert not any("judge" in line for line in board.lines())
    judge.requests.clear()
    judge.answer = lambda messages: YES
    judge.script.extend(every_second(20))
    assert evaluate(board.directory, *direct(judge)) == 1
    num_missing = sum(len(line.get("unjudged", ())) for line in board.lines())
    assert num_missing and not any("kept" in entry for line in board.lines() for entry in line.get("unjudged", ()))
    judge.script.clear()
    num_asked = len(judge.requests)
    capsys.readouterr()
    assert evaluate(board.directory, *direct(judge)) == 0
    assert 0 < len(judge.requests) - num_asked <= num_missing
    assert "no verdict" not in capsys.readouterr().out
    num_asked = len(judge.requests)
    assert evaluate(board.directory, *direct(judge)) == 0
    assert len(judge.requests) == num_asked


def test_an_unreachable_judge_is_reported_before_anything_is_played(tmp_path, judge, capsys):
    judge.on_probe = status(404, "no model m")
    assert evaluate(tmp_path / "board", *direct(judge)) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "board").exists()


@pytest.mark.soak
def test_grades_stay_too(tmp_path, judge):
    world = "VLM/ZoomQA-v0:prompt_format=direct,side_px=400,target_px=16,answer_kinds=number,categories=count"
    asked = ["--answer-judge.model", "g", "--answer-judge.base-url", judge.base_url, "--answer-judge.max-attempts", "1"]
    words = ["tests.unit.benchmarks.models.test_strata:counts_three", "--world", world, "--episodes", "3"]
    start = ["evaluate", *words, "--no-references", "--out", str(tmp_path / "board")]
    judge.answer = lambda messages: "<answer>0.75</answer>"
    judge.script.append(status(500))
    assert main([*start, *asked]) == 1
    board = Board(tmp_path / "board")
    assert sorted(line["judged"].get("graded", 0.0) for line in board.lines()) == [0.0, 0.75, 0.75]
    num_asked = len(judge.requests)
    judge.answer = lambda messages: "<answer>1.0</answer>"
    assert rescore(board, *asked) == 0
    assert len(judge.requests) == num_asked + 1
    assert sorted(line["judged"]["graded"] for line in board.lines()) == [0.75, 0.75, 1.0]
