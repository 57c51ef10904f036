"""What a run does to fit its devices changes nothing about what is learnt."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from tests.unit.training.batches import played_batch, run_config
from training.config.memory import MemoryConfig
from training.config.ppo import PPOConfig
from training.loop.learner import Learner


@pytest.fixture
def played(tiny):
    return tiny[0], tiny[1], played_batch(*tiny, num_rows=4)


def learner_of(model, encoder, memory=None, **ppo):
    settings = {"num_minibatches": 1, "num_epochs": 2, "warmup_iterations": 0, "learning_rate": 1e-3, "kl_coef": 0.01}
    config = run_config(memory=memory or MemoryConfig(), ppo=PPOConfig(**(settings | ppo)), num_groups=2)
    return Learner(copy.deepcopy(model), encoder.suppressed_ids(), config)


def updated(learner, batch, iteration=0):
    outputs = learner.model_outputs(batch)
    credit = replace(learner.config.algorithm.credit(batch, outputs), turn_end_returns_BK=None)
    return learner.update(batch, outputs, credit, iteration=iteration)


def forward_passes(module):
    """Returns a list that grows with each forward pass of a module."""
    seen = []
    module.register_forward_hook(lambda *_: seen.append(1))
    return seen


def test_gradient_checkpointing_is_of_policy_and_critic_in_the_update_alone(played):
    model, encoder, batch = played
    plain = learner_of(model, encoder)
    expected = updated(plain, batch)
    learner = learner_of(model, encoder, MemoryConfig(gradient_checkpointing=True))
    passes = [
        forward_passes(each.model.language_model.layers[0].self_attn)
        for each in (learner.policy, learner.critic, learner.reference)
    ]
    learner.model_outputs(batch)
    assert [len(each) for each in passes] == [1, 1, 1]
    metrics = updated(learner, batch)
    # Old log-probabilities once more; then two steps of the policy and four of the critic, each of two passes
    assert [len(each) for each in passes] == [1 + 1 + 4, 1 + 1 + 8, 2]
    assert metrics == pytest.approx(expected, rel=1e-4)
    for name, weight in plain.policy.state_dict().items():
        assert torch.allclose(learner.policy.state_dict()[name], weight, atol=1e-5), name
