"""Episodes of an agent that answers each by itself: none waits for another's world, in a step or in a reset."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from agents.agent import Response
from agents.rollout import play_episodes
from tests.unit.agents.worlds import WORLD, Once, die, dying, fail, made, slow, with_reset
from vlm_envs.trajectory import failure_of, is_lost
from vlm_envs.vector.vector_world import VectorWorld


class Answering:
    """Says the same in every episode."""

    policy_version = -1

    async def respond(self, row, observation):
        return Response(text="<think>x</think><answer>Up</answer>")


def played(env_fns, num_episodes, on_played=lambda each: None, agent=None, **settings):
    agent = agent or Answering()
    episodes = {}
    with VectorWorld(env_fns, **settings) as worlds:
        for each in play_episodes(agent, worlds, list(range(1, num_episodes + 1)), env_id=WORLD):
            assert each.number not in episodes
            episodes[each.number] = each.trajectory
            on_played(episodes)
    return episodes


@pytest.mark.parametrize("waiting", [with_reset, slow])
def test_nobody_waits_for_a_slow_world(waiting):
    """World 0 goes on once all other episodes are over, which the other world plays."""
    others, waited = threading.Event(), []

    def on_played(episodes):
        if len(episodes) == 4:
            others.set()

    env_fns = [partial(waiting, lambda: waited.append(others.wait(30.0))), made]
    episodes = played(env_fns, 5, on_played, workers="thread", num_workers=2)
    assert set(waited) == {True}
    assert list(episodes)[-1] == 0
    assert all(len(each.turns) == 3 for each in episodes.values())


@pytest.mark.parametrize("num_deaths", [1, 99])
def test_a_worker_killed_in_a_reset_costs_nobody_an_episode(num_deaths, tmp_path):
    """Worlds 0, 2 and 4 share a worker, which a reset of 2 kills; the others play what 2 does not, in the end."""
    marker = tmp_path / "deaths"
    marker.write_text("again\n" * num_deaths)
    env_fns = [made, made, partial(dying, marker), made, made, made]
    episodes = played(env_fns, 7, workers="process", num_workers=2)
    assert sorted(episodes) == list(range(7))
    assert not any(map(is_lost, episodes.values()))
    assert {len(each.turns) for each in episodes.values()} == {3}


def test_a_world_that_is_lost_behind_its_episode_costs_the_next_one_nothing(tmp_path):
    """Worlds 0 and 2 share a worker. What 0 plays has no answer; a step of 2 kills both; what failed is played by 0."""

    class Unanswered(Answering):
        num_begun = 0

        def begin(self, row):
            self.num_begun += row == 0

        async def respond(self, row, observation):
            if row == 0 and self.num_begun == 1:
                return Response(text="", stop_reason="error", error="down")
            await asyncio.sleep(0.2)
            return await super().respond(row, observation)

    failing, dying_once = Once(tmp_path / "failed", fail), Once(tmp_path / "died", die)
    env_fns = [made, partial(with_reset, failing), partial(slow, dying_once), made]
    episodes = played(env_fns, 4, agent=Unanswered(), workers="process", num_workers=2)
    assert {number: failure_of(each)[:4] for number, each in episodes.items()} == {0: "down", 1: "", 2: "The ", 3: ""}
    assert len(episodes[1].turns) == 3


def test_what_no_world_can_start_is_left_out():
    def fail():
        raise RuntimeError("never")

    assert played([partial(with_reset, fail)], 2) == {0: None, 1: None}


@pytest.mark.parametrize(("num_others", "num_attempts"), [(0, 3), (2, 1)])
def test_what_fails_is_tried_again_in_another_world_if_there_is_one(num_others, num_attempts):
    attempts = []

    def fail():
        attempts.append(1)
        if len(attempts) < 3:
            raise RuntimeError("not yet")

    episodes = played([partial(with_reset, fail), *[made] * num_others], 1)
    assert [len(each.turns) for each in episodes.values()] == [3]
    assert len(attempts) == num_attempts
