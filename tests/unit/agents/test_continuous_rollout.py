"""Rollouts in which no episode waits for another come to the episodes of those that keep in step."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest

from agents.agent import ContinuousAgent, Response
from agents.hf.continuous_batching import ContinuousHFAgent
from agents.hf.hf_agent import HFAgent
from agents.hf.sampling_config import SamplingConfig
from agents.rollout import rollout, try_rollout
from tests.unit.agents.worlds import WORLD, Dies, made, slow
from tests.unit.models import with_ending
from tests.unit.slow import quick
from vlm_envs.errors import ConfigError, WorkerError
from vlm_envs.trajectory import is_lost
from vlm_envs.vector.vector_world import VectorWorld

SEEDS = [11, 11, 11, 12, 13, 13]


def vector(number=6, **settings):
    return VectorWorld([made] * number, **settings)


@pytest.fixture
def ending(tiny):
    """The tiny model, whose responses end after a few tokens, and its encoder."""
    return with_ending(*tiny, bias=4.0), tiny[1]


def agent_of(ending, agent_class=ContinuousHFAgent, **sampling):
    model, encoder = ending
    settings = SamplingConfig(**{"max_new_tokens": 12, **sampling})
    return agent_class(model=model, encoder=encoder, sampling=settings, seed=5)


def texts(trajectories):
    return [[turn.response_text for turn in each.turns] for each in trajectories]


def told(trajectory):
    """Returns what an episode is, but for log-probabilities."""
    turns = [
        (turn.response_ids.tolist(), turn.prompt_ids.tolist(), turn.state, turn.reward, turn.terminated, turn.truncated)
        for turn in trajectory.turns
    ]
    return trajectory.seed, trajectory.start_state_hash, turns


@pytest.mark.parametrize(
    "settings",
    quick(
        [
            {},
            {"workers": "process", "num_workers": 1},
            {"workers": "thread", "num_workers": 1},
            {"workers": "thread", "num_workers": 8},
        ],
        {"workers": "process", "num_workers": 1},
        {"workers": "thread", "num_workers": 8},
    ),
)
def test_episodes_are_those_of_a_rollout_in_step(ending, settings):
    seeds = [*SEEDS, *range(21, 31)]
    with vector(len(seeds)) as worlds:
        in_step = agent_of(ending, HFAgent)
        assert isinstance(agent_of(ending), ContinuousAgent) and not isinstance(in_step, ContinuousAgent)
        expected = rollout(in_step, worlds, seeds, env_ids=[WORLD] * len(seeds))
    assert len({len(each.turns) for each in expected} | {len(turn.response_ids) for turn in expected[0].turns}) > 1
    with vector(len(seeds), **settings) as worlds:
        found = rollout(agent_of(ending), worlds, seeds, env_ids=[WORLD] * len(seeds))
    assert [told(each) for each in found] == [told(each) for each in expected]
    for ours, theirs in zip(found, expected, strict=True):
        for a, b in zip(ours.turns, theirs.turns, strict=True):
            assert np.allclose(a.sampler_logprobs, b.sampler_logprobs, atol=1e-4)
    assert len({str(each) for each in texts(found[:3])}) > 1, "siblings draw on their own"


def test_a_slow_world_holds_up_nobody(ending):
    """The others are through with all of their turns before the slow one has made its first step."""
    order, turns, are_through = [], [], threading.Event()

    def on_turn(row, turn):
        order.append(row)
        turns.append(turn)
        if sum(each.terminated or each.truncated for each in turns) == 5:
            are_through.set()

    env_fns = [partial(slow, lambda: are_through.wait(60.0)), *[made] * 5]
    with VectorWorld(env_fns, workers="thread", num_workers=6) as worlds:
        played = rollout(agent_of(ending), worlds, SEEDS, env_ids=[WORLD] * 6, on_turn=on_turn)
    first = order.index(0)
    assert first == sum(len(each.turns) for each in played[1:])


class Scripted:
    """Says nothing much, one row a step, and may be told to do something in between."""

    policy_version = 0

    def __init__(self, on_step=lambda worlds, row: None):
        self.on_step, self.aborted, self.queue = on_step, [], []

    def start(self, worlds):
        self.worlds, self.queue = worlds, []

    def add_request(self, row, observation):
        self.queue.append(row)

    def step(self):
        row = self.queue.pop(0)
        self.on_step(self.worlds, row)
        return {row: Response(text="<think>x</think><answer>Up</answer>")}

    def abort(self, row):
        self.aborted.append(row)
        self.queue.remove(row)


class Gathering(Scripted):
    """Answers nobody before four are there, and then in the order of their rows."""

    has_begun = False

    def step(self):
        if not self.has_begun and len(self.queue) < 4:
            return {}
        if not self.has_begun:
            self.queue.sort()
            self.has_begun = True
        return super().step()


class AtOnce(Scripted):
    """Answers all who are there in one step."""

    num_steps = 0

    def step(self):
        self.num_steps += 1
        return {row: response for row in [*self.queue] for response in Scripted.step(self).values()}


@pytest.mark.parametrize(("gather_s", "is_together"), [(60.0, True), (0.0, False)])
def test_worlds_that_answer_soon_after_each_other_are_answered_together(monkeypatch, gather_s, is_together):
    monkeypatch.setattr("agents.rollout.GATHER_S", gather_s)
    agent = AtOnce()
    env_fns = [partial(slow, partial(time.sleep, 0.1 * number), max_turns=2) for number in range(3)]
    with VectorWorld(env_fns, workers="thread", num_workers=3) as worlds:
        rollout(agent, worlds, [0, 1, 2], env_ids=[WORLD] * 3)
    assert (agent.num_steps == 2) == is_together


class Bounded(AtOnce):
    """Has no room for a second turn of world 2, and answers world 0 again only once the episode of world 2 is over."""

    def __init__(self, over):
        super().__init__()
        self.over, self.has_answered_0 = over, False

    def step(self):
        responses = {}
        for row in [*self.queue]:
            if row != 0 or not self.has_answered_0 or 2 in self.over:
                self.queue.remove(row)
                self.queue.insert(0, row)
                responses |= Scripted.step(self)
                self.has_answered_0 |= row == 0
        return responses

    def fits(self, row, observation):
        return row != 2


def test_an_episode_that_is_over_is_not_lost_with_the_worker_of_its_world():
    """World 2 is over for want of room; the second step of world 0 then ends the worker that both have."""
    over = []
    with VectorWorld([partial(slow, Dies(2)), made, made, made], workers="process", num_workers=2) as worlds:
        played = try_rollout(
            Bounded(over), worlds, [1, 2, 3, 4], env_ids=[WORLD] * 4, on_episode=lambda row, _: over.append(row)
        )
    assert [is_lost(each) for each in played] == [True, False, False, False]
    assert [len(each.turns) for each in played] == [2, 3, 1, 3] and played[2].turns[0].info["context_full"]
    assert sorted(over) == [0, 1, 2, 3], "each is told of once"


def test_worlds_lost_while_others_are_answered_end_their_own_episodes_only():
    """Worlds 0 and 2 share a worker, which dies when 0 is stepped: 2, which waits for its answer, is lost as well."""
    pids = []

    def kill(worlds, row):
        if row == 1 and pids:
            os.kill(pids.pop(), signal.SIGKILL)
            time.sleep(0.3)

    agent = Gathering(kill)
    with VectorWorld(
        [partial(slow, partial(time.sleep, 0.3)), made, made, made], workers="process", num_workers=2
    ) as worlds:
        pids.append(worlds._pool._workers[0]._carrier.pid)
        played = try_rollout(agent, worlds, [1, 2, 3, 4], env_ids=[WORLD] * 4)
        assert [is_lost(each) for each in played] == [True, False, True, False]
        assert [each.turns[-1].truncated for each in played] == [True] * 4
        assert [len(each.turns) for each in played] == [1, 3, 1, 3]
        assert "died" in played[2].turns[0].info["worker_error"]
        assert played[0].turns[0].response_text and not played[2].turns[0].response_text
        again = try_rollout(agent, worlds, [1, 2, 3, 4], env_ids=[WORLD] * 4)
        assert not any(map(is_lost, again))


def test_an_answer_that_cannot_be_had_ends_its_episode():
    class Failing(Scripted):
        def step(self):
            row = self.queue.pop(0)
            error = {"stop_reason": "error", "error": "gone"} if row == 1 else {}
            return {row: Response(text="<think>x</think><answer>Up</answer>", **error)}

    with vector(3) as worlds:
        played = rollout(Failing(), worlds, [1, 2, 3], env_ids=[WORLD] * 3)
    assert [is_lost(each) for each in played] == [False, True, False]
    assert [len(each.turns) for each in played] == [3, 1, 3]


def test_what_was_left_under_way_does_not_reach_the_next_rollout(ending):
    class Stopped(Exception):
        pass

    def stop(worlds, row):
        if row == 2:
            raise Stopped

    with VectorWorld([partial(slow, partial(time.sleep, 0.2))] * 3, workers="thread", num_workers=3) as worlds:
        with pytest.raises(Stopped):
            rollout(Scripted(stop), worlds, [1, 2, 3], env_ids=[WORLD] * 3)
        played = rollout(Scripted(), worlds, [4, 5, 6], env_ids=[WORLD] * 3)
    assert [len(each.turns) for each in played] == [3] * 3
    assert not any(map(is_lost, played))


def test_an_episode_without_room_is_truncated(ending):
    with vector(1) as worlds:
        (whole,) = rollout(agent_of(ending), worlds, [1], env_ids=[WORLD])
        room = len(whole.turns[0].prompt_ids) + 12
        (cut,) = rollout(agent_of(ending, max_context_tokens=room), worlds, [1], env_ids=[WORLD])
        with pytest.raises(ConfigError, match="more than the context"):
            rollout(agent_of(ending, max_context_tokens=room - 1), worlds, [1], env_ids=[WORLD])
    assert [turn.info.get("context_full") for turn in cut.turns] == [True]
    assert told(cut)[2][0][:4] == told(whole)[2][0][:4]


def test_rollouts_draw_anew_and_a_saved_agent_goes_on(ending):
    with vector(2) as worlds:
        agent, other = agent_of(ending), agent_of(ending)
        first, second = (texts(rollout(agent, worlds, [1, 2], env_ids=[WORLD] * 2)) for _ in range(2))
        assert first != second
        rollout(other, worlds, [1, 2], env_ids=[WORLD] * 2)
        resumed = agent_of(ending)
        resumed.load_state_dict(other.state_dict())
        assert texts(rollout(resumed, worlds, [1, 2], env_ids=[WORLD] * 2)) == second


def test_a_reset_that_is_tried_again_changes_no_episode_of_this_rollout_or_the_next(ending):
    failures = [WorkerError("the simulator did not come up")]

    def failing_once():
        world = made()
        real = world.unwrapped.reset

        def reset(**kwargs):
            if failures:
                raise failures.pop()
            return real(**kwargs)

        world.unwrapped.reset = reset
        return world

    def played(makers):
        agent = agent_of(ending)
        with VectorWorld(makers) as worlds:
            return [[told(each) for each in try_rollout(agent, worlds, SEEDS, env_ids=[WORLD] * 6)] for _ in range(2)]

    assert played([*[made] * 5, failing_once]) == played([made] * 6)
