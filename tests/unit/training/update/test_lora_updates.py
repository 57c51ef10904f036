"""A run with adapters: one base for policy, reference and critic, and a checkpoint of what was trained."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from agents.hf.hf_agent import load_checkpoint
from tests.unit.training.batches import WORLD, run_config
from tests.unit.training.test_run import differing, metrics_of
from training.checkpoints.checkpoint_state import load_checkpoint_state
from training.config.update_config import LoRAConfig, PPOConfig
from training.run import train
from training.update.learner import Learner

PPO = PPOConfig(num_minibatches=1, warmup_iterations=0, learning_rate=1e-2, kl_coef=0.01)


@pytest.fixture
def played(played_by_tiny):
    return played_by_tiny(num_rows=4)


def learner_of(model, encoder, **changes):
    config = run_config(lora=LoRAConfig(rank=4), ppo=PPO, num_groups=2, **changes)
    return Learner(copy.deepcopy(model), encoder.suppressed_ids(), config)


def updated(learner, batch, iteration=0):
    outputs = learner.model_outputs(batch)
    credit = replace(learner.config.algorithm.credit(batch, outputs), turn_end_returns_BK=None)
    learner.update(batch, outputs, credit, iteration=iteration)
    return outputs


def test_only_adapters_and_the_critics_head_are_trained(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder)
    before = {name: weight.clone() for name, weight in learner.policy.named_parameters()}
    critic = {name: weight.clone() for name, weight in learner.critic.named_parameters()}
    updated(learner, batch)
    for owner, old in ((learner.policy, before), (learner.critic, critic)):
        for name, weight in owner.named_parameters():
            is_trained = ".lora_" in name or name.startswith("head.")
            # What an adapter's second matrix, 0 at first, lets through to the first one is 0 in the first step
            assert not torch.equal(weight, old[name]) if is_trained and "lora_A" not in name else True, name
            assert is_trained or (torch.equal(weight, old[name]) and weight.grad is None), name
    stepped = [*learner.policy_optimizer._stepped, *learner.critic_optimizer._stepped]
    assert sum(map(torch.numel, stepped)) < 0.2 * sum(map(torch.numel, learner.policy.parameters()))


def test_the_reference_is_the_policy_without_its_adapters(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder)
    assert learner.reference is None
    before = updated(learner, batch)
    assert before.ref_kl == 0.0
    after = learner.model_outputs(batch)
    assert torch.equal(after.ref_logprobs_BT, before.ref_logprobs_BT)
    assert (after.old_logprobs_BT - after.ref_logprobs_BT).abs().max() > 1e-3
    assert after.token_rewards_BT.abs().max() > 0


def test_the_base_is_held_once_and_adapters_twice(played):
    model, encoder, _ = played
    learner = learner_of(model, encoder)
    own = dict(learner.policy.model.named_parameters())
    for name, weight in learner.critic.model.named_parameters():
        assert (weight is own[name]) == (".lora_" not in name), name


def test_a_frozen_tower_of_a_run_with_adapters_sees_each_picture_once(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder)
    passes = []
    learner.policy.model.visual.register_forward_hook(lambda *_: passes.append(1))
    updated(learner, batch)
    assert len(passes) == 1


def test_a_state_holds_what_was_trained_and_not_the_base(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder)
    updated(learner, batch)
    state = learner.state_dict()
    assert all(".lora_" in name for name in state["policy"])
    assert {name.partition(".")[0] for name in state["critic"] if ".lora_" not in name} == {
        "head", "mean", "std", "is_calibrated"
    }  # fmt: skip
    assert "reference" not in state
    again = learner_of(model, encoder)
    again.load_state_dict(copy.deepcopy(state))
    expected, found = learner.model_outputs(batch), again.model_outputs(batch)
    for name in ("old_logprobs_BT", "ref_logprobs_BT", "values_BT"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name


@pytest.mark.soak
def test_a_run_with_adapters_resumes_bit_by_bit_and_leaves_a_model_without(tiny_directory, tmp_path):
    config = run_config(
        name="straight",
        worlds=(WORLD,),
        output=str(tmp_path),
        model=str(tiny_directory),
        num_iterations=2,
        num_eval_episodes=0,
        lora=LoRAConfig(rank=4),
        ppo=PPO,
        num_threads=1,
    )
    straight = train(config)
    broken = replace(config, name="broken")
    train(replace(broken, num_iterations=1))
    directory = train(broken, resume=True)
    states = [load_checkpoint_state(each / "latest") for each in (straight, directory)]
    assert differing(*states) == []
    assert metrics_of(directory)[-1]["kl"] > 0
    model, _ = load_checkpoint(directory / "latest" / "model")
    start, _ = load_checkpoint(tiny_directory)
    assert model.state_dict().keys() == start.state_dict().keys()
    changed = [name for name, weight in model.state_dict().items() if not torch.equal(weight, start.state_dict()[name])]
    assert changed and all("_proj.weight" in name and ".language_model." in name for name in changed)
