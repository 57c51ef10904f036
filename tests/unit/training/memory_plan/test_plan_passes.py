"""Bytes that passes hold, counted without memory, against the tensors of passes that have some."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
import torch
from torch import nn
from transformers import Qwen3VLForConditionalGeneration

from agents.hf.sampler import GrowingCache
from benchmarks.speed.memory import MemoryCase
from training.config.update_config import LoRAConfig, MemoryConfig
from training.memory_plan.model_counts import (
    ModelPasses,
    PassBytes,
    evaluation_pass,
    model_without_memory,
    on_meta_device,
    shape_of,
    training_pass,
)
from training.memory_plan.plan_memory import Spread, kv_cache
from training.update.learner import Learner

CASE = MemoryCase(width=64, num_layers=2, num_heads=2, vocab_size=4096)


def passes_of(directory, case=CASE, **changes):
    case = replace(case, **changes)
    case.model_config().save_pretrained(directory)
    model = model_without_memory(directory, getattr(torch, case.dtype))
    return ModelPasses(model, case.run_config(), case.row())


def test_what_a_small_network_keeps():
    with on_meta_device():
        network = nn.Sequential(nn.Linear(10, 20, bias=False), nn.Tanh(), nn.Linear(20, 30, bias=False))
    x = torch.empty(7, 10)
    found = training_pass(network, lambda: network(x))
    # Kept: the result of tanh (the input is not counted, for it is there before); and the output
    assert found.kept == 4 * 7 * (20 + 30)
    assert found.num_gradients == (0, 30 * 20, 30 * 20 + 20 * 10)
    assert evaluation_pass(network, lambda: network(x)).kept == 4 * 7 * 30


@pytest.mark.soak
def test_what_a_pass_holds_grows_evenly_with_turns(tmp_path):
    passes = passes_of(tmp_path)
    kept = [passes.policy_training(turns).kept for turns in (1, 2, 3, 10)]
    assert kept[2] - kept[1] == kept[1] - kept[0] and kept[3] - kept[2] == 7 * (kept[1] - kept[0])
    assert passes.policy_evaluation(4).most() < passes.policy_training(4).most()


def test_each_turn_brings_a_picture_of_its_own(tmp_path):
    """The tower is shown a picture once, however many rows have it; in a plan no two have the same."""
    grown = []
    for vision_width in (64, 256):
        passes = passes_of(tmp_path, vision_width=vision_width)
        one, two = (passes.policy_training(turns).kept for turns in (1, 2))
        grown.append(two - one)
    assert grown[1] > 1.5 * grown[0]


@pytest.mark.soak
def test_logits_stop_growing_where_they_fill_a_chunk(tmp_path):
    chunk_tokens = 2**26 // 500_000
    passes = passes_of(tmp_path, vocab_size=500_000)
    few, many, more = (passes.policy_training(turns) for turns in (1, 10, 20))
    logits = [each.most() - each.kept for each in (few, many, more)]
    assert logits[0] < logits[1] == pytest.approx(logits[2], rel=0.05)
    assert chunk_tokens * 500_000 * 4 < logits[2]


@pytest.mark.soak
def test_checkpoints_keep_what_goes_into_layers_only(tmp_path):
    case = replace(CASE, num_layers=6)
    plain = passes_of(tmp_path, case).policy_training(8)
    checkpointed = passes_of(tmp_path, case, gradient_checkpointing=True).policy_training(8)
    assert checkpointed.kept < 0.25 * plain.kept  # and the distributions of a small vocabulary
    assert checkpointed.most() < plain.most()


def test_half_the_bits_are_about_half_the_bytes(tmp_path):
    kept = [passes_of(tmp_path, dtype=dtype).policy_training(8).kept for dtype in ("float32", "bfloat16")]
    assert 0.45 < kept[1] / kept[0] < 0.8  # norms and rotations are computed in float32


def test_extending_is_linear_and_never_below_nothing():
    one = PassBytes(kept=4.0, peaks=(6.0, 1.0), num_gradients=(0, 5))
    two = PassBytes(kept=7.0, peaks=(9.0, 1.5), num_gradients=(0, 5))
    assert one.towards(two, 2).kept == 10 and one.towards(two, 2).peaks == (12.0, 2.0)
    assert one.towards(two, -5).kept == 0
    assert one.most() == 6 and one.most(2.0) == 11


def test_keys_and_values_are_those_of_the_cache(tmp_path):
    config = CASE.model_config().get_text_config()
    cache, states = GrowingCache(), torch.zeros(3, config.num_key_value_heads, 150, config.head_dim)
    for layer in range(config.num_hidden_layers):
        cache.update(states, states, layer)
    real = sum(layer._buffers.nbytes for layer in cache.layers)
    CASE.model_config().save_pretrained(tmp_path)
    model = model_without_memory(tmp_path, torch.float32)
    spread = Spread(engine="local", num_processes=1, compute_bytes=4)
    planned = kv_cache(shape_of(model, model), spread, num_rows=3, num_tokens=150, num_layers=2)
    assert planned == real * (1 + 1 / 2)  # of one layer there are two while it grows


@pytest.mark.parametrize("changes", [{"lora": LoRAConfig(rank=4)}, {"memory": MemoryConfig(freeze_vision_tower=True)}])
def test_what_is_trained_is_what_the_learner_steps(tmp_path, changes):
    config = replace(CASE.run_config(), **changes)
    CASE.model_config().save_pretrained(tmp_path)
    passes = ModelPasses(model_without_memory(tmp_path, torch.float32), config, CASE.row())
    model = Qwen3VLForConditionalGeneration(CASE.model_config())
    learner = Learner(model, [], config)
    for shape, real in ((passes.policy_shape, learner.policy), (passes.critic_shape, learner.critic)):
        assert shape.num_parameters == sum(weight.numel() for weight in real.parameters())
        assert shape.num_trained == sum(weight.numel() for weight in real.parameters() if weight.requires_grad)
    assert passes.policy_shape.num_trained < passes.policy_shape.num_parameters
    assert passes.policy_training(2).kept > 0
