"""Bytes that passes hold, in closed form, against sums by hand and against what passes were traced to hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
import torch
from transformers import Qwen3VLForConditionalGeneration

from agents.hf.sampler import GrowingCache
from benchmarks.speed.memory import MemoryCase
from tests.unit.training.memory_plan.configs import save_shallow
from training.config.update_config import LoRAConfig, MemoryConfig
from training.engines.accelerated_engine import decoder_layers
from training.memory_plan.memory_estimate import Spread, kv_cache
from training.memory_plan.model_bytes import ModelBytes, layer_bytes, model_without_memory, shape_of
from training.update.learner import Learner

CASE = MemoryCase(width=64, num_layers=2, num_heads=2, vocab_size=4096)


def bytes_of(directory, case=CASE, **changes):
    case = replace(case, **changes)
    case.model_config().save_pretrained(directory)
    model = model_without_memory(directory, getattr(torch, case.dtype))
    return ModelBytes(model, case.run_config(), case.row())


def test_a_decoder_layer_keeps_what_goes_into_its_linear_layers_and_norms(tmp_path):
    model = model_without_memory(save_shallow(tmp_path), torch.float32)
    found = layer_bytes(decoder_layers(model), 4)
    width, heads, keys, mlp = 2048, 2048, 256, 11_008
    norms = 2 * 3 * width  # of each its input, what it multiplies by weights, and the result
    attention = heads + 2 * keys + 2 * heads  # queries, keys and values, and the result in two layouts
    assert found.kept == 4 * (norms + attention + 4 * mlp)
    assert found.width == 4 * width and found.num_layers == 2
    in_bfloat16 = layer_bytes(decoder_layers(model), 2)
    assert in_bfloat16.kept == 2 * (norms + 2 * width + attention + 4 * mlp)  # norms are computed in float32
    adapted = layer_bytes(decoder_layers(model), 4, rank=8)
    assert adapted.kept == found.kept - 4 * (2 * width - 7 * 8)


@pytest.mark.parametrize(
    ("changes", "training", "critic", "evaluation", "prefill"),
    [
        ({}, 51_727_616, 19_264_776, 25_300_992, 3_817_472),
        ({"dtype": "bfloat16"}, 39_513_344, 11_187_464, 21_041_152, 1_908_736),
        ({"vision_width": 256}, 66_325_760, 33_862_920, 25_300_992, 5_865_472),
        ({"num_layers": 6}, 76_411_136, 43_948_296, 25_300_992, 3_817_472),
    ],
)
def test_bytes_are_near_those_of_traced_passes(tmp_path, changes, training, critic, evaluation, prefill):
    """The numbers were traced on the meta device, tensor by tensor, with transformers 5.21."""
    found = bytes_of(tmp_path, **changes)
    assert found.policy_training(8).most == pytest.approx(training, rel=0.1)
    assert found.critic_training(8).most == pytest.approx(critic, rel=0.1)
    assert found.policy_evaluation(8).most == pytest.approx(evaluation, rel=0.1)
    assert found.prefill(8).most == pytest.approx(prefill, rel=0.1)


def test_a_wide_model_is_near_its_traced_passes(tmp_path):
    wide = {"width": 1024, "num_heads": 8, "num_layers": 4, "vision_width": 256, "num_vision_layers": 4}
    found = bytes_of(tmp_path, vocab_size=32_000, dtype="bfloat16", **wide)
    assert found.policy_training(8).most == pytest.approx(479_101_448, rel=0.05)
    assert found.critic_training(8).most == pytest.approx(266_357_512, rel=0.05)
    assert found.policy_evaluation(8).most == pytest.approx(164_892_672, rel=0.05)


def test_what_a_pass_holds_grows_evenly_with_turns(tmp_path):
    found = bytes_of(tmp_path)
    assert found.policy_training(10).kept == pytest.approx(10 * found.policy_training(1).kept)
    assert found.policy_evaluation(4).most < found.policy_training(4).most


def test_each_turn_brings_a_picture_of_its_own(tmp_path):
    """The tower is shown a picture once, however many rows have it; in a plan no two have the same."""
    grown = []
    for vision_width in (64, 256):
        found = bytes_of(tmp_path, vision_width=vision_width)
        one, two = (found.policy_training(turns).kept for turns in (1, 2))
        grown.append(two - one)
    assert grown[1] > 1.5 * grown[0]


def test_logits_stop_growing_where_they_fill_a_chunk(tmp_path):
    chunk_tokens = 2**26 // 500_000
    found = bytes_of(tmp_path, vocab_size=500_000)
    few, many, more = (found.policy_training(turns).logits for turns in (1, 10, 20))
    assert few < many == pytest.approx(more, rel=0.05)
    assert chunk_tokens * 500_000 * 4 < more


def test_checkpoints_keep_what_goes_into_layers_only(tmp_path):
    case = replace(CASE, num_layers=6)
    plain = bytes_of(tmp_path, case).policy_training(8)
    checkpointed = bytes_of(tmp_path, case, gradient_checkpointing=True).policy_training(8)
    assert checkpointed.kept < 0.25 * plain.kept
    assert checkpointed.most < plain.most


def test_half_the_bits_are_about_half_the_bytes(tmp_path):
    kept = [bytes_of(tmp_path, dtype=dtype).policy_training(8).kept for dtype in ("float32", "bfloat16")]
    assert 0.45 < kept[1] / kept[0] < 0.8  # norms are computed in float32


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
    found = ModelBytes(model_without_memory(tmp_path, torch.float32), config, CASE.row())
    model = Qwen3VLForConditionalGeneration(CASE.model_config())
    learner = Learner(model, [], config)
    for shape, real in ((found.policy, learner.policy), (found.critic, learner.critic)):
        assert shape.num_parameters == sum(weight.numel() for weight in real.parameters())
        assert shape.num_trained == sum(weight.numel() for weight in real.parameters() if weight.requires_grad)
    assert found.policy.num_trained < found.policy.num_parameters
    assert found.policy_training(2).kept > 0
