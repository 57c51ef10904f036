"""The rollout loop: whole episodes in the order of the worlds, whatever happens to some of them."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from agents.agent import Response
from agents.rollout import play_episodes, rollout
from tests.unit.vlm_envs.corridor import CorridorWorld, FaultyWorld
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import failure_of
from vlm_envs.vector.vector_world import VectorWorld

RIGHT = "<answer>Right</answer>"
pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")


class Script:
    """Says one line per world and turn, and notes which rows it was asked about."""

    policy_version = 7

    def __init__(self, *lines: str) -> None:
        self.lines, self.asked = lines, []

    def start(self, worlds: VectorWorld) -> None:
        self.asked.clear()

    def respond(self, rows, observations):
        self.asked.append(list(rows))
        return [Response(text=self.lines[row]) for row in rows]


def corridors(*turns: int) -> VectorWorld:
    return VectorWorld([partial(CorridorWorld, prompt_format="no_think", max_turns=each) for each in turns])


def test_rows_stop_one_by_one_and_are_not_asked_again():
    agent = Script("idle", "idle", "idle")
    played = rollout(agent, corridors(2, 1, 3), [5, 6, 7], env_ids=["a", "b", "c"])
    assert agent.asked == [[0, 1, 2], [0, 2], [2]]
    assert [(t.env_id, t.seed, len(t.turns)) for t in played] == [("a", 5, 2), ("b", 6, 1), ("c", 7, 3)]
    assert all(t.policy_version == 7 for t in played)
    assert all(t.turns[-1].truncated and not t.turns[-1].terminated for t in played)
    assert not any(turn.truncated for t in played for turn in t.turns[:-1])


def test_a_turn_holds_the_state_that_was_seen_and_the_reward_of_what_was_done():
    worlds = corridors(2)
    worlds.counts_optimal_actions = True
    (trajectory,) = rollout(Script(RIGHT), worlds, [3], env_ids=["corridor"])
    first, second = trajectory.turns
    assert second.state == first.info["state"] != first.state
    assert second.state_text == first.info["state_text"] != first.state_text
    assert first.state_text == "The player is at (0, 7). The goal is at (0, 9)."
    assert (first.optimal_actions_left, second.optimal_actions_left) == (2, 1)
    assert first.info["actions"] == ("Right",)
    moved = first.info["state"]["player_position"][1] - first.state["player_position"][1]
    assert moved == 1
    for turn in trajectory.turns:
        assert sum(term.value for term in turn.reward_terms) == turn.reward
    assert not np.array_equal(first.observation["image"], second.observation["image"])
    assert trajectory.final_observation["text"].endswith("The episode is over.")


def test_siblings_start_alike_and_other_seeds_do_not():
    played = rollout(Script(*["idle"] * 3), corridors(1, 1, 1), [4, 4, 5], env_ids=["x"] * 3)
    hashes = [trajectory.start_state_hash for trajectory in played]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_world_that_crashes_ends_its_own_episode_only():
    worlds = VectorWorld([partial(FaultyWorld, prompt_format="no_think", max_turns=3) for _ in range(3)])
    played = rollout(Script("idle", "raise", "idle"), worlds, [1, 2, 3], env_ids=["x"] * 3)
    assert [len(trajectory.turns) for trajectory in played] == [3, 1, 3]
    (crashed,) = played[1].turns
    assert crashed.truncated
    assert not crashed.terminated
    assert "the simulator fell over" in crashed.info["worker_error"]
    assert crashed.reward == 0.0
    assert crashed.info["state"] == crashed.state
    assert not played[1].success
    again = rollout(Script("idle", "idle", "idle"), worlds, [1, 2, 3], env_ids=["x"] * 3)
    assert [len(trajectory.turns) for trajectory in again] == [3, 3, 3]


class Says(Script):
    """Gives whatever it is told to in place of its responses."""

    def __init__(self, said):
        super().__init__()
        self.said = said

    def respond(self, rows, observations):
        return self.said


@pytest.mark.parametrize(
    ("said", "came"),
    [
        ([RIGHT, RIGHT], "'<answer>Right</answer>'"),
        ([Response(text=RIGHT)], "1 of them"),
        ([Response(text=RIGHT)] * 3, "3 of them"),
        (RIGHT, "'<answer>Right</answer>'"),
        (None, "None"),
        ([Response(text=RIGHT), Response(text=None)], "the text None"),
    ],
)
def test_what_is_no_response_for_each_row_is_told_in_one_line(said, came):
    with pytest.raises(ConfigError) as told:
        rollout(Says(said), corridors(2, 2), [1, 2], env_ids=["a", "b"])
    (line,) = str(told.value).splitlines()
    assert line.startswith(f"The agent {__name__}:Says: respond(rows, observations) must return a list of 2 ")
    assert f"got {came}" in line


class Bounded(Script):
    """A script with room for so many turns of each world."""

    num_turns = (3, 1, 2)

    def start(self, worlds: VectorWorld) -> None:
        super().start(worlds)
        self.left = list(self.num_turns)

    def fits(self, row, observation):
        assert observation["text"]
        self.left[row] -= 1
        return self.left[row] > 0


def test_an_observation_without_room_truncates_the_episode_and_keeps_its_rewards(tmp_path):
    agent = Bounded(RIGHT, "idle", RIGHT)
    played = rollout(agent, corridors(2, 4, 4), [3, 4, 5], env_ids=["a", "b", "c"])
    free = rollout(Script(RIGHT, "idle", RIGHT), corridors(2, 4, 4), [3, 4, 5], env_ids=["a", "b", "c"])
    assert agent.asked == [[0, 1, 2], [0, 2]]
    assert [len(each.turns) for each in played] == [2, 1, 2]
    assert [each.turns[-1].info.get("context_full", False) for each in played] == [
        False,
        True,
        not free[2].turns[1].terminated,
    ]
    for ours, theirs in zip(played[1:], free[1:], strict=True):
        last, same = ours.turns[-1], theirs.turns[len(ours.turns) - 1]
        assert [turn.reward for turn in ours.turns] == [turn.reward for turn in theirs.turns[: len(ours.turns)]]
        assert (last.truncated, last.terminated) == (not same.terminated, same.terminated)
        assert not failure_of(ours), "it is an episode like others"
    assert played[1].final_observation["text"] == free[1].turns[1].observation["text"]


class Walker:
    """An agent of the simplest kind: an async method. Walks right, and is slowest in the first episode."""

    policy_version = -1

    def __init__(self) -> None:
        self.asked = []

    async def respond(self, row, observation):
        await asyncio.sleep(0.01 if row == 0 else 0.0)
        self.asked.append(row)
        return Response(text=RIGHT)


@pytest.mark.parametrize("workers", ["serial", "thread"])
def test_an_agent_may_be_one_async_method(workers):
    agent = Walker()
    with VectorWorld(
        [partial(CorridorWorld, prompt_format="no_think", max_turns=9)] * 3, workers=workers, num_workers=2
    ) as worlds:
        played = rollout(agent, worlds, [1, 2, 3], env_ids=["c"] * 3)
    assert [each.seed for each in played] == [1, 2, 3]
    assert all(len(each.turns) > 1 and each.turns[0].info["actions"] == ("Right",) for each in played)
    assert agent.asked[0] != 0 and {*agent.asked} == {0, 1, 2}


def test_rollouts_run_where_an_event_loop_is_running():
    async def notebook_cell():
        return rollout(Walker(), corridors(9), [1], env_ids=["c"])

    with ThreadPoolExecutor(1) as pool:  # a browser of another test may have a loop in this thread
        (played,) = pool.submit(asyncio.run, notebook_cell()).result()
    assert played.turns


def test_what_an_async_agent_raises_ends_the_rollout():
    class Raises(Walker):
        async def respond(self, row, observation):
            raise RuntimeError("down")

    class Wrong(Walker):
        async def respond(self, row, observation):
            return "Right"

    with pytest.raises(RuntimeError, match="down"):
        rollout(Raises(), corridors(2, 2), [1, 2], env_ids=["a", "b"])
    with pytest.raises(ConfigError, match=r"Wrong: respond\(row, observation\) must return an .*got 'Right'"):
        rollout(Wrong(), corridors(2, 2), [1, 2], env_ids=["a", "b"])


def test_only_running_episodes_are_finished_once_no_more_are_wanted():
    wanted = iter([True, True, False])
    with corridors(1, 1) as worlds:
        played = list(play_episodes(Walker(), worlds, range(9), env_id="c", goes_on=lambda: next(wanted)))
    assert sorted(each.number for each in played) == [0, 1, 2]


def test_the_end_of_a_rollout_cancels_running_coroutines():
    cancelled = threading.Event()

    class Waits(Walker):
        async def respond(self, row, observation):
            if row == 1:
                raise RuntimeError("down")
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.set()
                raise

    with pytest.raises(RuntimeError, match="down"):
        rollout(Waits(), corridors(2, 2), [1, 2], env_ids=["a", "b"])
    assert cancelled.wait(10)
