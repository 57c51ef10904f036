"""What a run does to fit its devices changes nothing about what is learnt."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.unit.slow import quick
from tests.unit.training.batches import run_config
from tests.unit.training.gradients import assert_same_steps, sgd_steps
from training.config.update_config import MemoryConfig, PPOConfig
from training.update.learner import Learner


@pytest.fixture
def played(played_by_tiny):
    return played_by_tiny(num_rows=4)


def learner_of(model, encoder, memory=None, **ppo):
    settings = {"num_minibatches": 1, "num_epochs": 2, "warmup_iterations": 0, "learning_rate": 1e-3, "kl_coef": 0.01}
    config = run_config(memory=memory or MemoryConfig(), ppo=PPOConfig(**(settings | ppo)), num_groups=2)
    return Learner(copy.deepcopy(model), encoder.suppressed_ids(), config)


def updated(learner, batch, iteration=0):
    outputs = learner.model_outputs(batch)
    credit = replace(learner.config.algorithm.credit(batch, outputs), turn_end_returns_BK=None)
    return learner.update(batch, outputs, credit, iteration=iteration)


def forward_passes(module):
    """Returns a list that grows with each forward pass of a module."""
    seen = []
    module.register_forward_hook(lambda *_: seen.append(1))
    return seen


def test_gradient_checkpointing_is_of_policy_and_critic_in_the_update_alone(played):
    model, encoder, batch = played
    with sgd_steps() as expected_steps:
        expected = updated(learner_of(model, encoder), batch)
    with sgd_steps() as steps:
        learner = learner_of(model, encoder, MemoryConfig(gradient_checkpointing=True))
        passes = [
            forward_passes(each.model.language_model.layers[0].self_attn)
            for each in (learner.policy, learner.critic, learner.reference)
        ]
        learner.model_outputs(batch)
        assert [len(each) for each in passes] == [1, 1, 1]
        metrics = updated(learner, batch)
    # Old log-probabilities once more; then two steps of the policy and four of the critic, each of two passes
    assert [len(each) for each in passes] == [1 + 1 + 4, 1 + 1 + 8, 2]
    assert metrics == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert_same_steps(steps, expected_steps)


FROZEN = MemoryConfig(freeze_vision_tower=True)


def test_a_frozen_tower_is_shown_each_picture_of_a_batch_once(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder, FROZEN, micro_batch_size=1)
    towers = [each.model.visual for each in (learner.policy, learner.critic, learner.reference)]
    shown = []
    for tower in towers:
        tower.register_forward_pre_hook(lambda _, args, kwargs: shown.append(len(kwargs["grid_thw"])), with_kwargs=True)
    num_unique = len({image.key for image in batch.images})
    assert num_unique < len(batch.images), "pictures are shown again"
    for iteration in (1, 2):
        updated(learner, batch)
        assert sum(shown) == iteration * num_unique


def test_a_frozen_tower_stays_as_it_was_and_is_in_no_optimiser(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder, FROZEN)
    before = {name: weight.clone() for name, weight in learner.policy.named_parameters()}
    updated(learner, batch)
    stepped = {id(weight) for each in (learner.policy_optimizer, learner.critic_optimizer) for weight in each._stepped}
    for name, weight in learner.policy.named_parameters():
        is_tower = ".visual." in name
        assert torch.equal(weight, before[name]) == is_tower, name
        assert (id(weight) in stepped) != is_tower
        if is_tower:
            assert weight.grad is None


def test_the_weights_of_a_frozen_tower_are_held_once(played):
    model, encoder, _ = played
    learner = learner_of(model, encoder, FROZEN)
    own = dict(learner.policy.model.named_parameters())
    for other in (learner.critic.model, learner.reference.model):
        for name, weight in other.named_parameters():
            assert (weight is own[name]) == name.startswith("visual."), name


def test_a_reference_that_was_loaded_shares_them_too(played):
    model, encoder, batch = played
    config = run_config(memory=FROZEN, num_groups=2)
    loaded = copy.deepcopy(model)
    learner = Learner(model, encoder.suppressed_ids(), config, reference=loaded)
    assert learner.reference is loaded
    own = dict(model.named_parameters())
    for name, weight in loaded.named_parameters():
        assert (weight is own[name]) == (".visual." in name), name
    assert learner.model_outputs(batch).ref_kl == 0.0


@pytest.mark.parametrize("kl_placement", quick(["reward", "loss"], "loss"))
def test_shared_pictures_give_what_unshared_ones_do(played, kl_placement):
    model, encoder, batch = played
    settings = {"kl_placement": kl_placement, "micro_batch_size": 3, "entropy_coef": 0.01}
    with sgd_steps() as expected_steps:
        unshared = learner_of(model, encoder, FROZEN, **settings)
        unshared._pictures = None
        expected = updated(unshared, batch)
    with sgd_steps() as steps:
        metrics = updated(learner_of(model, encoder, FROZEN, **settings), batch)
    assert metrics == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert_same_steps(steps, expected_steps)


def test_a_tower_that_learns_sees_every_picture_anew(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder)
    passes = forward_passes(learner.policy.model.visual)
    weight = learner.policy.model.visual.patch_embed.proj.weight
    before = weight.detach().clone()
    updated(learner, batch)
    assert len(passes) == 1 + 2
    assert not torch.equal(weight, before)


def test_an_update_of_packed_rows_is_that_of_padded_ones(played):
    model, encoder, batch = played
    settings = {"micro_batch_tokens": int(batch.attention_mask_BT.sum()), "entropy_coef": 0.01}
    with sgd_steps() as expected_steps:
        expected = updated(learner_of(model, encoder, replace(FROZEN, packing="off"), **settings), batch)
    with sgd_steps() as steps:
        packed = learner_of(model, encoder, replace(FROZEN, packing="on"), **settings)
        passes = forward_passes(packed.policy.model.language_model)
        metrics = updated(packed, batch)
    assert len(passes) == 1 + 2, "the budget holds all rows, for there is no padding"
    assert metrics == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert_same_steps(steps, expected_steps)


def test_models_compute_in_few_bits_and_what_is_made_of_it_is_in_float32(played):
    model, encoder, batch = played
    learner = learner_of(model.bfloat16(), encoder)
    for each in (learner.policy, learner.reference, learner.critic):
        assert {weight.dtype for weight in each.parameters()} == {torch.bfloat16}
    assert {master.dtype for master in learner.policy_optimizer.idle_tensors()} == {torch.float32}
    with sdpa_kernel(SDPBackend.MATH):  # torch's other kernel fails on CPUs with AMX below AVX-512
        outputs = learner.model_outputs(batch)
        logprobs_BT, entropy_BT = learner._policy(batch, "graph")
        values = learner._critic(batch)
    for grid in (logprobs_BT, entropy_BT, *values, outputs.old_logprobs_BT, outputs.ref_logprobs_BT):
        assert grid.dtype == torch.float32
    said = logprobs_BT[batch.response_mask_BT]
    assert not torch.equal(said, said.bfloat16().float()), "not rounded on the way"
