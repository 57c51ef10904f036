"""The whole update on a device that is not the CPU: every algorithm, with all that it allows switched on."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch

from tests.unit.second_device import DeviceTensor, moved, second_device
from tests.unit.slow import quick
from tests.unit.training.batches import WORLD, played_batch, run_config
from training.algorithms.shipped import SHIPPED
from training.cold_start.cold_start_config import ColdStartConfig
from training.cold_start.cold_start_loop import cold_start
from training.config.update_config import PPOConfig
from training.update.learner import Learner

EVERYTHING: dict[str, Any] = {
    "num_minibatches": 1,
    "micro_batch_size": 3,
    "learning_rate": 1e-5,
    "kl_coef": 0.01,
    "entropy_coef": 0.01,
    "old_logprobs": "trainer",
    "importance_cap": 2.0,
}


def learner_of(model: Any, encoder: Any, name: str, *, value_clip: float | None = 0.5, **ppo: Any) -> Learner:
    own = SHIPPED[name]().with_critic(num_minibatches=2, learning_rate=1e-4, value_clip=value_clip)
    allowed = {setting: value for setting, value in EVERYTHING.items() if setting not in own.update_settings}
    steps = {"num_minibatches": 2} if own.needs_several_steps else {}
    config = run_config(num_groups=2, algorithm=own, ppo=PPOConfig(**(allowed | steps | ppo)))
    return Learner(model, encoder.suppressed_ids(), config)


def updated_twice(learner: Learner, batch: Any) -> dict[str, float]:
    """Returns the metrics of a second iteration, in which policy and reference, values and returns have parted."""
    for iteration in range(2):
        outputs = learner.model_outputs(batch)
        credit = learner.config.algorithm.credit(batch, outputs)
        metrics = learner.update(batch, outputs, credit, iteration=iteration)
    return metrics


OTHERWISE = {"old_logprobs": "sampler", "importance_cap": None, "aggregation": "constant"}


@pytest.mark.parametrize("name", quick(SHIPPED, "bilevel_gae"))
def test_an_update_is_the_same_on_another_device(tiny, name):
    model, encoder = tiny
    batch = played_batch(model, encoder, num_rows=4)
    ppo = OTHERWISE if name == "turn_gae" else {}
    expected = updated_twice(learner_of(copy.deepcopy(model), encoder, name, **ppo), batch)
    with second_device():
        learner = learner_of(moved(copy.deepcopy(model)), encoder, name, **ppo)
        metrics = updated_twice(learner, batch)
        assert all(isinstance(parameter, DeviceTensor) for parameter in learner.policy.parameters())
    assert metrics.keys() == expected.keys()
    for name, value in metrics.items():
        assert math.isfinite(value), name
        # Both compute on the same CPU, but for attention, whose fused kernel the second device does not have: what
        # differs is the order in which float32 numbers are added
        assert value == pytest.approx(expected[name], rel=1e-4, abs=1e-6), name


def test_the_second_device_refuses_tensors_of_the_first():
    with second_device() as device:
        there = torch.ones(2, device=device)
        assert float((there * torch.tensor(3.0)).sum()) == 6.0, "a number without dimensions may come from anywhere"
        assert torch.equal(there.cpu(), torch.ones(2))
        with pytest.raises(RuntimeError, match="two devices"):
            there + torch.ones(2)
        with pytest.raises(RuntimeError, match="two devices"):
            torch.where(torch.ones(2, dtype=torch.bool), there, 0.0)


def test_rollouts_are_the_same_on_another_device(tiny):
    model, encoder = tiny
    batch = played_batch(copy.deepcopy(model), encoder, num_rows=2)
    with second_device():
        there = played_batch(moved(model), encoder, num_rows=2)
    assert torch.equal(there.input_ids_BT, batch.input_ids_BT)
    assert torch.allclose(there.sampler_logprobs_BT, batch.sampler_logprobs_BT, atol=1e-4)


def test_a_cold_start_is_the_same_on_another_device(tiny):
    model, encoder = tiny
    losses: list[list[float]] = []
    config = ColdStartConfig(num_steps=2, num_first_turn_steps=1, batch_size=2, warmup_steps=1)
    with second_device():
        for each in (copy.deepcopy(model), moved(model)):
            losses.append([])
            cold_start(each, encoder, (WORLD,), config, on_step=lambda _, shown: losses[-1].append(shown["loss"]))
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
