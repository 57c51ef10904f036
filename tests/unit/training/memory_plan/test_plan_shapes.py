"""Parameters are counted as they are, from a config.json that nothing else is beside."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
import torch

from agents.hf.hf_agent import load_checkpoint
from tests.unit.training.memory_plan.configs import save_3b
from training.engines.policy import ValueModel
from training.memory_plan.model_bytes import model_without_memory, shape_of
from vlm_envs.errors import ConfigError


def num_elements(module):
    return sum(weight.numel() for weight in module.parameters())


def test_counts_are_those_of_the_model_itself(family_directory):
    counted, (model, _) = model_without_memory(family_directory, torch.float32), load_checkpoint(family_directory)
    shape, is_tied = shape_of(counted, counted), model.config.tie_word_embeddings
    assert {each.device.type for each in counted.parameters()} == {"meta"}
    assert shape.num_parameters == shape.num_trained == num_elements(model)
    assert shape.num_vision == num_elements(model.model.visual)
    assert shape.num_embeddings == model.model.language_model.embed_tokens.weight.numel()
    assert shape.num_head == (0 if is_tied else model.lm_head.weight.numel())
    assert shape.num_outside_layers == num_elements(model) - sum(
        num_elements(block) for block in model.model.language_model.layers
    )


def test_a_critic_has_the_backbone_and_one_number_for_a_head(family_directory):
    counted, (model, _) = model_without_memory(family_directory, torch.float32), load_checkpoint(family_directory)
    shape = shape_of(ValueModel(counted), counted)
    assert shape.num_parameters == num_elements(model.model) + model.config.text_config.hidden_size + 1


def test_the_papers_model_is_counted_from_its_config_alone(tmp_path):
    model = model_without_memory(save_3b(tmp_path), torch.bfloat16)
    shape = shape_of(model, model)
    assert shape.num_parameters == 3_754_622_976  # as its card has it: 3.75 B
    assert shape.num_embeddings == shape.largest_weight == 151_936 * 2048 and shape.num_head == 0
    assert shape.num_vision == 668_684_288
    assert shape.cached_per_token == 2 * 36 * 2 * 128


def test_frozen_weights_are_not_trained(tiny_directory):
    model = model_without_memory(tiny_directory, torch.float32)
    model.model.visual.requires_grad_(False)
    shape = shape_of(model, model)
    assert shape.num_trained == shape.num_parameters - shape.num_vision
    assert shape.num_frozen_vision == shape.num_vision > 0  # which FSDP2 leaves whole
    free = shape_of(whole := model_without_memory(tiny_directory, torch.float32), whole)
    assert free.num_frozen_vision == 0 and shape.num_outside_layers == free.num_outside_layers - free.num_vision


def test_a_damaged_config_is_told(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "qwen3_vl", "text_config": {"hidden_size": "wide"}}')
    with pytest.raises(ConfigError, match="does not describe a model"):
        model_without_memory(tmp_path, torch.float32)
