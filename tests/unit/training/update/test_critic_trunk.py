"""A critic on the policy's trunk learns with its head alone, and changes nothing of the policy."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.unit.slow import quick
from tests.unit.training.batches import run_config
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.config.processes import require_engine
from training.config.update_config import LoRAConfig, PPOConfig
from training.engines.policy import ValueModel, hidden_states
from training.update.learner import Learner
from vlm_envs.errors import ConfigError

WARMUP = {"warmup_iterations": 100, "num_epochs": 4, "num_minibatches": 2, "learning_rate": 1e-2, "value_clip": None}
PPO = PPOConfig(num_minibatches=1, warmup_iterations=0, learning_rate=1e-3)


def learner_of(model, encoder, *, lora=None, **critic):
    algorithm = BilevelGAE(critic=CriticConfig(trunk="policy", **critic))
    config = run_config(algorithm=algorithm, ppo=PPO, num_groups=4, num_iterations=200, lora=LoRAConfig(rank=lora))
    return Learner(copy.deepcopy(model), encoder.suppressed_ids(), config)


@pytest.fixture
def played(played_by_tiny):
    return played_by_tiny()


def step(learner, batch, iteration=0):
    outputs = learner.model_outputs(batch)
    return learner.update(batch, outputs, learner.config.algorithm.credit(batch, outputs), iteration=iteration)


def test_a_head_of_the_policys_hidden_states_is_all_that_it_is(played):
    model, _, batch = played
    critic = ValueModel(model, trunk="policy")
    names = {name for name, _ in critic.named_parameters()}
    assert names and all(name.startswith("head.") for name in names)
    assert critic.model is model.model
    torch.nn.init.normal_(critic.head[-1].weight)
    values = critic(batch)
    with torch.no_grad():
        through_BT = critic.values(hidden_states(model, batch))
    is_token_BT = batch.turn_index_BT[:, 1:] >= 0
    assert torch.equal(values.before_BT[:, 1:][is_token_BT], through_BT[:, :-1][is_token_BT])
    values.before_BT.sum().backward()
    assert all(weight.grad is None for weight in model.parameters())
    assert all(weight.grad is not None for weight in critic.parameters())


@pytest.mark.soak
def test_it_learns_and_leaves_the_policy_alone(played):
    learner = learner_of(*played[:2], **WARMUP)
    before = copy.deepcopy(learner.policy.state_dict())
    losses = [step(learner, played[2], iteration)["value_loss"] for iteration in range(8)]
    assert losses[-1] < losses[0] / 2
    assert all(torch.equal(weight, before[name]) for name, weight in learner.policy.state_dict().items())


@pytest.mark.parametrize("lora", quick([None, 4], None))
def test_what_it_is_goes_on_from_a_checkpoint(played, lora):
    model, encoder, batch = played
    first = learner_of(model, encoder, lora=lora, learning_rate=1e-2, value_clip=None, num_minibatches=1)
    step(first, batch)
    state = copy.deepcopy(first.state_dict())
    assert sum(value.numel() for value in state["critic"].values()) < 0.05 * sum(p.numel() for p in model.parameters())
    other = learner_of(model, encoder, lora=lora, learning_rate=1e-2, value_clip=None, num_minibatches=1)
    other.load_state_dict(state)
    step(first, batch, 1)
    step(other, batch, 1)
    for part in ("policy", "critic"):
        expected = getattr(first, part).state_dict()
        found = getattr(other, part).state_dict()
        assert all(torch.equal(value, found[name]) for name, value in expected.items()), part


def test_the_policy_learns_as_it_would_with_any_critic_of_these_values(played):
    learner = learner_of(*played[:2], learning_rate=1e-3, value_clip=None, num_minibatches=1)
    before = copy.deepcopy(learner.policy.state_dict())
    metrics = step(learner, played[2])
    assert metrics["grad_norm"] > 0 and metrics["critic_grad_norm"] > 0
    assert any(not torch.equal(weight, before[name]) for name, weight in learner.policy.state_dict().items())


def test_fsdp2_is_refused():
    of_accelerate = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
    environment = {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", **of_accelerate}
    with pytest.raises(ConfigError, match=r"--algorithm\.critic\.trunk policy.*--engine\s+ddp"):
        require_engine("auto", num_groups=4, has_adapters=False, critic_trunk="policy", environment=environment)
