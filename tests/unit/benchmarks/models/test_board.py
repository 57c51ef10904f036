"""A board keeps every line whole, has one writer, and measures one thing under one name."""

import errno
import functools
import json
import operator
import os
import shutil
from pathlib import Path

import pytest

from agents.oracle import OracleAgent
from agents.rollout import rollout
from benchmarks.models.board.board import Board, EpisodeKey, UnwritableBoardError, broken_seal, sealed
from tests.unit.benchmarks.models.playing import LAKE
from vlm_envs.errors import ConfigError
from vlm_envs.records.folder_lock import BusyFolderError
from vlm_envs.records.json_lines import BrokenRunDataError, MissingRunDataError
from vlm_envs.vector.make_vec import world_vector

DEFINITION = {
    "suite": {"name": "lite", "version": 1, "digest": "s"},
    "split": "test",
    "worlds": [{"label": LAKE, "digest": "w", "env_id": LAKE, "kwargs": {}, "split": "test"}],
    "agents": [{"label": "oracle", "digest": "a"}],
    "versions": {},
}


UNKNOWN_WORLD = json.dumps({"format": 1, "worlds": [{"label": LAKE, "digest": "w"}], "agents": []})


@pytest.fixture(scope="module")
def episode():
    with world_vector(LAKE, 1) as worlds:
        return rollout(OracleAgent(), worlds, [3], env_ids=[LAKE])[0]


@pytest.fixture
def board(tmp_path):
    with Board.open(tmp_path / "board", DEFINITION) as opened:
        yield opened


def add(board, episode, seed):
    return board.add(EpisodeKey("w", "a", seed), agent="oracle", world=LAKE, episode=episode)


def test_what_was_added_is_there_in_order_and_sealed(board, episode):
    for seed in (3, 4):
        add(board, episode, seed)
    read = Board(board.directory).episodes()
    assert [each["seed"] for each in read] == [3, 4]
    assert [broken_seal(each) for each in read] == [None, None]


def test_of_an_episode_that_was_tried_again_the_last_try_counts(board, episode):
    board.add(EpisodeKey("w", "a", 3), agent="oracle", world=LAKE, episode=None, error="HTTP 500")
    add(board, episode, 3)
    (only,) = board.episodes()
    assert not only["error"]
    assert len(board.lines()) == 2


def test_half_a_line_of_a_kill_is_taken_away_before_anything_is_added(board, episode):
    add(board, episode, 3)
    board.close()
    with (board.directory / "episodes.jsonl").open("ab") as file:
        file.write(b'{"world":"VLM/Fro')
    with Board.open(board.directory, DEFINITION) as again:
        add(again, episode, 4)
        assert [each["seed"] for each in again.episodes()] == [3, 4]


def test_half_a_picture_of_a_kill_is_taken_away_and_drawn_anew(board, episode):
    line = add(board, episode, 3)
    board.close()
    name = line["turns"][0]["images"][0]
    path = board.directory / "images" / name[:2] / f"{name}.png"
    whole = path.read_bytes()
    path.write_bytes(whole[:40])  # A power cut may leave that under the final name
    left = path.with_name(f".{name}.png.1.2.tmp")
    left.write_bytes(whole[:40])
    with Board.open(board.directory, DEFINITION) as again:
        assert not left.exists()
        add(again, episode, 3)
        assert path.read_bytes() == whole


def test_every_line_and_picture_is_on_the_disk_when_it_was_added(board, episode, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda number: (synced.append(os.readlink(f"/proc/self/fd/{number}")), fsync(number))
    )
    line = add(board, episode, 3)
    pictures = {name for turn in line["turns"] for name in turn["images"]} | set(line["final"]["images"])
    assert synced[-1].endswith("episodes.jsonl")
    assert len(synced) == len(pictures) + 1


def test_a_line_that_does_not_fit_leaves_no_half_and_the_next_one_fits(board, episode, monkeypatch):
    add(board, episode, 3)
    before = (board.directory / "episodes.jsonl").read_bytes()
    with monkeypatch.context() as full:
        full.setattr(Path, "open", _full_after(100, Path.open))
        with pytest.raises(
            UnwritableBoardError, match=r"No space left on device\. .*free some space.*the same command"
        ):
            add(board, episode, 4)
    assert (board.directory / "episodes.jsonl").read_bytes() == before
    add(board, episode, 4)
    assert [each["seed"] for each in board.episodes()] == [3, 4]


def _full_after(num_bytes, really_open):
    """Returns an `open` whose unbuffered files take so many bytes, and then find the disk full."""

    class Full:
        def __init__(self, file):
            self._file, self._left = file, num_bytes

        def __getattr__(self, name):
            return getattr(self._file, name)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self._file.close()

        def write(self, content):
            if not self._left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            taken, self._left = self._file.write(content[: self._left]), 0
            return taken

    def opened(path, mode="r", buffering=-1, **settings):
        file = really_open(path, mode, buffering, **settings)
        return Full(file) if buffering == 0 else file

    return opened


def test_two_writers_are_refused_in_one_line_and_the_first_is_not_disturbed(board, episode):
    with pytest.raises(BusyFolderError) as refused:
        Board.open(board.directory, DEFINITION)
    assert f"process {os.getpid()}" in str(refused.value)
    assert "\n" not in str(refused.value)
    add(board, episode, 3)
    board.close()
    Board.open(board.directory, DEFINITION).close()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"suite": {"name": "lite", "version": 2, "digest": "t"}},
            "made with suite lite version 1 .* not lite version 2",
        ),
        ({"suite": None}, r"made with suite lite version 1 .*, not none"),
        ({"split": "val"}, "made with split 'test', not 'val'"),
        ({"worlds": [{"label": LAKE, "digest": "x"}]}, f"has another {LAKE} .hash w, now x.: it has changed since"),
        ({"agents": [{"label": "oracle", "digest": "x"}]}, "has another oracle .hash a, now x.: it has changed since"),
    ],
)
def test_a_board_of_something_else_is_refused_and_left_alone(changed, told, board):
    board.close()
    before = (board.directory / "board.json").read_bytes()
    with pytest.raises(ConfigError, match=f"{told}.*Name another folder with --out") as refused:
        Board.open(board.directory, {**DEFINITION, **changed})
    assert "\n" not in str(refused.value)
    assert (board.directory / "board.json").read_bytes() == before
    Board.open(board.directory, DEFINITION).close()


def test_worlds_and_agents_are_added(board):
    board.close()
    more = [{"label": "random", "digest": "r"}]
    with Board.open(board.directory, {**DEFINITION, "agents": more}) as again:
        assert [each["label"] for each in again.record["agents"]] == ["oracle", "random"]
    assert Board(board.directory).record == again.record


@pytest.mark.parametrize("kind", ["worlds", "agents"])
def test_a_second_name_for_what_is_there_is_refused_and_the_board_left_alone(kind, board):
    board.close()
    before = (board.directory / "board.json").read_bytes()
    (known,) = DEFINITION[kind]
    again = {**known, "label": "another name"}
    with pytest.raises(ConfigError, match=f"another name is the same as {known['label']}. Leave one of them out"):
        Board.open(board.directory, {**DEFINITION, kind: [again]})
    assert (board.directory / "board.json").read_bytes() == before


def test_folders_of_somebody_else_are_left_alone(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="is a file"):
        Board.open(tmp_path / "file", DEFINITION)
    with pytest.raises(ConfigError, match=r"not a board, but contains file\b"):
        Board.open(tmp_path, DEFINITION)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_cannot_be_written_to_is_told_with_the_remedy(tmp_path):
    with pytest.raises(UnwritableBoardError, match=r"Cannot write to /proc/none: .*permissions"):
        Board.open(Path("/proc/none"), DEFINITION)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"seed":3', "line 2: .*Remove or repair it"),
        (b"{}", "line 2 .*: world is missing; without this and all later lines"),
        (b"[" * 1500, "Expected a JSON object in .*line 2"),
        (b"[1]", "Expected a JSON object in .*line 2"),
        (b"\xff", "line 2"),
    ],
)
def test_a_broken_line_in_the_middle_is_named_and_nothing_is_lost(line, told, board, episode):
    add(board, episode, 3)
    path = board.directory / "episodes.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + line + b"\n" + whole)
    before = path.read_bytes()
    with pytest.raises(BrokenRunDataError, match=told) as refused:
        board.episodes()
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (("turns",), [1], r"turns\[0\] is 1"),
        (("turns",), [{}], r"turns\[0\].text is missing"),
        (("turns", 0, "usage", "usd"), "1", r"turns\[0\].usage.usd is '1'"),
        (("turns", 0, "response"), None, r"turns\[0\].response is None"),
        (("final",), {"texu": "", "images": []}, "final.text is missing"),
        (("final", "images"), [3], r"final.images\[0\] is 3"),
        (("usd",), "1", "usd is '1'"),
        (("wall_s",), [], r"wall_s is \[\]"),
        (("tokens",), "1", "tokens is '1'"),
        (("expects_observation",), None, "expects_observation is None"),
    ],
)
@pytest.mark.parametrize("error", ["", "HTTP 500"])
def test_what_a_line_holds_is_looked_at_before_it_is_used(error, place, value, told, board, episode):
    line = add(board, episode, 3) | {"error": error}
    *inside, last = place
    functools.reduce(operator.getitem, inside, line)[last] = value
    (board.directory / "episodes.jsonl").write_text(f"{json.dumps(line)}\n")
    with pytest.raises(BrokenRunDataError, match=f"line 1 .*: {told}"):
        board.lines()


@pytest.mark.parametrize(
    "record", ["{", "[]", '{"format": 1}', '{"format": 1, "worlds": [7], "agents": []}', UNKNOWN_WORLD]
)
def test_a_broken_definition_is_told(record, board):
    (board.directory / "board.json").write_text(record)
    with pytest.raises(BrokenRunDataError, match=r"board\.json"):
        Board(board.directory)


def test_a_board_of_another_format_or_none_at_all_is_told(board, tmp_path):
    (board.directory / "board.json").write_text(json.dumps({"format": 0}))
    with pytest.raises(ConfigError, match=r"format 0\b.*\b1\b"):
        Board(board.directory)
    with pytest.raises(MissingRunDataError, match="Make one: python -m benchmarks run"):
        Board(tmp_path / "nowhere")


def test_a_rewritten_board_is_sealed_anew(board, episode):
    line = add(board, episode, 3)
    board.close()
    with board.writing():
        board.rewrite([{**line, "judged": {"grounding": 1.0}}])
    (only,) = board.episodes()
    assert only["judged"] == {"grounding": 1.0}
    assert broken_seal(only) is None


def test_nobody_rewrites_a_board_that_is_played(board):
    other = Board(board.directory)
    with pytest.raises(BusyFolderError), other.writing():
        pass


def test_a_seal_says_where_a_line_was_changed(board, episode):
    line = add(board, episode, 3)
    assert broken_seal(json.loads(json.dumps(line))) is None
    line["turns"][1]["usage"] = {"usd": 0.0}
    assert broken_seal(line) == 2
    assert broken_seal(sealed(line)) is None
    line["repeat"] = 7
    assert broken_seal(line) == 0


def test_a_copied_board_is_a_board(board, episode, tmp_path):
    add(board, episode, 3)
    copy = Path(shutil.copytree(board.directory, tmp_path / "elsewhere"))
    assert Board(copy).episodes() == board.episodes()
    with Board.open(copy, DEFINITION) as opened:
        add(opened, episode, 4)
