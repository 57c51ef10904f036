"""vLLM in the trainer's own process. Run in .venv-vllm, by `make test-vllm`."""

import random

import numpy as np
import pytest
import torch

from agents.vllm.vllm_agent import ContinuousVLLMAgent, VLLMAgent, make_engine
from agents.vllm.vllm_config import SamplerLostError, VLLMConfig
from agents.vllm.vllm_engine import sampling_params
from tests.unit.episodes import play
from tests.vllm.sampling import (
    GREEDY,
    checkpoint,
    require_alike,
    require_alone,
    require_never_waiting,
    require_new_weights,
)
from vlm_envs.trajectory import failure_of

CONFIG = VLLMConfig(memory_fraction=0.1, max_images=4)


@pytest.fixture(scope="module")
def tiny():
    return checkpoint()


@pytest.fixture(scope="module")
def engine(tiny):
    made = make_engine(CONFIG, *tiny, GREEDY)
    yield made
    made.close()


def test_greedy_tokens_are_the_transformers_samplers_and_so_are_their_log_probabilities(engine, tiny):
    require_alike(engine, *tiny)


def test_what_is_sampled_after_a_sync_is_what_the_new_weights_say(engine, tiny):
    require_new_weights(engine, *tiny)


def test_episodes_are_the_same_when_none_waits_for_another(engine, tiny):
    require_never_waiting(engine, *tiny)


def test_what_a_turn_has_in_common_with_the_one_before_is_not_computed_again_until_the_weights_are_others(
    engine, tiny, monkeypatch
):
    agent = VLLMAgent(model=tiny[0], encoder=tiny[1], sampling=GREEDY, engine=engine)
    real, cached = engine._llm.llm_engine.step, []

    def step():
        outputs = real()
        cached.extend(each.num_cached_tokens for each in outputs if each.finished)
        return outputs

    monkeypatch.setattr(engine._llm.llm_engine, "step", step)

    def played_at(version):
        cached.clear()
        agent.sync(tiny[0], version)
        (episode,) = play(agent, [5], max_turns=(3,))
        assert len(episode.turns) == len(cached) == 3
        return [*cached]

    first = played_at(901)  # in blocks of 128 tokens, one of which is full before the third turn
    assert first[0] == 0 < first[2]
    assert played_at(902) == first, "nothing is known of new weights"


def test_a_row_is_sampled_alike_whoever_is_beside_it(engine, tiny, monkeypatch):
    def with_sampling(sampling):
        monkeypatch.setattr(engine, "_params", sampling_params(tiny[1], sampling))
        return engine

    require_alone(with_sampling, *tiny)


@pytest.mark.parametrize("kind", [VLLMAgent, ContinuousVLLMAgent])
def test_what_fails_in_a_step_costs_the_episodes_that_it_was_sampling(engine, tiny, monkeypatch, kind):
    """Once, as a device that has no memory left for a moment: the next rollout is as it would have been."""
    agent = kind(model=tiny[0], encoder=tiny[1], sampling=GREEDY, engine=engine)
    expected = play(agent, range(3), max_turns=(3,))
    real, calls = engine._llm.llm_engine.step, []

    def failing():
        calls.append(None)
        if len(calls) == 45:
            raise torch.OutOfMemoryError("no memory for a moment")
        return real()

    monkeypatch.setattr(engine._llm.llm_engine, "step", failing)
    lost = play(agent, range(3), max_turns=(3,))
    assert any(failure_of(each) for each in lost)
    assert all("no memory for a moment" in failure_of(each) for each in lost if failure_of(each))
    assert any(each.turns[0].response_text for each in lost), "what was said before it stands"
    again = play(agent, range(3), max_turns=(3,))
    assert [[turn.response_text for turn in each.turns] for each in again] == [
        [turn.response_text for turn in each.turns] for each in expected
    ]


def test_weights_that_are_not_taken_are_a_lost_sampler(engine, tiny, monkeypatch):
    def failing(*args, **kwargs):
        raise RuntimeError("size mismatch")

    monkeypatch.setattr(engine._llm, "collective_rpc", failing)
    with pytest.raises(SamplerLostError, match=r"(?s)size mismatch.*--resume"):
        engine.load(tiny[0].state_dict(), "other")


def test_the_trainers_own_generators_stay_where_they_are(engine, tiny):
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    require_alike(engine, *tiny, num_episodes=2)
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate() and np.array_equal(states[2], np.random.get_state()[1])
