"""Adapters change nothing until they learn, come off and go on again, and merge into weights that say the same."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForImageTextToText

from agents.hf.hf_agent import HFAgent
from agents.hf.sampling_config import SamplingConfig
from tests.unit.episodes import play
from tests.unit.models import load
from tests.unit.training.batches import played_batch
from training.checkpoints.checkpoint_state import save_model
from training.config.update_config import LoRAConfig
from training.engines.lora import adapters_off, add_adapters, has_adapters, merged_state
from training.engines.policy import token_logprobs
from vlm_envs.errors import ConfigError

LORA = LoRAConfig(rank=4)


def taught(model):
    """Returns a model whose adapters have learnt something."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".lora_" in name:
                weight.normal_(std=0.2, generator=generator)
    return model


def logprobs(model, encoder, batch):
    with torch.no_grad():
        return token_logprobs(model, batch, temperature=1.0, suppressed_ids=encoder.suppressed_ids())[0]


def test_adapters_are_beside_every_linear_layer_of_the_language_model_and_only_they_learn(family_directory):
    model, _ = load(family_directory)
    num_linear = sum(isinstance(each, torch.nn.Linear) for each in model.model.language_model.modules())
    add_adapters(model, LORA)
    learnt = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert len(learnt) == 2 * num_linear
    assert all(".language_model." in name and ".lora_" in name for name in learnt)


def test_chosen_layers_alone_get_adapters(tiny):
    model, _ = tiny
    add_adapters(model, LoRAConfig(rank=2, target_modules=("q_proj", "v_proj")))
    adapted = {name.split(".lora_")[0].rpartition(".")[2] for name, _ in model.named_parameters() if ".lora_" in name}
    assert adapted == {"q_proj", "v_proj"}


def test_a_layer_that_is_not_there_is_refused_with_those_that_are(tiny):
    with pytest.raises(
        ConfigError, match=r"--lora.target-modules q_prj.*Did you mean 'q_proj'\?.* down_proj, gate_proj"
    ):
        add_adapters(tiny[0], LoRAConfig(rank=2, target_modules=("q_prj",)))


def test_a_model_without_its_adapters_is_what_it_was(family_directory):
    model, encoder = load(family_directory)
    names = set(model.state_dict())
    batch = played_batch(copy.deepcopy(model), encoder, num_rows=2)
    before = logprobs(model, encoder, batch)
    add_adapters(model, LORA)
    assert torch.equal(logprobs(model, encoder, batch), before), "adapters begin as nothing"
    taught(model)
    after = logprobs(model, encoder, batch)
    assert (after - before).abs().max() > 0.1
    with adapters_off(model):
        assert torch.equal(logprobs(model, encoder, batch), before)
    assert torch.equal(logprobs(model, encoder, batch), after)
    assert all(weight.requires_grad == (".lora_" in name) for name, weight in model.named_parameters())
    assert set(merged_state(model)) == names


def test_the_export_needs_no_adapters_and_plays_the_same(family_directory, tmp_path):
    model, encoder = load(family_directory)
    names = model.state_dict().keys()
    batch = played_batch(copy.deepcopy(model), encoder, num_rows=2)
    add_adapters(model, LORA)
    taught(model)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    save_model(tmp_path / "merged", model, encoder)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    merged = AutoModelForImageTextToText.from_pretrained(tmp_path / "merged", dtype=torch.float32).eval()
    assert not has_adapters(merged)
    assert merged.state_dict().keys() == names
    assert torch.allclose(logprobs(merged, encoder, batch), logprobs(model, encoder, batch), atol=1e-3)
    greedy = SamplingConfig(temperature=0.0, max_new_tokens=6)
    base, _ = load(family_directory)
    ids = [
        [
            turn.response_ids.tolist()
            for episode in play(HFAgent(model=each, encoder=encoder, sampling=greedy), range(3), max_turns=(3,))
            for turn in episode.turns
        ]
        for each in (model, merged, base)
    ]
    assert ids[0] == ids[1] != ids[2]


def test_a_merged_weight_is_rounded_once():
    """In bfloat16 a change that is rounded before it is added is not the one that was learnt."""
    linear = torch.nn.Linear(64, 64, bias=False).bfloat16()
    model = torch.nn.Module()
    model.model = torch.nn.Module()
    model.model.decoder = torch.nn.ModuleDict({"proj": linear})
    model.model.get_decoder = lambda: model.model.decoder
    model.config = SimpleNamespace(model_type="test", to_dict=dict)
    base = linear.weight.detach().clone()
    add_adapters(model, LORA)
    taught(model)
    layer = model.model.decoder["proj"]
    a, b = layer.lora_A["default"].weight.double(), layer.lora_B["default"].weight.double()
    exact = base.double() + 32 / 4 * b @ a
    merged = merged_state(model)["model.decoder.proj.weight"]
    assert merged.dtype == torch.bfloat16
    ulp = exact.abs() * 2**-7
    assert ((merged.double() - exact).abs() <= ulp).all()
