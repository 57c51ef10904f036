"""Conversations go to an engine token by token, with weights that are the agent's own; no vLLM is needed for it."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from agents.agent import ContinuousAgent, LearningAgent, RolloutRows
from agents.hf.sampling_config import SamplingConfig
from agents.registry import make_agent
from agents.vllm.vllm_agent import ContinuousVLLMAgent, VLLMAgent, VLLMSampler, make_engine
from agents.vllm.vllm_config import VLLMConfig
from tests.unit.agents.vllm.engines import FakeEngine
from tests.unit.episodes import play
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.trajectory import failure_of

SAMPLING = SamplingConfig(max_new_tokens=4)


@pytest.fixture
def engine(tiny):
    return FakeEngine(tiny[1].end_of_turn_id)


@pytest.fixture
def agent(tiny, engine):
    return VLLMAgent(model=tiny[0], encoder=tiny[1], sampling=SAMPLING, seed=3, engine=engine)


def test_each_request_is_the_whole_conversation_so_far_with_its_pictures(agent, engine, tiny):
    episodes = play(agent, range(2), max_turns=(3,))
    first = [request for request in engine.requests if request.images[0].key == engine.requests[0].images[0].key]
    turns = episodes[0].turns
    assert len(turns) == 3 and [len(request.images) for request in first] == [1, 2, 3]
    for index, request in enumerate(first):
        parts = [part for turn in turns[:index] for part in (turn.prompt_ids, turn.response_ids)]
        assert request.ids == np.concatenate([*parts, turns[index].prompt_ids]).tolist()
        for offset, image in zip(request.offsets, request.images, strict=True):
            assert {*request.ids[offset : offset + image.num_tokens]} == {tiny[1].image_token_id}
            assert request.ids[offset - 1] != tiny[1].image_token_id
    assert turns[0].sampler_logprobs.tolist() == [-0.5] * 4


def test_a_seed_depends_on_row_turn_and_start_and_on_nothing_beside_it(tiny, engine):
    segment = tiny[1].encode({"text": "Hi.", "images": ()}, is_first=True)

    def seeds(rows, starts=1, seed=3):
        """Returns the seeds of two turns of each row."""
        sampler = VLLMSampler(engine, tiny[1], seed)
        for _ in range(starts):
            sampler.start(RolloutRows.ungrouped(4))
        engine.requests.clear()
        for _ in range(2):
            sampler.continue_rows(rows, [segment] * len(rows))
        return {row: [each.seed for each in engine.requests[index :: len(rows)]] for index, row in enumerate(rows)}

    together = seeds([0, 1, 2, 3])
    known = {each for row in together.values() for each in row}
    assert len(known) == 8
    assert seeds([2]) == {2: together[2]} and seeds([3, 1]) == {3: together[3], 1: together[1]}
    assert not known & {*seeds([0], starts=2)[0], *seeds([0], seed=4)[0]}


def test_it_learns_and_an_engine_that_another_agent_used_is_given_its_own_weights_again(agent, engine, tiny):
    assert isinstance(agent, LearningAgent)
    other = copy.deepcopy(tiny[0])
    with torch.no_grad():
        other.lm_head.weight.add_(1.0)
    agent.sync(tiny[0], 4)
    (episode,) = play(agent, range(1))
    assert episode.policy_version == 4 and len(engine.loaded) == 1, "what was just loaded is not loaded again"
    play(VLLMAgent(model=other, encoder=tiny[1], engine=engine), range(1))
    play(agent, range(1))
    heads = [loaded["lm_head.weight"] for loaded in engine.loaded]
    assert len(heads) == 3 and torch.equal(heads[0], heads[2]) and not torch.equal(heads[0], heads[1])


def test_weights_are_loaded_under_the_names_it_is_told(tiny, engine):
    agent = VLLMAgent(
        model=tiny[0], encoder=tiny[1], engine=engine, weights_of=lambda model: {"head": model.lm_head.weight}
    )
    agent.sync(tiny[0], 1)
    assert [*engine.loaded[0]] == ["head"]


def test_it_goes_on_sampling_where_its_state_stands(tiny, agent):
    play(agent, range(2))
    second = VLLMAgent(
        model=tiny[0], encoder=tiny[1], sampling=SAMPLING, seed=3, engine=FakeEngine(tiny[1].end_of_turn_id)
    )
    second.load_state_dict(agent.state_dict())
    texts = [[turn.response_text for each in play(one, range(2)) for turn in each.turns] for one in (agent, second)]
    assert texts[0] == texts[1]


def test_an_episode_whose_response_is_lost_ends_and_says_so_and_the_others_go_on(tiny):
    engine = FakeEngine(tiny[1].end_of_turn_id, lost_after=3)
    agent = VLLMAgent(model=tiny[0], encoder=tiny[1], sampling=SAMPLING, engine=engine)
    episodes = play(agent, range(2))
    assert [failure_of(episode) for episode in episodes] == ["the engine is gone", ""]
    assert [turn.stop_reason for turn in episodes[0].turns] == ["stop", "error"]


def test_episodes_that_wait_for_none_are_those_of_a_batch_that_waits(tiny):
    made = {"model": tiny[0], "encoder": tiny[1], "sampling": SAMPLING, "seed": 3}
    engines = [FakeEngine(tiny[1].end_of_turn_id) for _ in range(2)]
    waiting, continuous = VLLMAgent(**made, engine=engines[0]), ContinuousVLLMAgent(**made, engine=engines[1])
    assert isinstance(continuous, ContinuousAgent) and not isinstance(waiting, ContinuousAgent)
    for a, b in zip(*(play(agent, range(4), max_turns=(3, 1)) for agent in (waiting, continuous)), strict=True):
        assert [turn.response_text for turn in a.turns] == [turn.response_text for turn in b.turns]
        assert all(np.array_equal(x.prompt_ids, y.prompt_ids) for x, y in zip(a.turns, b.turns, strict=True))
    assert len(engines[0].requests) == len(engines[1].requests) > 4


def test_what_is_given_up_is_not_answered_any_more(tiny, engine):
    sampler, segment = VLLMSampler(engine, tiny[1], 3), tiny[1].encode({"text": "Hi.", "images": ()}, is_first=True)
    sampler.start(RolloutRows.ungrouped(2))
    for row in range(2):
        sampler.add_request(row, segment)
    sampler.abort(1)
    assert [*sampler.step()] == [0] and not sampler.has_unfinished_requests and not engine.asked
    sampler.add_request(0, segment)
    sampler.release()
    assert not engine.asked


def test_only_an_engine_of_its_own_is_closed_with_it(agent, engine):
    agent.close()
    assert not engine.is_closed


def test_what_it_cannot_be_made_from_is_told(tiny, engine, monkeypatch):
    with pytest.raises(ConfigError, match=r"takes a checkpoint directory, vllm:DIR"):
        make_agent("vllm")
    with pytest.raises(FileNotFoundError):
        make_agent("vllm:nowhere")
    monkeypatch.setattr("agents.vllm.vllm_config.find_spec", lambda name: None)
    told = r"needs the package vllm,.*pip install -e '\.\[vllm\]' vllm==.*--vllm\.url"
    with pytest.raises(EngineUnavailableError, match=told):
        make_engine(VLLMConfig(), *tiny)


def test_a_model_whose_pictures_cannot_be_handed_over_is_refused(tiny, monkeypatch):
    monkeypatch.setattr(tiny[0].model.config, "model_type", "gemma3")
    with pytest.raises(ConfigError, match=r"samples Qwen2\.5-VL and Qwen3-VL here; this model is a gemma3"):
        make_engine(VLLMConfig(), *tiny)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"url": "localhost:8000"}, "must be a server's address"),
        ({"url": "http://a/?b"}, "must be a server's address"),
        ({"url": "http://a:8000/v1"}, "without /v1"),
        ({"url": "http://a:1,"}, "must be a server's address"),
        ({"url": "http://a:1, http://a:1"}, "names a server twice"),
        ({"weights_dir": "/w"}, "weights_dir .*url"),
        ({"process": "own"}, r"must be 'same', got 'own'.*start a server.*url"),
        ({"memory_fraction": 0}, "memory_fraction"),
        ({"max_parallel": 0}, "max_parallel"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, told):
    with pytest.raises(ConfigError, match=told):
        VLLMConfig(**settings)


def test_servers_are_shared_out_in_turn_each_with_a_folder_of_its_own():
    config = VLLMConfig(url="http://a:1, http://b:2", weights_dir="/w")
    shared_out = [config.for_process(rank) for rank in range(3)]
    assert [each.url for each in shared_out] == ["http://a:1", "http://b:2", "http://a:1"]
    assert [each.weights_dir for each in shared_out] == ["/w/0", "/w/1", "/w/0"]
    one = VLLMConfig(url="http://a:1", weights_dir="/w")
    assert one.for_process(1) == one
