"""Recomputed layers give the same gradients from far fewer bytes, and only where there is a backward pass."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from tests.unit.models import load
from tests.unit.training.batches import played_batch
from training.config.update_config import MemoryConfig
from training.engines.policy import PolicyModel, RowPass, ValueModel, hidden_states, row_pass_of
from vlm_envs.errors import ConfigError

RECOMPUTED = RowPass(recomputes_layers=True)


@pytest.fixture
def batch(tiny):
    return played_batch(*tiny, num_rows=3)


def policy_loss(model, encoder, batch, row_pass):
    policy = PolicyModel(model, temperature=0.7, suppressed_ids=encoder.suppressed_ids(), row_pass=row_pass)
    logprobs_BT, entropy_BT = policy(batch, "graph")
    return (logprobs_BT - 0.1 * entropy_BT).sum()


def value_loss(model, encoder, batch, row_pass):
    critic = ValueModel(model, row_pass)
    torch.nn.init.ones_(critic.head.weight)
    model.critic = critic  # where its gradients are read from
    values = critic(batch)
    return values.before_BT.square().sum() + values.turn_ends_BK.square().sum()


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("loss_of", [policy_loss, value_loss])
def test_recomputed_layers_have_the_same_gradients(tiny, batch, loss_of):
    model, encoder = tiny
    expected = gradients(model, loss_of(model, encoder, batch, None))
    assert any("visual" in name for name in expected) and any("language_model" in name for name in expected)
    found = gradients(model, loss_of(model, encoder, batch, RECOMPUTED))
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, rtol=1e-5, atol=1e-6 * float(gradient.abs().max())), name


def saved_bytes(model, make_loss):
    """Returns the bytes that autograd keeps of a forward pass, weights left out."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = (storage.nbytes(), storage)  # held, so that no other gets its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        make_loss()
    return sum(nbytes for nbytes, _ in kept.values())


def test_recomputed_layers_leave_autograd_a_fraction_to_keep(tiny, batch):
    model, encoder = tiny
    before, after = (
        saved_bytes(model, lambda each=each: policy_loss(model, encoder, batch, each)) for each in (None, RECOMPUTED)
    )
    assert after < before / 4


def test_a_model_is_as_it_was_behind_a_pass_and_layers_are_kept_without_a_backward_pass(tiny, batch):
    model, encoder = tiny
    counted = [0]
    layers = [each for each in model.modules() if isinstance(each, GradientCheckpointingLayer)]
    assert layers

    def modes():
        return [(each.training, getattr(each, "gradient_checkpointing", None)) for each in model.modules()]

    model.model.language_model.layers[0].self_attn.register_forward_hook(
        lambda *_: counted.__setitem__(0, counted[0] + 1)
    )
    before = modes()
    with torch.no_grad():
        policy_loss(model, encoder, batch, RECOMPUTED)
    assert counted == [1] and modes() == before
    loss = policy_loss(model, encoder, batch, RECOMPUTED)
    assert counted == [2] and modes() == before
    loss.backward()
    assert counted == [3], "computed anew for its gradient"


def test_dropout_is_as_off_as_without(tiny, batch):
    """A checkpoint with dropout samples without; so must the pass that its samples' log-probabilities come from."""
    model, encoder = tiny
    for layer in model.model.language_model.layers:
        layer.self_attn.attention_dropout = 0.5
    expected = policy_loss(model, encoder, batch, None)
    assert torch.equal(policy_loss(model, encoder, batch, RECOMPUTED), expected)


PACKED = RowPass(packs_rows=True)


@pytest.mark.parametrize("loss_of", [policy_loss, value_loss])
@pytest.mark.parametrize("row_pass", [PACKED, RowPass(packs_rows=True, recomputes_layers=True)])
@pytest.mark.sample(4)
def test_packed_rows_have_the_same_losses_and_gradients(family_directory, loss_of, row_pass):
    model, encoder = load(family_directory)
    batch = played_batch(model, encoder, num_rows=3)
    assert len(set(batch.attention_mask_BT.sum(-1).tolist())) > 1, "or there is no padding to leave out"
    losses = [loss_of(model, encoder, batch, each) for each in (None, row_pass)]
    assert losses[1].item() == pytest.approx(losses[0].item(), rel=1e-5)
    expected = gradients(model, loss_of(model, encoder, batch, None))
    found = gradients(model, loss_of(model, encoder, batch, row_pass))
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, rtol=1e-4, atol=1e-5 * float(gradient.abs().max())), name


def test_values_and_log_probabilities_of_packed_rows_are_those_of_rows_alone(family_directory):
    model, encoder = load(family_directory)
    batch = played_batch(model, encoder, num_rows=3)
    critic = ValueModel(model, PACKED)
    torch.nn.init.normal_(critic.head.weight)
    policy = PolicyModel(model, temperature=1.0, suppressed_ids=encoder.suppressed_ids(), row_pass=PACKED)
    with torch.no_grad():
        packed = [policy(batch, "value")[0], *critic(batch)]
        for row in range(batch.num_rows):
            part = batch.select([row])
            alone = [policy(part, "value")[0], *critic(part)]
            for together, one in zip(packed, alone, strict=True):
                found = together[row : row + 1]
                assert torch.allclose(found[:, : one.shape[1]] if one.dim() > 1 else found, one, rtol=1e-4, atol=1e-4)


def test_a_packed_row_never_sees_another(family_directory):
    model, encoder = load(family_directory)
    batch = played_batch(model, encoder, num_rows=3)
    changed = batch.input_ids_BT.clone()
    is_text_T = (batch.turn_index_BT[1] >= 0) & (changed[1] != batch.image_token_id)
    changed[1, is_text_T] = (changed[1, is_text_T] + 1) % 50 + 400
    other = replace(batch, input_ids_BT=changed)
    with torch.no_grad():
        before, after = (hidden_states(model, each, PACKED) for each in (batch, other))
    assert torch.equal(before[[0, 2]], after[[0, 2]])
    assert not torch.equal(before[1], after[1])


def test_packed_rows_are_a_single_one_without_padding(tiny, batch):
    model, _ = tiny
    shapes = []
    model.model.language_model.layers[0].register_forward_pre_hook(lambda _, args: shapes.append(args[0].shape[:2]))
    with torch.no_grad():
        hidden_states(model, batch, PACKED)
    assert shapes == [(1, int(batch.attention_mask_BT.sum()))]
    assert batch.attention_mask_BT.numel() > batch.attention_mask_BT.sum()


@pytest.mark.parametrize(
    ("packing", "attention", "packs"),
    [
        ("auto", "sdpa", False),
        ("auto", "flash_attention_2", True),
        ("on", "sdpa", True),
        ("off", "flash_attention_2", False),
    ],
)
def test_rows_are_packed_where_attention_is_of_what_they_see_alone(packing, attention, packs):
    model = kind_of("qwen3_vl", attention)
    assert row_pass_of(model, MemoryConfig(packing=packing, prefix_sharing="off")) == RowPass(packs_rows=packs)


def test_rows_whose_pictures_are_seen_in_both_directions_are_not_packed():
    model = kind_of("gemma3", "sdpa")
    assert not row_pass_of(model, MemoryConfig()).packs_rows
    with pytest.raises(ConfigError, match=r"--memory\.packing off"):
        row_pass_of(model, MemoryConfig(packing="on"))
    with pytest.raises(ConfigError, match=r"flash attention takes no masks.*--memory\.attention sdpa"):
        row_pass_of(kind_of("gemma3", "flash_attention_2"), MemoryConfig())


def kind_of(model_type, attention):
    """Returns a stand-in for a model, of which only its kind is asked."""
    config = SimpleNamespace(model_type=model_type, _attn_implementation=attention)
    backbone = SimpleNamespace(config=config, get_decoder=lambda: SimpleNamespace(config=config))
    return SimpleNamespace(config=config, model=backbone)
