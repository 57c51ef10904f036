"""Agents that sample are told which rows start from the same state, in every kind of rollout."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from agents.agent import RolloutRows
from agents.hf.continuous_batching import ContinuousHFAgent
from agents.hf.hf_agent import HFAgent
from agents.hf.sampling_config import SamplingConfig
from agents.rollout import play_episodes, try_rollout
from agents.vllm.vllm_agent import ContinuousVLLMAgent, VLLMAgent
from tests.unit.agents.vllm.engines import FakeEngine
from tests.unit.agents.worlds import WORLD, Once, die, fail, made, with_reset
from tests.unit.training.batches import run_config
from training.config.world_spec import WorldSpec
from training.level_episodes import play_each
from training.loop.collect import Collector
from training.loop.evaluation import evaluate
from training.rewards.verifier import replies
from vlm_envs.trajectory import is_lost
from vlm_envs.vector.vector_world import VectorWorld

LAKE = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"prompt_format": "no_think", "max_turns": 2})
SOKOBAN = WorldSpec(env_id="VLM/Sokoban-v0", kwargs={"prompt_format": "no_think", "max_turns": 2})
SAMPLERS = [HFAgent, ContinuousHFAgent, VLLMAgent, ContinuousVLLMAgent]
pytestmark = pytest.mark.parametrize("agent_class", SAMPLERS)


@pytest.fixture
def agent(tiny, agent_class):
    """An agent that notes the rows it is started with."""

    class Noting(agent_class):
        started: list[RolloutRows]

        def start(self, worlds, rows):
            self.started = [*getattr(self, "started", []), rows]
            super().start(worlds, rows)

    model, encoder = tiny
    engine = {"engine": FakeEngine(encoder.end_of_turn_id)} if issubclass(agent_class, VLLMAgent) else {}
    return Noting(model=model, encoder=encoder, sampling=SamplingConfig(max_new_tokens=3), seed=5, **engine)


def test_siblings_are_a_group_in_training(agent, agent_class):
    collector = Collector(run_config(worlds=(LAKE, SOKOBAN), num_groups=4, group_size=3))
    groups = collector.collect(agent, 0)
    collector.close()
    if agent_class in (HFAgent, VLLMAgent):
        expected = [RolloutRows(batch_sizes=(6,), group_of_row=(0, 0, 0, 1, 1, 1))] * 2
    else:
        expected = [RolloutRows(batch_sizes=(6, 6), group_of_row=tuple(np.repeat(range(4), 3).tolist()))]
    assert agent.started == expected
    for group in groups:
        first, *others = group.trajectories
        for other in others:
            assert np.array_equal(other.turns[0].prompt_ids, first.turns[0].prompt_ids)
            assert other.start_state_hash == first.start_state_hash


def test_each_level_is_a_group_in_an_evaluation(agent):
    evaluate(agent, LAKE, split="val", num_episodes=3)
    play_each(agent, LAKE, [7, 8, 7], split="val", max_parallel=3)
    assert agent.started == [
        RolloutRows.ungrouped(3),
        RolloutRows(batch_sizes=(3,), group_of_row=(0, 1, 0)),
    ]


def test_an_agent_that_overrides_start_without_rows_draws_the_same(agent, tiny, agent_class):
    class Plain(agent_class):
        def start(self, worlds):
            super().start(worlds)

    engine = {"engine": FakeEngine(tiny[1].end_of_turn_id)} if issubclass(agent_class, VLLMAgent) else {}
    plain = Plain(model=tiny[0], encoder=tiny[1], sampling=SamplingConfig(max_new_tokens=3), seed=5, **engine)
    with VectorWorld([made] * 2) as worlds:
        played = [try_rollout(each, worlds, [4, 4], env_ids=[WORLD] * 2) for each in (agent, plain)]
    told, untold = [[turn.response_ids.tolist() for each in episodes for turn in each.turns] for episodes in played]
    assert told == untold


def test_questions_outside_of_worlds_are_answered(agent):
    questions = [{"text": "Where is it?", "images": ()}, {"text": "And now?", "images": ()}]
    assert len(replies(agent, questions)) == 2
    assert agent.started == [RolloutRows.ungrouped(2)]


def test_a_row_without_an_episode_is_a_group_of_its_own(agent, agent_class):
    with VectorWorld([made] * 4) as worlds:
        assert len([*play_episodes(agent, worlds, [3, 3], env_id=WORLD)]) == 2
    is_batch = agent_class in (HFAgent, VLLMAgent)  # which plays the last episode in the other worlds, too
    assert [rows.group_of_row for rows in agent.started] == [(0, 0, 0, 0) if is_batch else (0, 0, 1, 2)]


@pytest.mark.parametrize("mishap", [fail, die])
def test_groups_are_the_same_after_worlds_were_started_again(agent, agent_class, mishap, tmp_path):
    env_fns = [made, made, partial(with_reset, Once(tmp_path / "marker", mishap)), made]
    with VectorWorld(env_fns, workers="process", num_workers=2) as worlds:
        played = try_rollout(agent, worlds, [4, 4, 6, 6], env_ids=[WORLD] * 4)
    assert not any(map(is_lost, played))
    expected = RolloutRows(batch_sizes=(4,), group_of_row=(0, 0, 1, 2))  # row 2 is a world of another kind
    num_starts = 1 if agent_class in (HFAgent, VLLMAgent) else 2
    assert agent.started == [expected] * num_starts
