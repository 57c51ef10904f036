"""Python and the command line play the same boards; in notebooks, too, and whatever a function of the user's does."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path

import pytest

pytest.importorskip("openai", reason="needs openai: pip install '.[api]'")

from agents.agent import Response
from agents.oracle import OracleAgent
from benchmarks import MeasuredBoard, evaluate
from benchmarks.__main__ import main
from tests.unit.agents.api.endpoint import FakeEndpoint
from tests.unit.benchmarks.models.playing import ALONE, LAKE, SOKOBAN, lines_of, played, without_times
from vlm_envs.errors import ConfigError
from vlm_envs.records.replay import replay
from vlm_envs.registration import make

ONE_TURN = f"{LAKE}:max_turns=1,min_solution_length=1"
TINY = Path(__file__).parents[4] / "training/recipes/checkpoints/frozenlake_tiny"
RIGHT = "<think>No.</think><answer>Right</answer>"


def right(messages):
    return RIGHT


async def right_later(messages):
    await asyncio.sleep(0.001)
    return RIGHT


def in_a_cell(function):
    """Returns what a function returns that is called where an event loop runs."""

    async def cell():
        return function()

    with ThreadPoolExecutor(1) as pool:  # a browser of another test may have a loop in this thread
        return pool.submit(asyncio.run, cell()).result()


@pytest.fixture
def no_leftovers(tmp_path, monkeypatch):
    """Temporary folders are in `tmp_path / "boards"`."""
    folder = tmp_path / "boards"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("agent", ["oracle", f"hf:{TINY}"])
def test_a_board_is_that_of_the_command(agent, tmp_path):
    if agent != "oracle":
        pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
    words = ["--world", f"{LAKE}:size=3,max_turns=2", "--world", SOKOBAN, "--episodes", "3", ALONE]
    assert main(["run", "--agent", agent, *words, "--out", str(tmp_path / "command")]) == 0
    worlds = {LAKE: {"size": 3, "max_turns": 2}, SOKOBAN: {}}
    board = in_a_cell(lambda: evaluate(agent, worlds, episodes=3, folder=tmp_path / "python"))
    one, other = ([*map(without_times, lines_of(tmp_path / name))] for name in ("command", "python"))
    assert one == other and len(one) == 6
    assert board.record == MeasuredBoard(tmp_path / "command").record
    assert board.record["reading"] == "lenient"


def test_any_kind_of_agent_plays_also_where_an_event_loop_runs(tmp_path):
    class Batch:
        policy_version = -1

        def start(self, worlds):
            pass

        def respond(self, rows, observations):
            return [Response(text=RIGHT)] * len(rows)

    class Single:
        policy_version = -1

        async def respond(self, row, observation):
            return Response(text=await right_later([]))

    with FakeEndpoint() as endpoint:
        endpoint.answer = lambda messages: RIGHT
        served = f"compatible:qwen@{endpoint.base_url},api_key_variable="
        agents = [right, right_later, Batch(), Single(), served]
        boards = [in_a_cell(partial(evaluate, agent, [LAKE, SOKOBAN], episodes=2, folder=tmp_path)) for agent in agents]
    assert [board.agent for board in boards] == ["right", "right_later", "Batch", "Single", "compatible:qwen"]
    assert {board.directory for board in boards} == {tmp_path}
    said = [[turn["response"] for turn in line["turns"]] for line in lines_of(tmp_path)]
    assert len(said) == 2 * 2 * 5 and all(turns and {*turns} == {RIGHT} for turns in said)


def test_a_board_has_its_measures_at_hand(tmp_path, no_leftovers):
    board = evaluate("oracle", [LAKE, SOKOBAN], episodes=4)
    assert board.directory.parent == no_leftovers
    assert [*board.success] == [LAKE, SOKOBAN]
    rate, low, high = board.success[SOKOBAN]
    assert (rate, high) == (1.0, 1.0) and 0.5 < low < 1.0
    assert [row.turns_over_optimal for row in board.rows] == [1.0, 1.0]
    text, html = str(board), board._repr_html_()
    for told in (LAKE, SOKOBAN, "1.000", "All 2 worlds"):
        assert told in text and told in html
    assert board.page().is_file()
    saved = board.save(tmp_path / "saved")
    assert saved.success == board.success and played(saved.directory) == played(board.directory)
    episode = saved.episodes()[-1]
    assert replay(episode, make(SOKOBAN, split="test"), saved.images.load) is None


def test_a_board_as_a_frame():
    pytest.importorskip("pandas", reason="needs pandas: pip install '.[frames]'")
    assert list(evaluate(right, LAKE, episodes=2).frame()["agent"]) == ["right", "right"]


def test_html_shows_names_as_they_are(tmp_path):
    evaluate(right, LAKE, episodes=1, folder=tmp_path, name="<b>&")
    evaluate("random", LAKE, episodes=1, folder=tmp_path)
    assert "&lt;b&gt;&amp;" in MeasuredBoard(tmp_path)._repr_html_()
    assert MeasuredBoard(tmp_path).agent == "<b>&" and MeasuredBoard(tmp_path, "random").agent == "random"
    with pytest.raises(ConfigError, match="agent must be one of"):
        MeasuredBoard(tmp_path, "randm")


def test_a_function_that_raises_loses_nothing_and_the_next_call_tries_again(tmp_path):
    calls = count()

    def fails_at_first(messages):
        if next(calls) in (1, 2, 4):
            raise ConnectionError("HTTP 503")
        return RIGHT

    for num_played in (3, 6):
        (row,) = evaluate(fails_at_first, ONE_TURN, episodes=6, folder=tmp_path, num_parallel=1).rows
        assert (row.num_episodes, row.num_errors) == (num_played, 6 - num_played)
        assert {line["error"] for line in lines_of(tmp_path)} == {"", "ConnectionError: HTTP 503"}
    assert len({line["seed"] for line in lines_of(tmp_path) if not line["error"]}) == 6


def test_a_world_without_a_finished_episode_has_no_rate(tmp_path):
    def fails(messages):
        raise ConnectionError

    (success,) = evaluate(fails, LAKE, episodes=2, folder=tmp_path).success.values()
    assert math.isnan(success.rate) and (success.low, success.high) == (0.0, 1.0)


def test_a_function_without_a_text_keeps_what_is_finished(tmp_path, no_leftovers, capsys):
    calls = count()

    def forgets(messages):
        return RIGHT if next(calls) < 3 else None

    with pytest.raises(ConfigError, match="forgets must return a text; got None"):
        evaluate(forgets, ONE_TURN, episodes=6, num_parallel=1)
    (folder,) = no_leftovers.iterdir()
    assert str(folder) in capsys.readouterr().err
    assert len(lines_of(folder)) == 3


@pytest.mark.parametrize("is_in_a_loop", [False, True])
def test_ctrl_c_keeps_finished_episodes_and_the_next_call_plays_the_others(is_in_a_loop, tmp_path):
    calls, released = count(), threading.Event()

    def interrupts(messages):
        number = next(calls)
        if number == 5:
            os.kill(os.getpid(), signal.SIGINT)
        if number >= 4:
            assert released.wait(60)
        return RIGHT

    async def evaluated():
        return evaluate(interrupts, ONE_TURN, episodes=9, folder=tmp_path, num_parallel=2)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it
    loop, running = asyncio.new_event_loop(), asyncio._get_running_loop()
    asyncio._set_running_loop(None)  # tests in a browser leave one behind
    try:
        with pytest.raises(KeyboardInterrupt):
            if is_in_a_loop:
                loop.run_until_complete(evaluated())
            else:
                evaluated().send(None)
    finally:
        signal.signal(signal.SIGINT, before)
        asyncio._set_running_loop(running)
        loop.close()
        released.set()
    lines = lines_of(tmp_path)
    assert len(lines) == 4 and not any(line["error"] for line in lines)
    board = evaluate(interrupts, ONE_TURN, episodes=9, folder=tmp_path)
    assert len(played(tmp_path)) == len(board.lines()) == 9


def test_an_agent_of_the_callers_stays_open(tmp_path):
    class Closable(OracleAgent):
        num_closed = 0

        def close(self):
            self.num_closed += 1

    agent = Closable()
    for world in (LAKE, SOKOBAN):
        assert evaluate(agent, world, episodes=1, folder=tmp_path).success[world].rate == 1.0
    assert not agent.num_closed


class _Deaf:
    policy_version = -1

    def respond(self, rows):
        pass


@pytest.mark.parametrize(
    ("agent", "worlds", "settings", "told"),
    [
        ("orakle", LAKE, {}, "Did you mean 'oracle'"),
        (3, LAKE, {}, "agent must be a name"),
        (_Deaf(), LAKE, {}, "'_Deaf' has no start"),
        (right, "VLM/FrozenLak-v0", {}, "Did you mean 'VLM/FrozenLake-v0'"),
        (right, {"VLM/FrozenLak-v0": {}}, {}, "Did you mean 'VLM/FrozenLake-v0'"),
        (right, {LAKE: {"split": "val"}}, {}, "--split"),
        (right, {LAKE: {"size": right}}, {}, "JSON"),
        (right, {LAKE: {"sise": 3}}, {}, "sise"),
        (right, [], {}, "worlds is empty"),
        (right, [LAKE, LAKE], {}, "twice"),
        (right, LAKE, {"split": "tests"}, "split must be one of"),
        (right, LAKE, {"reading": "loose"}, "reading must be one of"),
        (right, LAKE, {"episodes": 0}, "episodes must be at least 1"),
        (right, LAKE, {"num_parallel": 0}, "num_parallel must be"),
        (right, LAKE, {"name": "lazy"}, "'lazy' belongs to another agent"),
        ("oracle", LAKE, {"name": "best"}, "as=NAME"),
    ],
)
def test_a_mistake_is_told_and_leaves_nothing_behind(agent, worlds, settings, told, no_leftovers):
    with pytest.raises(ConfigError, match=told):
        evaluate(agent, worlds, **{"episodes": 2, **settings})
    assert not list(no_leftovers.iterdir())


def test_another_function_of_the_same_name_is_another_agent(tmp_path):
    evaluate(right, LAKE, episodes=1, folder=tmp_path, name="mine")
    with pytest.raises(ConfigError, match="has another mine"):
        evaluate(right_later, LAKE, episodes=1, folder=tmp_path, name="mine")
