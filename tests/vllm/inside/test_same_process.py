"""vLLM in the trainer's own process. Run in .venv-vllm, by `make test-vllm`."""

import random

import numpy as np
import pytest
import torch

from agents.vllm.agent import make_engine
from agents.vllm.config import VLLMConfig
from agents.vllm.engine import sampling_params
from tests.vllm.sampling import (
    GREEDY,
    checkpoint,
    require_alike,
    require_alone,
    require_never_waiting,
    require_new_weights,
)

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


def test_a_row_is_sampled_alike_whoever_is_beside_it(engine, tiny, monkeypatch):
    def with_sampling(sampling):
        monkeypatch.setattr(engine, "_params", sampling_params(tiny[1], sampling))
        return engine

    require_alone(with_sampling, *tiny)


def test_the_trainers_own_generators_stay_where_they_are(engine, tiny):
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    require_alike(engine, *tiny, num_episodes=2)
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate() and np.array_equal(states[2], np.random.get_state()[1])
