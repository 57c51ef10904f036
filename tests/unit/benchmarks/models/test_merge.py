"""Merged boards: nothing is lost, what does not compare is refused, and the result replays."""

from __future__ import annotations

import json
import shutil

import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install '.[records]'")

from agents.oracle import OracleAgent, RandomAgent
from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.board.spec import WorldSpec
from tests.unit.benchmarks.models.playing import LAKE, SOKOBAN, Failing, contestant, lines_of, play, played

SMALL = f"{LAKE}:max_turns=2"


def made(out, *agents, worlds=(SMALL,), **changes):
    play(out, agents, worlds=[WorldSpec.parse(each, **changes) for each in worlds], episodes=2)
    return out


def oracle(label="oracle"):
    return contestant(OracleAgent(), label)


def chance(label="random"):
    return contestant(RandomAgent(), label)


def flaky(fails, label="flaky"):
    return contestant(Failing(fails), label, num_parallel=1)


def merged(tmp_path, *boards, code=0):
    assert main(["merge", *map(str, boards), "--out", str(tmp_path / "merged")]) == code
    return tmp_path / "merged"


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Boards of two nodes: a reference on both, a model and a world of their own on each."""
    folder = tmp_path_factory.mktemp("boards")
    one = made(folder / "one", oracle(), chance("model 1"))
    return one, made(folder / "two", oracle(), chance("model 2"), worlds=(SMALL, SOKOBAN))


def test_everything_is_kept_once_and_replays(two, tmp_path, capsys):
    out = merged(tmp_path, *two)
    assert played(out) == {**played(two[0]), **played(two[1])}
    record = Board(out).record
    assert [each["label"] for each in record["worlds"]] == [SMALL, SOKOBAN]
    assert [each["label"] for each in record["agents"]] == ["oracle", "model 1", "model 2"]
    assert "model 2" in capsys.readouterr().out and (out / "index.html").is_file()
    assert main(["replay", str(out)]) == 0


def test_it_is_resumed_like_any_other(two, tmp_path):
    out = merged(tmp_path, *two)
    made(out, chance("model 1"), worlds=(SOKOBAN,))
    assert len(played(out)) == len(played(two[0]) | played(two[1])) + 2
    assert main(["replay", str(out)]) == 0


def test_failed_tries_of_both_are_kept_before_what_was_finished(tmp_path):
    one = made(tmp_path / "one", flaky(lambda asked: True))
    two = made(tmp_path / "two", flaky(lambda asked: asked == 0))
    for boards in ((one, two), (two, one)):
        out = merged(tmp_path, *boards)
        assert len(lines_of(out)) == len(lines_of(one)) + len(lines_of(two))
        assert sum(not line["error"] for line in Board(out).episodes()) == 1
        assert main(["replay", str(out)]) == 0
        shutil.rmtree(out)


def test_an_episode_that_both_have_played_differently_is_refused(tmp_path, capsys):
    one = made(tmp_path / "one", oracle("model"))
    two = made(tmp_path / "two", contestant(RandomAgent(), "model"))
    out = merged(tmp_path, one, two, code=2)
    told = capsys.readouterr().err
    assert "model" in told and "as=NAME" in told and told.count("\n") == 1
    assert not out.exists()


def test_of_references_the_first_boards_episode_counts(tmp_path, capsys):
    """`random` draws from one stream, so it plays a level differently on every board."""
    boards = [
        made(tmp_path / name, contestant(RandomAgent(seed=seed), "random"), oracle(f"model {name}"))
        for seed, name in enumerate(("one", "two"))
    ]
    for first, second in (boards, boards[::-1]):
        out = merged(tmp_path, first, second)
        assert played(out) == {**played(second), **played(first)}
        assert "kept once" in capsys.readouterr().out
        assert main(["replay", str(out)]) == 0
        shutil.rmtree(out)


def test_scores_of_a_judge_are_kept_whichever_board_has_them(tmp_path):
    one = made(tmp_path / "one", oracle())
    two = shutil.copytree(one, tmp_path / "two")
    board = Board(two)
    with board.writing():
        board.rewrite([{**line, "judge": "somebody", "judged": {"grounding": 0.5}} for line in board.lines()])
    for boards in ((one, two), (two, one)):
        out = merged(tmp_path, *boards)
        assert all(line["judged"] == {"grounding": 0.5} for line in lines_of(out))
        shutil.rmtree(out)


@pytest.mark.parametrize("changes", [{"reading": "lenient"}, {"split": "val"}])
def test_boards_that_do_not_compare_are_refused(two, changes, tmp_path, capsys):
    other = made(tmp_path / "other", chance("model 3"), **changes)
    merged(tmp_path, two[0], other, code=2)
    told = capsys.readouterr().err
    assert next(iter(changes)) in told and told.count("\n") == 1


def test_another_agent_or_world_of_the_same_name_is_refused(two, tmp_path, capsys):
    other = made(tmp_path / "other", contestant(RandomAgent(), "model 1", identity={"name": "somebody else"}))
    merged(tmp_path, two[0], other, code=2)
    assert "agent called model 1" in capsys.readouterr().err
    shutil.copytree(two[0], tmp_path / "changed")
    record = json.loads((tmp_path / "changed" / "board.json").read_text())
    record["worlds"][0]["digest"] = "0" * 16
    (tmp_path / "changed" / "board.json").write_text(json.dumps(record))
    merged(tmp_path, two[0], tmp_path / "changed", code=2)
    assert f"world called {SMALL}" in capsys.readouterr().err


@pytest.mark.parametrize("change", ["edited", "removed", "image"])
def test_a_board_that_was_changed_is_refused(two, change, tmp_path, capsys):
    copy = shutil.copytree(two[1], tmp_path / "copy")
    lines = lines_of(copy)
    if change == "edited":
        lines[0]["success"] = not lines[0]["success"]
    elif change == "removed":
        del lines[0]
    else:
        next((copy / "images").glob("*/*.png")).write_bytes(b"another")
    (copy / "episodes.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    merged(tmp_path, two[0], copy, code=2)
    told = capsys.readouterr().err
    assert str(copy) in told and told.count("\n") == 1


@pytest.mark.parametrize("given", [("one",), ("one", "one"), ("one", "nowhere"), ()])
def test_what_is_no_two_boards_is_refused(two, given, tmp_path, capsys):
    boards = [str(two[0]) if name == "one" else str(tmp_path / name) for name in given]
    merged(tmp_path, *boards, code=2)
    assert "Traceback" not in capsys.readouterr().err


def test_the_new_board_takes_nobodys_place(two, tmp_path, capsys):
    for out in (two[0], made(tmp_path / "there", oracle())):
        before = lines_of(out)
        assert main(["merge", *map(str, two), "--out", str(out)]) == 2
        assert lines_of(out) == before
        assert capsys.readouterr().err.count("\n") == 1
