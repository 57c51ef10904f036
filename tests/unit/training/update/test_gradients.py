"""Micro-batches that go through at the same time make the gradient that they make one after another."""

from __future__ import annotations

import copy
import threading

import pytest
import torch

from tests.unit.slow import quick
from tests.unit.training.batches import run_config
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.config.update_config import PPOConfig
from training.engines.engine import LocalEngine
from training.update.learner import Learner


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def played(played_by_tiny):
    return played_by_tiny(num_rows=8)


def learner_of(model, encoder, engine=None, num_at_once=2, **settings):
    ppo = PPOConfig(
        num_minibatches=1,
        warmup_iterations=0,
        learning_rate=1e-3,
        entropy_coef=0.01,
        kl_coef=0.01,
        micro_batch_size=2,
        num_micro_batches_at_once=num_at_once,
    )
    algorithm = BilevelGAE(critic=CriticConfig(learning_rate=1e-3, num_minibatches=1))
    config = run_config(algorithm=algorithm, ppo=ppo, num_groups=4, **settings)
    return Learner(copy.deepcopy(model), encoder.suppressed_ids(), config, engine)


def updated(learner, batch):
    """Returns what the models said, the update's metrics, and its gradients."""
    for optimizer in (learner.policy_optimizer, learner.critic_optimizer):
        forget = optimizer.zero_grad
        optimizer.zero_grad = lambda forget=forget, once=[1]: forget() if once and once.pop() else None
    outputs = learner.model_outputs(batch)
    metrics = learner.update(batch, outputs, learner.config.algorithm.credit(batch, outputs), iteration=0)
    return outputs, metrics, [weight.grad for weight in learner.policy_optimizer._stepped]


@pytest.mark.parametrize("dtype", quick(["float32", "bfloat16"], "float32"))
def test_two_at_once_make_the_gradient_of_one_after_another(played, dtype):
    model, encoder, batch = played
    model = model.to(getattr(torch, dtype))
    first, second = (learner_of(model, encoder, num_at_once=number) for number in (1, 2))
    torch.set_num_threads(1)  # one thread each, so that nothing is rounded otherwise
    one, two = (updated(learner, batch) for learner in (first, second))
    for name in ("old_logprobs_BT", "ref_logprobs_BT", "values_BT", "turn_end_values_BK", "final_values_B"):
        assert torch.equal(getattr(one[0], name), getattr(two[0], name)), name
    assert one[1] == two[1]
    assert sum(gradient is not None for gradient in one[2]) > 10
    for a, b in zip(one[2], two[2], strict=True):
        assert (a is None and b is None) or torch.equal(a, b)


def test_both_are_under_way_at_a_time(played, monkeypatch):
    model, encoder, batch = played
    learner = learner_of(model, encoder)
    forward, both = learner._policy.forward, threading.Barrier(2, timeout=60)

    def passing(part, entropy_mode):
        both.wait()  # alone, it would wait in vain
        return forward(part, entropy_mode)

    monkeypatch.setattr(learner._policy, "forward", passing)
    _, metrics, _ = updated(learner, batch)
    assert metrics["grad_norm"] > 0


class Wrapping(LocalEngine):
    takes_passes_side_by_side = False


def test_passes_of_engines_that_wrap_modules_go_one_after_another(played):
    model, encoder, _ = played
    assert learner_of(model, encoder, Wrapping())._side_by_side.num_at_once == 1
