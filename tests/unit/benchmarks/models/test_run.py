"""A run plays what is missing once, keeps failures apart, and stops when it is told to."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace

import pytest

from agents.agent import Response
from agents.blind_script import LazyAgent
from agents.oracle import OracleAgent, RandomAgent
from benchmarks.models.board.board import Board, UnwritableBoardError
from benchmarks.models.board.board_spec import WorldSpec
from benchmarks.models.cli.endings import told_of
from benchmarks.models.play.board_progress import told
from benchmarks.models.play.playing import MOST_FAILURES, BoardRun, Interruptible, RunInterruptedError
from tests.unit.benchmarks.models.playing import (
    LAKE,
    SOKOBAN,
    Counting,
    Failing,
    contestant,
    lines_of,
    plan,
    play,
    played,
)
from vlm_envs.errors import ConfigError
from vlm_envs.records.folder_lock import BusyFolderError
from vlm_envs.splits import split_seeds
from vlm_envs.worlds.frozen_lake import FrozenLakeDynamics


def test_all_agents_play_every_level_of_every_world_once(tmp_path):
    worlds = [WorldSpec.parse(LAKE), WorldSpec.parse(SOKOBAN)]
    agents = [contestant(OracleAgent(), "oracle"), contestant(RandomAgent(), "random")]
    run = play(tmp_path, agents, worlds=worlds, episodes=3, repeats=2)
    lines = lines_of(tmp_path)
    names = {(line["agent"], line["world"], line["seed"], line["repeat"]) for line in lines}
    assert len(names) == len(lines) == 2 * 2 * 3 * 2
    assert {seed for *_, seed, _ in names} == set(range(1_500_000_000, 1_500_000_003))
    assert not run.reason
    assert not run.failures
    for line in lines:
        if line["agent"] == "oracle":
            before = [turn["optimal_actions_before"] for turn in line["turns"]]
            left = [turn["optimal_actions_left"] for turn in line["turns"]]
            assert before[0] == sum(len(turn["actions"]) for turn in line["turns"])
            assert (before[1:], left[-1]) == (left[:-1], 0)


def test_agents_play_side_by_side(tmp_path):
    together = threading.Barrier(2)

    class Waiting(OracleAgent):
        def respond(self, rows, observations):
            together.wait(30.0)  # Broken, and an error, unless the other one is there too
            return super().respond(rows, observations)

    play(tmp_path, [contestant(Waiting(), name, num_parallel=1) for name in "ab"], episodes=1)
    assert len(lines_of(tmp_path)) == 2


def test_a_world_that_lists_fewer_levels_is_played_through(tmp_path, monkeypatch):
    monkeypatch.setattr(WorldSpec, "num_levels", 3)
    play(tmp_path, [contestant(OracleAgent())], episodes=8)
    assert len(lines_of(tmp_path)) == 3


def test_the_same_command_again_plays_nothing_and_a_longer_one_the_rest(tmp_path):
    play(tmp_path, [contestant(OracleAgent())], episodes=3)
    before = lines_of(tmp_path)
    again = Counting()
    play(tmp_path, [contestant(again)], episodes=3)
    assert again.num_asked == 0
    play(tmp_path, [contestant(OracleAgent())], episodes=5)
    assert lines_of(tmp_path)[:3] == before
    assert len(lines_of(tmp_path)) == len(played(tmp_path)) == 5


def test_a_providers_failure_is_no_loss_and_is_tried_again_the_next_time(tmp_path):
    run = play(tmp_path, [contestant(Failing(lambda asked: asked == 0), num_parallel=1)])
    errors = [line for line in lines_of(tmp_path) if line["error"]]
    assert [line["error"] for line in errors] == ["HTTP 500: out for lunch"]
    assert run.failures == {"somebody": "HTTP 500: out for lunch"}
    (part,) = run.progress.parts
    assert (part.num_done, part.num_errors, part.num_successes) == (3, 1, 3)
    run = play(tmp_path, [contestant(OracleAgent())])
    assert not run.failures
    assert len(lines_of(tmp_path)) == 5
    assert [episode["error"] for episode in Board(tmp_path).episodes()] == [""] * 4


def test_an_agent_that_fails_again_and_again_gives_up_and_the_others_go_on(tmp_path):
    agents = [contestant(Failing(lambda asked: True), "out", num_parallel=1), contestant(OracleAgent(), "in")]
    run = play(tmp_path, agents, episodes=4 * MOST_FAILURES)
    out, there = (part for part in run.progress.parts)
    assert out.num_errors == 2 * MOST_FAILURES, "it returned once"
    assert there.num_done == 4 * MOST_FAILURES
    assert run.not_started() == [(out, 2 * MOST_FAILURES)]
    left, _ = told_of(run)
    assert f"{2 * MOST_FAILURES} episodes not started" in left


def test_an_agent_returns_to_a_world_that_it_left(tmp_path):
    worlds = [WorldSpec.parse(LAKE), WorldSpec.parse(f"{LAKE}:size=3")]
    agent = Failing(lambda asked: asked < MOST_FAILURES)
    run = play(tmp_path, [contestant(agent, num_parallel=1)], worlds=worlds, episodes=MOST_FAILURES + 2)
    assert [part.num_done for part in run.progress.parts] == [MOST_FAILURES + 2] * 2
    assert not run.not_started()
    names = [line["world"] for line in lines_of(tmp_path)]
    assert list(dict.fromkeys(names[MOST_FAILURES:])) == [worlds[1].label, worlds[0].label]


def test_ctrl_c_ends_a_lazy_agent_that_still_chooses_and_its_choice_is_shown(tmp_path, monkeypatch):
    shown = []

    def asleep(agent, env_id, kwargs):
        while True:  # until the report raises
            agent.on_progress(env_id, "searching on training levels", 120, 192)
            time.sleep(0.001)

    def on_progress(progress):
        shown.extend(told(total) for total in progress.agents() if total.preparing)

    class Interrupted(OracleAgent):
        def respond(self, rows, observations):
            while not shown:
                time.sleep(0.001)
            raise KeyboardInterrupt

    monkeypatch.setattr(LazyAgent, "choose", asleep)
    agents = [contestant(LazyAgent(), "lazy"), contestant(Interrupted(), "oracle")]
    run = BoardRun(plan(), agents, tmp_path, on_progress)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert shown[0] == f"lazy: 0/4, choosing responses for {LAKE}: searching on training levels, 120 of 192"


def test_an_episode_is_tried_at_most_twice_in_a_run(tmp_path):
    worlds = [WorldSpec.parse(LAKE), WorldSpec.parse(f"{LAKE}:size=3")]
    agent = Failing(lambda asked: True)
    run = play(tmp_path, [contestant(agent, num_parallel=12)], worlds=worlds, episodes=12)
    tries = Counter((line["world"], line["seed"]) for line in lines_of(tmp_path))
    assert len(tries) == 24 and set(tries.values()) == {2}
    assert [part.num_errors for part in run.progress.parts] == [24, 24]


def failing_on(seeds):
    """Returns an oracle whose provider always fails on some levels."""

    class Choosy(OracleAgent):
        def start(self, worlds):
            super().start(worlds)
            self.seeds = list(worlds.get_attr("np_random_seed"))

        def respond(self, rows, observations):
            failure = Response(text="", stop_reason="error", error="HTTP 400: no")
            said = super().respond(rows, observations)
            return [failure if self.seeds[row] in seeds else each for row, each in zip(rows, said, strict=True)]

    return Choosy()


def test_levels_that_always_fail_lock_no_others(tmp_path):
    first = set(split_seeds("test", MOST_FAILURES))
    run = play(tmp_path, [contestant(failing_on(first), num_parallel=1)], episodes=3 * MOST_FAILURES)
    (part,) = run.progress.parts
    assert part.num_done == 2 * MOST_FAILURES and not run.not_started()


def test_levels_that_were_never_started_come_before_failed_ones(tmp_path):
    play(tmp_path, [contestant(Failing(lambda asked: True), num_parallel=1)], episodes=2)
    play(tmp_path, [contestant(OracleAgent(), num_parallel=1)], episodes=4)
    seeds = [line["seed"] for line in lines_of(tmp_path)]
    a, b, c, d = split_seeds("test", 4)
    assert seeds == [a, b, c, d, a, b]


def test_failures_that_are_not_in_a_row_keep_nobody_away(tmp_path):
    class Fickle(Failing):
        num_begun = 0

        def start(self, worlds):
            super().start(worlds)
            self.num_begun += 1

    agent = Fickle(lambda asked: agent.num_begun % 3 > 0)
    run = play(tmp_path, [contestant(agent, num_parallel=1)], episodes=3 * MOST_FAILURES)
    (part,) = run.progress.parts
    assert (part.num_done, part.num_errors) == (MOST_FAILURES, 2 * MOST_FAILURES)


def test_a_world_that_dies_on_the_way_is_no_loss_either(tmp_path, monkeypatch):
    step, died = FrozenLakeDynamics.step, []

    def dying(self, *arguments):
        if not died:
            died.append(True)
            raise MemoryError("the engine died")
        return step(self, *arguments)

    with monkeypatch.context() as broken:
        world = WorldSpec.parse(LAKE)
        assert world.digest  # Taken before the world breaks
        broken.setattr(FrozenLakeDynamics, "step", dying)
        play(tmp_path, [contestant(RandomAgent(), num_parallel=1)], worlds=[world])
    (error,) = [line for line in lines_of(tmp_path) if line["error"]]
    assert "the engine died" in error["error"]
    play(tmp_path, [contestant(RandomAgent())])
    assert [episode["error"] for episode in Board(tmp_path).episodes()] == [""] * 4


class Client:
    """What an agent that asks an endpoint has."""

    def __init__(self, price="known"):
        self.price = price


class Paid(OracleAgent):
    """An oracle that costs so much a response; None for a provider that does not count."""

    def __init__(self, usd=0.5, price="known"):
        super().__init__()
        self.usd, self.client = usd, Client(price)

    def respond(self, rows, observations):
        usage = {} if self.usd is None else {"usd": self.usd, "prompt_tokens": 3.0, "completion_tokens": 1.0}
        return [replace(each, usage=usage) for each in super().respond(rows, observations)]


def test_a_budget_ends_the_run_at_the_episode_that_spends_it(tmp_path):
    run = play(tmp_path, [contestant(Paid(), num_parallel=1)], episodes=50, budget_usd=4.0)
    spent = [line["usd"] for line in lines_of(tmp_path)]
    assert sum(spent) >= 4.0 > sum(spent[:-1])
    assert run.reason == "the budget of 4 USD is spent"
    again = Counting()
    again.client = Client()
    play(tmp_path, [contestant(again)], episodes=50, budget_usd=4.0)
    assert again.num_asked == 0


def test_what_failures_cost_is_spent_too(tmp_path):
    class Dear(Failing):
        client = Client()

        def respond(self, rows, observations):
            said = super().respond(rows, observations)
            return [replace(each, usage={"usd": 3.0}) for each in said]

    run = play(tmp_path, [contestant(Dear(lambda asked: True), num_parallel=1)], episodes=5, budget_usd=8.0)
    assert len(lines_of(tmp_path)) == 3
    assert "budget" in run.reason


def test_a_budget_without_a_price_is_refused_before_anything_is_asked(tmp_path):
    agents = [contestant(Paid(price=None), "mystery"), contestant(OracleAgent(), "free")]
    with pytest.raises(ConfigError, match=r"enforced for mystery: .*prices=FILE"):
        BoardRun(plan(budget_usd=1.0), agents, tmp_path / "board")
    assert not (tmp_path / "board").exists()


def test_a_budget_that_nobody_counts_for_ends_the_run(tmp_path):
    run = play(tmp_path, [contestant(Paid(usd=None), "mute", num_parallel=1)], episodes=50, budget_usd=1.0)
    assert len(lines_of(tmp_path)) == 1
    assert run.reason == "mute does not count its tokens, so no budget can be enforced"


def test_an_agent_leaves_a_world_when_its_interval_is_narrow_enough(tmp_path):
    run = play(tmp_path, [contestant(OracleAgent(), num_parallel=1)], episodes=200, stop_when_ci=0.1)
    (part,) = run.progress.parts
    # Wilson's interval of n successes in n: half of z^2 / (n + z^2), which is below 0.1 from n = 15.4 on. Seeds 0 and 2
    # give one level, so 18 episodes count as 18^2 / (16 + 2^2) = 16.2, and 17 as 15.2
    assert part.num_done == 18
    assert part.num_missing == 0
    again = Counting()
    play(tmp_path, [contestant(again)], episodes=200, stop_when_ci=0.1)
    assert again.num_asked == 0


def test_two_runs_do_not_play_the_same_board(tmp_path):
    first = BoardRun(plan(), [contestant(OracleAgent())], tmp_path)
    with pytest.raises(BusyFolderError):
        BoardRun(plan(), [contestant(OracleAgent())], tmp_path)
    first.run()
    assert len(lines_of(tmp_path)) == 4


def test_a_full_disk_stops_everybody_and_the_same_command_goes_on(tmp_path, monkeypatch):
    add, num_added = Board.add, []

    def full(self, *arguments, **settings):
        num_added.append(True)
        if len(num_added) > 3:
            raise UnwritableBoardError("No space left on device")
        return add(self, *arguments, **settings)

    slow = [Counting(wait_s=0.01), Counting(wait_s=0.01)]
    with monkeypatch.context() as disk, pytest.raises(UnwritableBoardError):
        disk.setattr(Board, "add", full)
        play(tmp_path, [contestant(agent, name) for agent, name in zip(slow, "ab", strict=True)], episodes=40)
    assert len(lines_of(tmp_path)) == 3
    assert sum(agent.num_asked for agent in slow) < 2 * 40
    play(tmp_path, [contestant(OracleAgent(), name) for name in "ab"], episodes=40)
    assert len(lines_of(tmp_path)) == len(played(tmp_path)) == 80


def test_an_agent_that_breaks_is_told_and_keeps_the_others_episodes(tmp_path):
    class Broken(OracleAgent):
        def respond(self, rows, observations):
            time.sleep(0.2)
            raise ZeroDivisionError("of my own")

    with pytest.raises(ZeroDivisionError):
        play(tmp_path, [contestant(Broken(), "broken"), contestant(OracleAgent(), "whole")])
    assert {line["agent"] for line in lines_of(tmp_path)} <= {"whole"}
    play(tmp_path, [contestant(OracleAgent(), "broken"), contestant(OracleAgent(), "whole")])
    assert len(lines_of(tmp_path)) == 8


def test_who_was_interrupted_is_asked_no_more():
    interrupted = threading.Event()
    agent = Interruptible.of(Counting(), interrupted)
    interrupted.set()
    with pytest.raises(RunInterruptedError):
        agent.respond([0], [{}])
