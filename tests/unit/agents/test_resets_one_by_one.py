"""An episode begins as soon as its own world is reset, and a world that cannot be reset costs itself only."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from agents.agent import Response
from agents.rollout import rollout, try_rollout
from tests.unit.agents.test_continuous_rollout import Scripted, agent_of, texts
from tests.unit.agents.worlds import WORLD, dying, fails_and_dies, made, with_reset
from tests.unit.models import with_ending
from tests.unit.slow import quick
from vlm_envs.errors import LevelError
from vlm_envs.trajectory import failure_of, is_lost
from vlm_envs.vector.vector_world import VectorWorld


def played(env_fns, *, on_episode=None, **settings):
    seeds = list(range(1, len(env_fns) + 1))
    with VectorWorld(env_fns, **settings) as worlds:
        return try_rollout(Scripted(), worlds, seeds, env_ids=[WORLD] * len(seeds), on_episode=on_episode)


def told(trajectory):
    return trajectory.seed, trajectory.start_state_hash, [turn.state for turn in trajectory.turns]


def test_nobody_waits_for_a_world_that_takes_long_to_reset():
    """World 0 is reset only once the others' episodes are over."""
    over, all_others = [], threading.Event()

    def on_episode(row, episode):
        over.append(row)
        if len(over) == 3:
            all_others.set()

    waited = []
    env_fns = [partial(with_reset, lambda: waited.append(all_others.wait(30.0))), made, made, made]
    episodes = played(env_fns, on_episode=on_episode, workers="thread", num_workers=4)
    assert waited == [True]
    assert over[-1] == 0
    assert [len(each.turns) for each in episodes] == [3] * 4


@pytest.mark.parametrize("settings", [{}, {"workers": "thread", "num_workers": 2}])
def test_episodes_are_those_of_worlds_reset_together(settings):
    with VectorWorld([made] * 4) as worlds:
        expected = rollout(Scripted(), worlds, [1, 2, 3, 4], env_ids=[WORLD] * 4)
    episodes = played([made] * 4, **settings)
    assert [told(each) for each in episodes] == [told(each) for each in expected]


@pytest.mark.soak
@pytest.mark.parametrize(("num_deaths", "is_played"), [(1, True), (9, False)])
def test_a_worker_killed_in_a_reset_costs_its_own_episode_at_most(num_deaths, is_played, tmp_path):
    """Worlds 0, 2 and 4 share a worker: 0 is reset already when 2 kills it, and 4 is yet to be."""
    marker = tmp_path / "deaths"
    marker.write_text("again\n" * num_deaths)
    env_fns = [made, made, partial(dying, marker), made, made, made]
    episodes = played(env_fns, workers="process", num_workers=2)
    assert [each is not None for each in episodes] == [True, True, is_played, True, True, True]
    assert not any(map(is_lost, filter(None, episodes)))
    assert {len(each.turns) for each in episodes if each is not None} == {3}


class Unanswered(Scripted):
    """Has no response for world 0, or no room for a second turn of it."""

    def __init__(self, *, has_room):
        super().__init__()
        self.has_room = has_room

    def fits(self, row, observation):
        return self.has_room or row != 0

    def step(self):
        ((row, response),) = super().step().items()
        return {row: Response(text="", stop_reason="error", error="gone") if self.has_room and row == 0 else response}


@pytest.mark.parametrize("has_room", quick([True, False], True))
def test_an_episode_that_is_over_is_not_lost_with_a_world_that_is_tried_again(has_room, tmp_path):
    """Worlds 0 and 2 share a worker: the episode of 0 is over, its world is not, when a step of 2 kills both."""
    env_fns = [made, made, partial(fails_and_dies, tmp_path), made]
    with VectorWorld(env_fns, workers="process", num_workers=2) as worlds:
        episodes = try_rollout(Unanswered(has_room=has_room), worlds, [1, 2, 3, 4], env_ids=[WORLD] * 4)
    assert [len(each.turns) for each in episodes] == [1, 3, 1, 3]
    assert [failure_of(each)[:4] for each in episodes] == ["gone" if has_room else "", "", "The ", ""]


@pytest.mark.soak
def test_a_reset_that_is_tried_again_changes_nothing_that_is_drawn_later(tiny, tmp_path):
    """A sampler that begins anew for the retried world goes on, in the next rollout, where it would have been."""
    marker, ending = tmp_path / "deaths", (with_ending(*tiny, bias=4.0), tiny[1])

    def rollouts(num_deaths):
        marker.write_text("again\n" * num_deaths)
        agent = agent_of(ending)
        with VectorWorld([made, made, partial(dying, marker), made], workers="process", num_workers=2) as worlds:
            return [try_rollout(agent, worlds, [1, 2, 3, 4], env_ids=[WORLD] * 4) for _ in range(2)]

    undisturbed, retried = rollouts(0), rollouts(1)
    assert marker.read_text() == ""
    assert [texts(each) for each in retried] == [texts(each) for each in undisturbed]
    assert texts(undisturbed[0]) != texts(undisturbed[1])


def test_a_level_that_does_not_exist_is_the_callers_mistake():
    def refuse():
        raise LevelError("there is no such level")

    with pytest.raises(LevelError, match="no such level"):
        played([made, partial(with_reset, refuse)])


def test_what_was_being_reset_does_not_reach_the_next_rollout():
    """The rollout before is left while world 1 is being reset."""

    def interrupt(worlds, row):
        raise KeyboardInterrupt

    gate = threading.Event()
    env_fns = [made, partial(with_reset, lambda: gate.wait(0.5))]
    with VectorWorld(env_fns, workers="thread", num_workers=2) as worlds:
        with pytest.raises(KeyboardInterrupt):
            try_rollout(Scripted(interrupt), worlds, [1, 2], env_ids=[WORLD] * 2)
        gate.set()
        episodes = try_rollout(Scripted(), worlds, [3, 4], env_ids=[WORLD] * 2)
    with VectorWorld([made] * 2) as worlds:
        expected = rollout(Scripted(), worlds, [3, 4], env_ids=[WORLD] * 2)
    assert [told(each) for each in episodes] == [told(each) for each in expected]
