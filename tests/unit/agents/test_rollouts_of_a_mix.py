"""Batches of several kinds of worlds: with an agent that lets no episode wait, none waits for another batch either."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from agents.hf.hf_agent import HFAgent
from agents.rollout import WorldBatch, try_rollout, try_rollouts
from tests.unit.agents.test_continuous_rollout import WORLD, agent_of, made, slow, told
from tests.unit.agents.test_resets_one_by_one import dying
from tests.unit.models import with_ending
from tests.unit.slow import quick
from vlm_envs import make
from vlm_envs.trajectory import is_lost
from vlm_envs.vector.vector_world import VectorWorld

OTHER = "VLM/Sokoban-v0"
SEEDS = [11, 11, 12, 13]


def sokoban():
    return make(OTHER, prompt_format="no_think", max_turns=4)


@pytest.fixture
def ending(tiny):
    """The tiny model, whose responses end after a few tokens, and its encoder."""
    return with_ending(*tiny, bias=4.0), tiny[1]


def batches(first, second, on_first=None, on_second=None):
    return [
        WorldBatch(first, SEEDS, [WORLD] * 4, on_turn=on_first),
        WorldBatch(second, SEEDS[:3], [OTHER] * 3, on_turn=on_second),
    ]


@pytest.mark.parametrize(
    "settings", quick([{}, {"workers": "thread", "num_workers": 2}, {"workers": "process"}], {"workers": "process"})
)
@pytest.mark.soak
def test_episodes_are_those_of_batches_played_in_turn(ending, settings):
    with VectorWorld([made] * 4) as first, VectorWorld([sokoban] * 3) as second:
        in_step, in_turn = agent_of(ending, HFAgent), agent_of(ending)
        expected = [try_rollouts(in_step, batches(first, second)) for _ in range(2)]
        alone = [[try_rollout(in_turn, *each[:2], env_ids=each.env_ids) for each in batches(first, second)]]
    with VectorWorld([made] * 4, **settings) as first, VectorWorld([sokoban] * 3) as second:
        together = agent_of(ending)
        found = [try_rollouts(together, batches(first, second)) for _ in range(2)]
    episodes = [[[told(each) for each in batch] for batch in played] for played in found]
    assert episodes == [[[told(each) for each in batch] for batch in played] for played in expected]
    assert episodes[0] == [[told(each) for each in batch] for batch in alone[0]]
    assert episodes[0] != episodes[1], "each rollout draws anew"
    assert {each.env_id for each in found[0][1]} == {OTHER}


def test_a_world_that_is_slow_holds_up_no_other_batch(ending):
    """The first batch makes its first step only when the second is through."""
    order, ends, is_through = [], [], threading.Event()

    def second(row, turn):
        order.append("second")
        ends.extend([row] * (turn.terminated or turn.truncated))
        if len(ends) == 3:
            is_through.set()

    env_fns = [partial(slow, lambda: is_through.wait(60.0))] * 4
    with VectorWorld(env_fns, workers="thread", num_workers=4) as slow_ones, VectorWorld([sokoban] * 3) as others:
        played = try_rollouts(
            agent_of(ending),
            batches(slow_ones, others, lambda row, turn: order.append("first"), second),
        )
    num_second = sum(len(each.turns) for each in played[1])
    assert order == ["second"] * num_second + ["first"] * (len(order) - num_second)
    assert len(order) > num_second


def test_a_world_that_cannot_be_started_costs_itself_only(ending, tmp_path):
    marker = tmp_path / "deaths"
    marker.write_text("again\n" * 9)
    env_fns = [made, partial(dying, marker), made, made]
    with VectorWorld(env_fns, workers="process", num_workers=4) as first, VectorWorld([sokoban] * 3) as second:
        played = try_rollouts(agent_of(ending), batches(first, second))
        expected = try_rollouts(agent_of(ending, HFAgent), batches(first, second))
    assert [each is None for each in played[0]] == [False, True, False, False]
    assert not any(is_lost(each) for each in played[1])
    assert [told(each) for each in played[1]] == [told(each) for each in expected[1]]
