"""What saves memory changes nothing in any family."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.unit.families import SAVERS
from tests.unit.models import load
from tests.unit.slow import quick
from tests.unit.training.batches import played_batch, run_config
from tests.unit.training.gradients import assert_same_steps, sgd_steps
from tests.unit.training.update.test_update_memory import updated
from training.config.update_config import LoRAConfig, MemoryConfig, PPOConfig
from training.update.learner import Learner


@pytest.mark.parametrize("name", quick(SAVERS, "smolvlm"))
@pytest.mark.soak
def test_an_update_with_everything_that_saves_memory_is_that_without(name, tmp_path):
    SAVERS[name](tmp_path)
    model, encoder = load(tmp_path)
    batch = played_batch(model, encoder, num_rows=4)
    ppo = PPOConfig(num_minibatches=1, warmup_iterations=0, learning_rate=1e-3, kl_coef=0.01)
    everything = MemoryConfig(gradient_checkpointing=True, packing="auto" if name == "gemma3" else "on")
    metrics, gradients = [], []
    for memory in (MemoryConfig(), everything):
        torch.manual_seed(0)
        config = run_config(memory=memory, lora=LoRAConfig(rank=4), ppo=ppo, num_groups=2)
        with sgd_steps() as steps:
            learner = Learner(copy.deepcopy(model), encoder.suppressed_ids(), config)
            if memory != everything:
                learner._pictures = None  # each pass sees for itself
            metrics.append(updated(learner, batch))
        gradients.append(steps)
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-3, abs=1e-6)
    assert_same_steps(gradients[1], gradients[0])
