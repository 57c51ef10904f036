"""Boards read leniently unless they are asked to read strictly: both rates are shown, and the reading is recorded."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agents.agent import Response
from agents.oracle import OracleAgent
from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.board.board_spec import Suite, WorldSpec
from benchmarks.models.board.verification import verify
from benchmarks.models.measures.measures import rows
from tests.unit.benchmarks.models.playing import ALONE, LAKE, contestant, lines_of, play

HERE = "tests.unit.benchmarks.models.test_reading"
READINGS = ("strict", "lenient")


class Friendly(OracleAgent):
    """An oracle whose responses are not in the format."""

    def respond(self, rows, observations):
        return [replace(each, text=f"Sure!\n{each.text}\nBye.") for each in super().respond(rows, observations)]


def friendly():
    return Friendly()


class Wrong:
    """An agent that gives one response that is never right."""

    policy_version = -1

    def __init__(self, text):
        self.text = text

    def start(self, worlds):
        pass

    def respond(self, rows, observations):
        return [Response(text=self.text) for _ in rows]


def run(out, *words):
    return main(["run", "--agent", f"{HERE}:friendly", "--episodes", "3", ALONE, "--out", str(out), *words])


def world(reading, text=LAKE):
    return WorldSpec.parse(text, reading=reading)


@pytest.mark.parametrize(
    ("words", "success"), [([], 1.0), (["--reading", "lenient"], 1.0), (["--reading", "strict"], 0)]
)
def test_boards_read_leniently_by_default_and_show_both_rates(words, success, tmp_path, capsys):
    assert run(tmp_path / "board", "--world", LAKE, *words) == 0
    board = Board(tmp_path / "board")
    [row] = rows(board.lines(), board.record["worlds"])
    assert (row.success, row.invalid_rate) == (success, 1.0)
    reading = words[-1] if words else "lenient"
    assert board.record["reading"] == board.record["worlds"][0]["reading"] == reading
    out = capsys.readouterr().out
    assert "out of format" in out and "100%" in out
    assert f"{reading} reading" in (tmp_path / "board" / "index.html").read_text()


def test_evaluate_reads_leniently_by_default_too(tmp_path):
    words = ["--world", LAKE, "--episodes", "2", "--no-references"]
    for reading, success in (("lenient", True), ("strict", False)):
        out = tmp_path / reading
        chosen = [] if reading == "lenient" else ["--reading", reading]
        assert main(["evaluate", f"{HERE}:friendly", *words, *chosen, "--out", str(out)]) == 0
        assert {line["success"] for line in lines_of(out)} == {success}


def test_one_world_of_a_board_may_read_otherwise(tmp_path):
    assert run(tmp_path / "board", "--world", LAKE, "--world", f"{LAKE}:reading=strict") == 0
    board = Board(tmp_path / "board")
    assert {row.world: row.success for row in rows(board.lines(), board.record["worlds"])} == {
        LAKE: 1.0,
        f"{LAKE}:reading=strict": 0.0,
    }
    assert [each["reading"] for each in board.record["worlds"]] == ["lenient", "strict"]
    assert all(row.is_verified for row in verify(board))


def test_a_board_with_another_reading_is_not_continued(tmp_path, capsys):
    assert run(tmp_path / "board", "--world", LAKE, "--reading", "strict") == 0
    assert run(tmp_path / "board", "--world", LAKE) == 2
    assert "--reading strict" in capsys.readouterr().err
    assert run(tmp_path / "board", "--world", LAKE, "--reading", "strict", "--episodes", "4") == 0


def as_of_before(out):
    """Takes out of a board what boards did not say before there was a reading."""
    record = json.loads((out / "board.json").read_text())
    del record["reading"]
    for each in record["worlds"]:
        del each["reading"]
    (out / "board.json").write_text(json.dumps(record))


def test_a_board_of_before_is_strict_replays_and_can_be_continued(tmp_path, capsys):
    out = tmp_path / "board"
    assert run(out, "--world", LAKE, "--reading", "strict") == 0
    as_of_before(out)
    assert not any("reading" in line for line in lines_of(out))
    assert main(["replay", str(out)]) == 0
    assert main(["page", str(out)]) == 0
    assert "strict reading" in (out / "index.html").read_text()
    assert run(out, "--world", LAKE) == 2
    assert run(out, "--world", LAKE, "--reading", "strict", "--episodes", "5") == 0
    assert len(lines_of(out)) == 5


def test_a_lenient_board_replays_and_a_changed_reading_is_found(tmp_path):
    out = tmp_path / "board"
    play(out, [contestant(Friendly())], worlds=[world("lenient")], episodes=2)
    assert all(row.is_verified for row in verify(Board(out)))
    record = json.loads((out / "board.json").read_text())
    as_of_before(out)
    assert not any(row.is_verified for row in verify(Board(out)))
    (out / "board.json").write_text(json.dumps(record))
    lines = [{name: value for name, value in line.items() if name != "reading"} for line in lines_of(out)]
    (out / "episodes.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert not any(row.is_verified for row in verify(Board(out)))


def test_strictly_read_worlds_and_suites_keep_their_hashes():
    strict, lenient = (world(reading) for reading in READINGS)
    assert strict.digest != lenient.digest and strict.level_digest == lenient.level_digest
    assert strict.digest == world("lenient", f"{LAKE}:reading=strict").digest
    assert lenient.digest == world("strict", f"{LAKE}:reading=lenient").digest
    suite = Suite(name="lake", version=1, worlds=(LAKE,), episodes=2, summary="a lake")
    assert suite.digest(suite.specs()) == suite.digest(suite.specs(reading="lenient"))


@pytest.mark.parametrize(
    ("reading", "text", "kind"),
    [
        ("strict", "Sure! <answer>Up</answer>", "out of format"),
        ("lenient", "Sure! <answer>fly</answer>", "out of format"),
        ("lenient", "Sure! <answer>Up</answer>", None),
    ],
)
def test_a_format_that_cost_no_action_is_no_mistake(reading, text, kind, tmp_path):
    play(tmp_path, [contestant(Wrong(text))], worlds=[world(reading)], episodes=3)
    [row] = rows(Board(tmp_path).lines())
    assert row.invalid_rate == 1.0
    assert set(row.mistakes) == {kind} if kind else "out of format" not in row.mistakes


@pytest.mark.parametrize(
    ("prompt_format", "is_unstated"), [("grounding_worldmodeling", True), ("grounding", True), ("free_think", False)]
)
def test_failures_of_answers_alone_are_not_stated_where_the_format_has_an_observation(
    prompt_format, is_unstated, tmp_path
):
    played = world("lenient", f"{LAKE}:prompt_format={prompt_format}")
    play(tmp_path, [contestant(Wrong("<answer>Up, Left</answer>"))], worlds=[played], episodes=3)
    board = Board(tmp_path)
    [row] = rows(board.lines())
    assert set(row.mistakes) == {"not stated"} if is_unstated else "not stated" not in row.mistakes
    assert all(result.is_verified for result in verify(board))


def test_mistakes_of_earlier_boards_stay_as_they_are(tmp_path):
    play(tmp_path, [contestant(Wrong("<answer>Up, Left</answer>"))], worlds=[world("lenient")], episodes=2)
    earlier = lines_of(tmp_path)
    assert all(line.pop("expects_observation") for line in earlier)
    [row] = rows(earlier)
    assert row.mistakes and "not stated" not in row.mistakes
