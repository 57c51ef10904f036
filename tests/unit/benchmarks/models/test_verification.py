"""`replay` marks rows that are the same to the bit, finds every byte that is not, and a mark goes with its episodes."""

from __future__ import annotations

import copy
import json
import shutil

import pytest

from agents.oracle import OracleAgent, RandomAgent
from benchmarks.__main__ import main
from benchmarks.models.board.board import Board, sealed
from benchmarks.models.board.verification import mark, verified_rows, verify
from tests.unit.benchmarks.models.playing import LAKE, Failing, contestant, lines_of, play
from vlm_envs.records.json_lines import BrokenRunDataError

WORLD = f"{LAKE}:max_turns=2"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A board of two agents on two levels, and of an episode that a failure ended."""
    from benchmarks.models.board.board_spec import WorldSpec

    out = tmp_path_factory.mktemp("boards") / "made"
    agents = [contestant(OracleAgent(), "oracle"), contestant(RandomAgent(), "random")]
    agents.append(contestant(Failing(lambda asked: asked == 0), "failing"))
    play(out, agents, worlds=[WorldSpec.parse(WORLD)], episodes=2)
    return out


@pytest.fixture
def board(made, tmp_path):
    return Board(shutil.copytree(made, tmp_path / "elsewhere"))


def rewritten(board, change):
    """Writes a board's lines anew, one of them changed, as an editor would; returns that."""
    lines = lines_of(board.directory)
    changed = next(line for line in lines if not line["error"])
    change(changed)
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (board.directory / "episodes.jsonl").write_text(text)
    return changed


def rows_of(board):
    return verified_rows(board, board.episodes())


def test_a_copied_board_is_verified_and_says_so(board, capsys):
    assert rows_of(board) == set()
    assert main(["replay", str(board.directory)]) == 0
    told = capsys.readouterr().out
    assert f"oracle in {WORLD}: 2 episodes are the same to the bit; verified" in told
    assert f"failing in {WORLD}: 1 episode is the same" in told
    assert rows_of(board) == {(agent, WORLD) for agent in ("oracle", "random", "failing")}


def test_the_table_shows_the_mark_until_an_episode_is_added(tmp_path, capsys):
    words = ["run", "--world", LAKE, "--agent", "random", "--no-references", "--out", str(tmp_path)]
    assert main([*words, "--episodes", "2"]) == 0
    assert "verified" not in capsys.readouterr().out
    assert main(["replay", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main([*words, "--episodes", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("yes")
    assert main([*words, "--episodes", "3"]) == 0
    assert not capsys.readouterr().out.splitlines()[1].endswith("yes")


def test_a_mark_is_of_the_row_that_was_verified_only(board):
    mark(board, verify(board))
    changed = rewritten(board, lambda line: line["turns"][0].update(usage={"usd": 1.0}))
    assert rows_of(board) == {(name, WORLD) for name in ("oracle", "random", "failing")} - {(changed["agent"], WORLD)}


def test_judges_may_change_their_minds_of_what_is_verified(board):
    mark(board, verify(board))
    before = rows_of(board)
    with board.writing():
        judged = [{**line, "judged": {"observation": 1.0}, "judge": "exact"} for line in board.lines()]
        board.rewrite(judged)
    assert rows_of(board) == before
    assert all(row.is_verified for row in verify(board))


@pytest.mark.parametrize("marks", ['{"rows": [3]}', '{"rows": 3}', "{}", '{"rows": [{"agent": "oracle"}]}'])
def test_marks_that_cannot_be_read_are_told_and_written_anew(marks, board):
    (board.directory / "verified.json").write_text(marks)
    with pytest.raises(BrokenRunDataError, match=r"verified\.json cannot be read: rows.*Remove it; replay writes"):
        rows_of(board)
    assert main(["replay", str(board.directory)]) == 0
    assert rows_of(board)


def test_what_differs_is_told_though_the_page_fails(board, capsys, monkeypatch):
    def failing(directory):
        raise BrokenRunDataError("a strange file")

    rewritten(board, lambda line: line["turns"][0].update(reward=7.0))
    monkeypatch.setattr("benchmarks.models.cli.run_command.build_page", failing)
    assert main(["replay", str(board.directory)]) == 1
    said = capsys.readouterr()
    assert "DIFFERS: " in said.err
    assert "could not be written: a strange file. Later: " in said.out


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda record: record["agents"][0]["identity"].update(name="gpt-99"), "another agent than board.json"),
        (lambda record: record["worlds"][0].update(max_actions_per_turn=99), "board.json has 99"),
        (lambda record: record.update(split="train"), "split is 'test', but that of board.json is 'train'"),
        (lambda record: record.update(suite={"name": "full", "version": 1, "digest": "x"}), ""),
    ],
)
def test_what_board_json_says_of_a_row_is_part_of_its_mark(change, found, board):
    mark(board, verify(board))
    path = board.directory / "board.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    forged = Board(board.directory)
    assert ("oracle", WORLD) not in rows_of(forged)
    assert any(found in each for each in found_in(forged)) if found else not found_in(forged)


def test_pictures_are_part_of_a_mark(board):
    mark(board, verify(board))
    line = next(line for line in lines_of(board.directory) if line["agent"] == "oracle")
    name = line["turns"][0]["images"][0]
    path = board.directory / "images" / name[:2] / f"{name}.png"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"x")
    assert ("oracle", WORLD) not in rows_of(board)
    path.unlink()
    assert ("oracle", WORLD) not in rows_of(board)
    path.write_bytes(whole)
    assert ("oracle", WORLD) in rows_of(board)


def test_lost_images_are_drawn_again_if_they_are_the_same(board):
    line = next(line for line in lines_of(board.directory) if not line["error"])
    lost = line["turns"][0]["images"][0]
    path = board.directory / "images" / lost[:2] / f"{lost}.png"
    whole = path.read_bytes()
    path.unlink()
    assert not board.has_images()
    assert found_in(board) == []
    assert path.read_bytes() == whole
    assert board.has_images()


def test_an_image_that_is_another_one_now_is_lost(board):
    rewritten(board, lambda line: line["turns"][0].update(images=["0" * 64]))
    assert any("recorded was lost (the image drawn now, " in each for each in found_in(board))
    assert not (board.directory / "images" / "00" / f"{'0' * 64}.png").exists()


def test_metrics_that_were_forged_and_sealed_anew_are_found(board):
    rewritten(board, lambda line: line.update(sealed({**line, "metrics": {"score": 1.0}}, line["after"])))
    assert any("metrics is {}, recorded was {'score': 1.0}" in each for each in found_in(board))


def test_what_does_not_pass_loses_its_mark(board, capsys):
    mark(board, verify(board))
    changed = rewritten(board, lambda line: line["turns"][0].update(reward=7.0))
    assert main(["replay", str(board.directory)]) == 1
    said = capsys.readouterr()
    where = f"{changed['agent']} in {WORLD}, seed {changed['seed']}, repeat 0, turn 1: reward is "
    assert f"DIFFERS: {where}" in said.err
    assert "recorded was 7.0" in said.err
    assert f"{changed['agent']} in {WORLD}: " in said.out
    assert "NOT VERIFIED, 1 differ" in said.out
    assert (changed["agent"], WORLD) not in rows_of(board)


def leaves(value, path=()):
    """Yields the place of every scalar, and of every empty list and object."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    children = list(items)
    if not children:
        yield path
    for key, item in children:
        yield from leaves(item, (*path, key))


def other(value):
    """Returns a value that is nearly the same."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}x" if isinstance(value, str) else "something"


def alone(board, *lines):
    """Returns a board with these lines and no others."""
    (board.directory / "episodes.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return board


def found_in(board):
    return [difference for row in verify(board) for difference in row.differences]


def test_a_loss_that_was_made_an_error_is_found(board):
    changed = rewritten(board, lambda line: line.update(error="HTTP 500"))
    assert any(f"seed {changed['seed']}, repeat 0 is not as it was written" in each for each in found_in(board))
    assert not any(row.is_verified for row in verify(board) if row.agent == changed["agent"])


def test_an_end_that_was_made_an_error_and_sealed_anew_is_found(board):
    line = next(line for line in lines_of(board.directory) if not line["after"] and not line["error"])
    (told,) = found_in(alone(board, sealed({**line, "error": "HTTP 500"})))
    assert "was completed, but is marked as an error" in told


def test_a_line_that_was_taken_away_is_found(board):
    lines = lines_of(board.directory)
    first = next(line for line in lines if not line["after"] and line["agent"] == "oracle")
    (told,) = found_in(alone(board, *(line for line in lines if line != first)))
    assert told.startswith(f"oracle in {WORLD}")
    assert "a line between them was removed" in told


def test_a_loss_that_was_played_once_more_is_found(board):
    with board.writing():
        again = next(line for line in board.lines() if not line["error"])
        board.rewrite([*board.lines(), again])
    assert any("was already played" in each for each in found_in(board))


def test_every_leaf_of_a_line_that_is_changed_is_found(board):
    line = next(line for line in lines_of(board.directory) if not line["after"] and not line["error"])
    assert not [difference for row in verify(alone(board, line)) for difference in row.differences]
    places = list(leaves(line))
    assert len(places) > 80
    for place in places:
        changed = copy.deepcopy(line)
        *inside, last = place
        parent = changed
        for key in inside:
            parent = parent[key]
        parent[last] = other(parent[last])
        try:
            found = [difference for row in verify(alone(board, changed)) for difference in row.differences]
        except ValueError as error:  # What is no episode of a board any more
            found = [str(error)]
        assert found, place
        assert "\n" not in found[0]


def test_a_line_that_was_sealed_anew_after_a_forgery_is_found_by_what_the_world_does(board):
    def forge(line):
        line["turns"][-1]["reward"] += 1.0
        line["total_reward"] += 1.0
        line.update(sealed(line))

    changed = rewritten(board, forge)
    found = found_in(board)
    assert any(f"seed {changed['seed']}, repeat 0, turn 2: reward is" in each for each in found)
    assert any("does not follow the line before it" in each for each in found)


@pytest.mark.parametrize("at", [0, 30, -20])
def test_a_changed_byte_of_a_picture_is_found(at, board):
    line = next(line for line in lines_of(board.directory) if not line["error"])
    name = line["turns"][0]["images"][0]
    path = board.directory / "images" / name[:2] / f"{name}.png"
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    found = [difference for row in verify(board) for difference in row.differences]
    assert any("image 1" in each and f"seed {line['seed']}" in each for each in found)


def test_a_world_that_has_changed_is_told(board):
    board.record["worlds"][0]["digest"] = "0"
    found = [difference for row in verify(board) for difference in row.differences]
    assert all("the world has changed since (hash 0, now " in each for each in found)
    assert len(found) == 3
    board.record["worlds"] = []
    found = [difference for row in verify(board) for difference in row.differences]
    assert "the board has no such world" in found[0]


def test_a_board_that_nobody_may_write_to_is_replayed_all_the_same(board, capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.models.board.board.FolderLock", _refusing)
    assert main(["replay", str(board.directory)]) == 0
    assert "The rows are not marked. Cannot write to" in capsys.readouterr().err
    assert rows_of(board) == set()


def _refusing(directory):
    raise PermissionError(13, "Permission denied")
