"""What rows begin with goes through a model once, and losses and gradients are those of whole rows."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from agents.hf.family import joined
from agents.hf.hf_agent import HFAgent
from agents.hf.model_families import family_of
from agents.hf.row_passes import SHARED_SDPA, can_share_prefixes, row_hidden_states, share_prefixes
from agents.hf.sampling_config import SamplingConfig
from tests.unit.episodes import play
from tests.unit.families import SAVERS
from tests.unit.models import load, with_ending
from tests.unit.slow import quick
from tests.unit.training.engines.test_row_pass import gradients, policy_loss, value_loss
from training.batch import make_batch
from training.config.update_config import LoRAConfig, MemoryConfig
from training.engines.lora import add_adapters
from training.engines.policy import RowPass, hidden_states, row_pass_of
from vlm_envs.errors import ConfigError

SHARED = RowPass(shares_prefixes=True)
RECOMPUTED = RowPass(shares_prefixes=True, recomputes_layers=True)
OF_QWEN = {"qwen3_vl": "tiny_directory", "qwen2_5_vl": "qwen2_5_directory"}
SEEDS = [0, 0, 0, 1, 1]


def siblings(model, encoder):
    """Returns rows of two start states, with pictures, some of which several rows have."""
    agent = HFAgent(model=model, encoder=encoder, sampling=SamplingConfig(max_new_tokens=6), seed=1)
    played = play(agent, SEEDS, max_turns=(3,))
    return make_batch(
        played, [[1.0] * len(each.turns) for each in played], encoder, group_index=SEEDS, final_observations=True
    )


@pytest.fixture(params=["qwen3_vl", "qwen2_5_vl", *(name for name in SAVERS if name != "gemma3")])
def sharing(request, tmp_path):
    if save := SAVERS.get(request.param):
        save(tmp_path)
        model, encoder = load(tmp_path)
    else:
        model, encoder = load(request.getfixturevalue(OF_QWEN[request.param]))
    assert can_share_prefixes(model)
    return model, encoder, siblings(with_ending(model, encoder), encoder)


@pytest.fixture
def rows_of_tiny(tiny):
    model, encoder = tiny
    return model, encoder, siblings(with_ending(model, encoder), encoder)


def assert_same(found, expected):
    """Asserts that gradients are the same, but for the rounding of those that are 0 by their formula."""
    assert found.keys() == expected.keys()
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    for name, gradient in expected.items():
        atol = 1e-4 * float(gradient.abs().max()) + 1e-6 * largest
        assert torch.allclose(found[name], gradient, rtol=1e-3, atol=atol), name


@pytest.mark.parametrize(
    ("loss_of", "row_pass"),
    quick(
        itertools.product((policy_loss, value_loss), (SHARED, RECOMPUTED)),
        (policy_loss, RECOMPUTED),
        (value_loss, SHARED),
    ),
)
@pytest.mark.sample(4)
def test_losses_and_gradients_are_those_of_whole_rows(sharing, loss_of, row_pass):
    model, encoder, batch = sharing
    loss = loss_of(model, encoder, batch, None)
    expected, told = gradients(model, loss), loss.item()
    share_prefixes(model)
    loss = loss_of(model, encoder, batch, row_pass)
    assert loss.item() == pytest.approx(told, rel=1e-5)
    found = gradients(model, loss)
    assert_same(found, expected)


def test_what_a_sharing_model_samples_is_the_same(sharing):
    """With the same random numbers, a token at a time, from heads that share keys and values."""
    model, encoder, batch = sharing
    share_prefixes(model)
    again = siblings(model, encoder)
    assert torch.equal(again.input_ids_BT, batch.input_ids_BT)
    assert torch.allclose(again.sampler_logprobs_BT, batch.sampler_logprobs_BT, atol=1e-4)


def test_adapters_have_the_same_gradients(rows_of_tiny):
    model, encoder, batch = rows_of_tiny
    add_adapters(model, LoRAConfig(rank=4))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.02)
    expected = gradients(model, policy_loss(model, encoder, batch, None))
    share_prefixes(model)
    found = gradients(model, policy_loss(model, encoder, batch, SHARED))
    assert expected
    assert_same(found, expected)


def test_what_a_frozen_tower_saw_stands_where_it_was_seen(rows_of_tiny):
    model, _, batch = rows_of_tiny
    share_prefixes(model)
    with torch.no_grad():
        expected = hidden_states(model, batch, SHARED)
        tower = model.model.visual
        features = row_features(model, batch)
        tower.forward = None  # nobody asks it
        found = hidden_states(model, replace(batch, features=features), SHARED)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4), "images one by one are those of a batch"


def row_features(model, batch):
    return tuple(family_of(model).image_features(model, [image]) for image in batch.images)


def test_a_beginning_goes_through_once_and_a_picture_is_shown_once(rows_of_tiny):
    model, _, batch = rows_of_tiny
    share_prefixes(model)
    shapes, shown = [], []
    model.model.language_model.layers[0].register_forward_pre_hook(lambda _, args: shapes.append(args[0].shape[:2]))
    model.model.visual.register_forward_pre_hook(
        lambda _, args, named: shown.append(len(named.get("grid_thw", args[-1]))), with_kwargs=True
    )
    with torch.no_grad():
        hidden_states(model, batch, SHARED)
    num_tokens = int(batch.attention_mask_BT.sum())
    prompts = {seed: int((batch.turn_index_BT[SEEDS.index(seed)] >= 0).int().argmax()) for seed in (0, 1)}
    assert shapes[0][0] == 1 and shapes[0][1] <= num_tokens - 2 * prompts[0] - prompts[1]
    assert shown == [len({image.key for image in batch.images})] and shown[0] < len(batch.images)


def test_rows_that_differ_in_a_picture_alone_part_there(rows_of_tiny):
    model, _, batch = rows_of_tiny
    first = batch.row_image_offsets[:-1]
    other = next(image for image in batch.images if image.key != batch.images[0].key)
    images = tuple(other if place == first[1] else image for place, image in enumerate(batch.images))
    changed = replace(batch, images=images)
    expected = hidden_states(model, changed)
    share_prefixes(model)
    found = hidden_states(model, changed, SHARED)
    assert torch.allclose(
        found[changed.attention_mask_BT > 0], expected[changed.attention_mask_BT > 0], rtol=1e-4, atol=1e-4
    )
    start = int((changed.input_ids_BT[1] == changed.image_token_id).int().argmax())
    assert torch.equal(found[0, :start], found[1, :start])
    assert not torch.allclose(found[0, start], found[1, start])


def test_the_same_picture_is_worth_the_same_in_every_row(rows_of_tiny):
    model, _, batch = rows_of_tiny
    images = [*batch.images[:1]] * 2 + [*batch.images]
    ids = torch.tensor([[each for image in images for each in [9, *[batch.image_token_id] * image.num_tokens]]])
    each = row_features(model, batch)
    found = row_hidden_states(model, ids, torch.ones_like(ids), images)
    expected = row_hidden_states(model, ids, torch.ones_like(ids), images, joined([each[0], each[0], *each]))
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_model_that_shares_samples_as_before(rows_of_tiny):
    model, encoder, batch = rows_of_tiny
    ids, mask = batch.input_ids_BT, batch.attention_mask_BT
    before = row_hidden_states(model, ids, mask, batch.images)
    share_prefixes(model)
    assert model.model.language_model.config._attn_implementation == SHARED_SDPA
    assert model.config._attn_implementation == "sdpa", "the tower's stays"
    assert torch.equal(row_hidden_states(model, ids, mask, batch.images), before)
    again = siblings(model, encoder)
    assert torch.equal(again.input_ids_BT, ids)


def test_pictures_that_are_seen_in_both_directions_are_not_shared(tmp_path):
    SAVERS["gemma3"](tmp_path)
    model, _ = load(tmp_path)
    assert not can_share_prefixes(model)
    assert not row_pass_of(model, MemoryConfig()).shares_prefixes


def test_what_is_shared_is_left_to_the_model_unless_asked_for(tiny):
    model, _ = tiny
    assert row_pass_of(model, MemoryConfig()) == SHARED
    assert row_pass_of(model, MemoryConfig(packing="on")) == RowPass(packs_rows=True)
    assert row_pass_of(model, MemoryConfig(prefix_sharing="off")) == RowPass()
    model.config.get_text_config()._attn_implementation = "eager"
    assert not can_share_prefixes(model)
    assert row_pass_of(model, MemoryConfig()) == RowPass()
    with pytest.raises(ConfigError, match=r"--memory\.prefix-sharing on.*--memory\.attention sdpa"):
        row_pass_of(model, MemoryConfig(prefix_sharing="on"))
