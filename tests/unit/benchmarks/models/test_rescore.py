"""A board is judged anew: its scores change, nothing else does, and nobody is asked again."""

import json
import signal
import sys
import types

import pytest

from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.board.verification import verified_rows
from benchmarks.models.play.contestants import contestants
from benchmarks.models.play.playing import BoardRun, RunPlan
from judges.scores import JudgeScore

LABEL = "VLM/FrozenLake-v0:max_turns=2,size=3"
WORLD = "VLM/FrozenLake-v0:size=3,max_turns=2"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A board of the oracle and the random agent, and of an episode that an error ended."""
    out = tmp_path_factory.mktemp("boards") / "made"
    agents = contestants(["oracle", "random"], references=False)
    BoardRun(RunPlan(worlds=[WorldSpec.parse(WORLD)], episodes=4), agents, out).run()
    board = Board(out)
    with board.writing():
        line = board.lines()[0]
        failed = [*line["turns"][:-1], {**line["turns"][-1], "terminated": False, "agent_error": "429"}]
        board.rewrite([*board.lines(), {**line, "seed": 7, "error": "429", "turns": failed}])
    return {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}


@pytest.fixture
def board(made, tmp_path):
    for name, content in made.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return Board(tmp_path)


@pytest.fixture
def own_judge(monkeypatch):
    """A module with a judge of one's own, that gives every text the same score."""
    module = types.ModuleType("own_judges")

    class Generous:
        def score(self, text, state):
            return JudgeScore(value=0.75)

    module.generous = lambda env_id, representation: Generous()
    monkeypatch.setitem(sys.modules, "own_judges", module)
    return "own_judges:generous"


def without_scores(line):
    """Returns a line without anything that judges, or hashes of it, say."""
    plain = {
        name: each for name, each in line.items() if name not in ("judged", "judge", "digest", "turn_digests", "after")
    }
    return plain | {"turns": [{**turn, "scores": {}} for turn in line["turns"]]}


def rescore(board, *words):
    return main(["rescore", str(board.directory), *words])


def test_the_exact_judge_is_there_without_being_named(board, capsys):
    assert rescore(board) == 0
    told = {line["agent"]: line for line in board.lines() if not line["error"]}
    assert told["oracle"]["judged"] == {"grounding": 1.0, "worldmodeling": 1.0, "consistency": 1.0}
    assert told["random"]["judged"]["grounding"] == 0.0
    assert {turn["scores"]["observation"] for turn in told["oracle"]["turns"]} == {1.0}
    printed = capsys.readouterr().out
    assert "grounding" in printed and "8 episodes have other scores" in printed


def test_only_scores_change(board, made):
    before, images = board.lines(), {name for name in made if name.suffix == ".png"}
    rescore(board)
    assert list(map(without_scores, board.lines())) == list(map(without_scores, before))
    for name in images | {name for name in made if name.name == "board.json"}:
        assert (board.directory / name).read_bytes() == made[name]


def test_a_judge_of_ones_own_takes_the_place_of_the_one_before(board, own_judge):
    rescore(board)
    exact = (board.directory / "episodes.jsonl").read_bytes()
    rescore(board, "--judge", own_judge)
    lines = [line for line in board.lines() if not line["error"]]
    assert {turn["scores"]["prediction"] for line in lines for turn in line["turns"]} == {0.75}
    assert {line["judge"] for line in lines} == {own_judge}
    rescore(board)
    assert (board.directory / "episodes.jsonl").read_bytes() == exact


def test_a_verified_row_stays_verified(board, own_judge):
    assert main(["replay", str(board.directory)]) == 0
    rows = {("oracle", LABEL), ("random", LABEL)}
    assert verified_rows(board, board.episodes()) == rows
    rescore(board, "--judge", own_judge)
    assert verified_rows(board, board.episodes()) == rows
    assert main(["replay", str(board.directory)]) == 0


def test_nobody_is_asked_for_a_response(board, monkeypatch):
    monkeypatch.setattr("agents.registry.make_agent", lambda *args, **kwargs: pytest.fail("an agent was made"))
    assert rescore(board) == 0


def test_an_episode_that_goes_another_way_is_refused_and_nothing_changes(board, capsys):
    lines = board.lines()
    changed = lines[1]
    changed["turns"][0]["reward"] += 1.0
    board.rewrite(lines)
    before = (board.directory / "episodes.jsonl").read_bytes()
    assert rescore(board) == 2
    assert f"seed {changed['seed']}, repeat 0 does not replay as recorded" in capsys.readouterr().err
    assert (board.directory / "episodes.jsonl").read_bytes() == before


def test_a_line_that_was_taken_away_is_not_covered_up(board, capsys):
    path = board.directory / "episodes.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[1:]))
    assert rescore(board) == 2
    assert "does not follow the line before it: one was removed or changed" in capsys.readouterr().err
    assert path.read_bytes() == b"".join(lines[1:])


def test_a_line_that_somebody_has_changed_does_not_pass_for_genuine_afterwards(board, capsys):
    path = board.directory / "episodes.jsonl"
    changed = path.read_bytes().replace(b'"total_reward":', b'"total_reward":1', 1)
    path.write_bytes(changed)
    assert rescore(board) == 2
    assert "is not as it was written, so nothing was changed" in capsys.readouterr().err
    assert path.read_bytes() == changed


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_interrupted_the_board_stays_as_it_was(board, monkeypatch, stop):
    before = {path: path.read_bytes() for path in board.directory.rglob("*") if path.is_file()}

    def stopped(*args):
        raise stop

    monkeypatch.setattr("benchmarks.models.cli.rescore_command.judge_episodes", stopped)
    try:
        code = rescore(board)
    except MemoryError:
        code = None
    assert code in (128 + signal.SIGINT, None)
    assert {path: path.read_bytes() for path in board.directory.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--judge", "compatible:judge@http://127.0.0.1:9/v1"],
            "--judge direct --judge-endpoint.model judge --judge-endpoint.base-url http://127.0.0.1:9/v1",
        ),
        (["--judge", "openai:gpt-4.1"], "--judge-endpoint.model gpt-4.1"),
        (["--judge.model", "judge"], "--judge-endpoint.model VALUE"),
        (["--judge.base-url", "URL"], "--judge-endpoint.base-url VALUE"),
        (["--judge", "exakt"], "Did you mean 'exact'?"),
        (["--judge", "direct"], "--judge-endpoint needs both --judge-endpoint.model and --judge-endpoint.base-url"),
        (["--judge", "no_such_module:judge"], "cannot import 'no_such_module'"),
        (["--judge", "own_judges:stingy"], "'stingy'"),
    ],
)
def test_a_judge_that_is_none(board, own_judge, words, told, capsys):
    before = (board.directory / "episodes.jsonl").read_bytes()
    assert rescore(board, *words) == 2
    assert told in capsys.readouterr().err
    assert (board.directory / "episodes.jsonl").read_bytes() == before


def test_without_a_board_the_remedy_is_said(tmp_path, capsys):
    assert main(["rescore", str(tmp_path / "nothing")]) == 2
    assert "python -m benchmarks run" in capsys.readouterr().err


def test_what_is_written_is_json_that_others_can_read(board):
    rescore(board)
    for line in (board.directory / "episodes.jsonl").read_text("ascii").splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(name))
