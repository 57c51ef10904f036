"""Gradients that explode are told apart from single large ones, and end a run where that is asked for."""

from __future__ import annotations

import pytest
import torch

from training.config.update_config import AdamWConfig
from training.engines.optimizer import NormWatch, Optimizer
from training.errors import ExplodingGradientError


def seen(norms, max_steps=3):
    watch = NormWatch("policy", max_steps)
    for norm in norms:
        watch.see(norm)
    return watch


def test_the_last_of_several_in_a_row_ends_the_run():
    with pytest.raises(ExplodingGradientError, match=r"policy were more.*median 2\) in 3 steps in a row"):
        seen([2.0] * 10 + [201.0, 1e5, 201.0])


@pytest.mark.parametrize(
    "norms",
    [
        [2.0] * 10 + [300.0, 300.0, 2.0, 300.0, 300.0],
        [2.0] * 10 + [200.0] * 10,
        [1e-3] * 5 + [300.0] * 30,
        [0.0] * 20 + [1.0] * 20,
    ],
    ids=["never so many in a row", "not so large", "too early to tell", "groups that taught nothing"],
)
def test_what_is_no_explosion_is_let_pass(norms):
    seen(norms)


def test_exploded_gradients_do_not_become_what_others_are_measured_by():
    watch = seen([1.0] * 10 + [1e4] * 200, max_steps=None)
    assert watch.num_in_a_row == 200


def test_without_a_limit_it_is_told_once(capsys):
    seen([1.0] * 10 + [1e4] * 9, max_steps=None)
    assert capsys.readouterr().err.count("--ppo.max-exploding-steps N") == 1


def test_a_step_that_ends_the_run_is_not_taken_and_the_count_survives_a_resumption():
    weight = torch.nn.Linear(1, 1, bias=False)

    def optimizer():
        settings = {"learning_rate": 0.1, "adamw": AdamWConfig(), "max_grad_norm": 1.0, "max_nonfinite_steps": 1}
        return Optimizer(weight, **settings, what="policy", max_exploding_steps=2)

    def step(learner, gradient):
        learner.zero_grad()
        learner.backward(gradient * weight.weight.sum())
        learner.step()

    first = optimizer()
    for _ in range(10):
        step(first, 1.0)
    step(first, 1e3)
    again = optimizer()
    again.load_state_dict(first.state_dict(), weight.state_dict())
    before = weight.weight.detach().clone()
    with pytest.raises(ExplodingGradientError):
        step(again, 1e3)
    assert torch.equal(weight.weight, before)
