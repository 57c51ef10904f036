"""Merged boards: nothing is lost, what does not compare is refused, and the result replays."""

from __future__ import annotations

import json
import shutil

import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install '.[records]'")

from agents.oracle import OracleAgent, RandomAgent
from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.board.board_spec import WorldSpec, digest_of
from tests.unit.benchmarks.models.playing import LAKE, SOKOBAN, Counting, Failing, contestant, lines_of, play, played

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


def test_a_partly_judged_board_merges_with_its_copy_and_the_fewest_missing_verdicts_count(tmp_path):
    one = made(tmp_path / "one", oracle())
    judged = {"judge": "somebody", "judged": {"grounding": 0.5}}
    texts = [{"of": "observation", "turn": 0}, {"of": "prediction", "turn": 0}]
    copies = []
    for number in range(3):
        copies.append(shutil.copytree(one, tmp_path / f"copy{number}"))
        board = Board(copies[-1])
        with board.writing():
            missing = {"unjudged": texts[:number]} if number else {}
            board.rewrite([line | judged | missing for line in board.lines()])
    for boards in (copies, copies[::-1], [one, *copies]):
        out = merged(tmp_path, *boards)
        assert all(line["judged"] and "unjudged" not in line for line in lines_of(out))
        shutil.rmtree(out)
    out = merged(tmp_path, one, copies[2])
    assert all(line["unjudged"] == texts for line in lines_of(out))


def rewritten(board, change, agents=None):
    """Changes the lines of a board, and its agents."""
    if agents is not None:
        (board / "board.json").write_text(json.dumps(Board(board).record | {"agents": agents}))
    opened = Board(board)
    with opened.writing():
        opened.rewrite([{**line, **change} for line in opened.lines()])
    return board


def served(label, url):
    """Returns the entry of a model as boards have it now; with an address, as they had it before."""
    identity = {"name": f"compatible:qwen@{url}" if url else "compatible:qwen", "provider": "compatible"}
    identity |= {"base_url": url} if url else {}
    return {"label": label or identity["name"], "identity": identity, "digest": digest_of(identity)}


def served_board(out, *entries, episodes=2):
    """Makes a board of a model under each of these entries, the same episodes for all."""
    play(out, [contestant(OracleAgent(), "model")], worlds=[WorldSpec.parse(SMALL)], episodes=episodes)
    lines = [
        line | {"agent": entry["label"], "agent_digest": entry["digest"], "address": "http://x/v1"}
        for entry in entries
        for line in lines_of(out)
    ]
    (out / "board.json").write_text(json.dumps(Board(out).record | {"agents": list(entries)}))
    board = Board(out)
    with board.writing():
        board.rewrite(lines)
    return out


@pytest.mark.parametrize("label", ["", "mine"])
@pytest.mark.sample(1)
def test_an_earlier_board_with_an_address_merges_with_one_without(tmp_path, label):
    earlier = served_board(tmp_path / "earlier", served(label, "http://a/v1"))
    moved = served_board(tmp_path / "moved", served(label, "http://b/v1"), episodes=3)
    new = served_board(tmp_path / "new", served(label, ""), episodes=4)
    for boards in ((earlier, moved, new), (new, earlier, moved)):
        out = merged(tmp_path, *boards)
        (entry,) = Board(out).record["agents"]
        assert entry == Board(boards[0]).record["agents"][0]
        assert len(lines_of(out)) == 4
        assert lines_of(out)[:2] == lines_of(boards[0])[:2], "lines of the first board stay as they were sealed"
        model = contestant(Counting(), served(label, "")["label"], identity=served(label, "")["identity"])
        play(out, [model], worlds=[WorldSpec.parse(SMALL)], episodes=5)
        assert model.agent.num_asked > 0 and len(lines_of(out)) == 5
        assert {line["agent"] for line in lines_of(out)} == {entry["label"]}
        assert main(["replay", str(out)]) == 0
        shutil.rmtree(out)


def test_addresses_that_a_board_keeps_apart_do_not_become_one(tmp_path, capsys):
    apart = served_board(tmp_path / "apart", served("", "http://a/v1"), served("", "http://b/v1"))
    new = served_board(tmp_path / "new", served("", ""))
    for boards in ((apart, new), (new, apart)):
        out = merged(tmp_path, *boards, code=2)
        said = capsys.readouterr().err
        assert "http://a/v1" in said and "http://b/v1" in said and said.count("\n") == 1
        assert not out.exists()


def test_where_a_model_was_served_does_not_make_episodes_differ(tmp_path):
    one = served_board(tmp_path / "one", served("", ""))
    two = rewritten(shutil.copytree(one, tmp_path / "two"), {"address": "http://y/v1"})
    assert lines_of(merged(tmp_path, one, two)) == lines_of(one)


def test_every_two_boards_are_compared(two, tmp_path, capsys):
    others = [
        made(tmp_path / name, contestant(RandomAgent(), "model 9", identity={"name": name})) for name in ("x", "y")
    ]
    merged(tmp_path, two[0], *others, code=2)
    assert "model 9 is a different agent" in capsys.readouterr().err


@pytest.mark.parametrize("changes", [{"reading": "lenient"}, {"split": "val"}])
def test_boards_that_do_not_compare_are_refused(two, changes, tmp_path, capsys):
    other = made(tmp_path / "other", chance("model 3"), **changes)
    merged(tmp_path, two[0], other, code=2)
    told = capsys.readouterr().err
    assert next(iter(changes)) in told and told.count("\n") == 1


def test_another_agent_or_world_of_the_same_name_is_refused(two, tmp_path, capsys):
    other = made(tmp_path / "other", contestant(RandomAgent(), "model 1", identity={"name": "somebody else"}))
    merged(tmp_path, two[0], other, code=2)
    assert "model 1 is a different agent" in capsys.readouterr().err
    shutil.copytree(two[0], tmp_path / "changed")
    record = json.loads((tmp_path / "changed" / "board.json").read_text())
    record["worlds"][0]["digest"] = "0" * 16
    (tmp_path / "changed" / "board.json").write_text(json.dumps(record))
    merged(tmp_path, two[0], tmp_path / "changed", code=2)
    assert f"{SMALL} is a different world" in capsys.readouterr().err


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
