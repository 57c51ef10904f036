"""One update: the gradient is the batch's, whatever the micro-batches; the critic may learn first."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from agents.hf.sampling_config import SamplingConfig
from tests.unit.slow import quick
from tests.unit.training.batches import played_batch, run_config, text_batch
from tests.unit.training.gradients import assert_same_steps, first_steps, recorded_steps
from training.algorithms.algorithm import Credit, CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.grpo import GRPO
from training.config.update_config import PPOConfig
from training.errors import NonFiniteGradientError
from training.update.learner import Learner, turn_returns

SCALE = ("mean", "std", "is_calibrated")

PPO = PPOConfig(
    num_minibatches=1,
    warmup_iterations=0,
    learning_rate=1e-3,
    entropy_coef=0.01,
    kl_coef=0.001,
)


@pytest.fixture
def played(played_by_tiny):
    return played_by_tiny()


def learner_of(model, encoder, critic=None, **ppo):
    algorithm = BilevelGAE(critic=CriticConfig(**{"learning_rate": 1e-3, "value_clip": None} | (critic or {})))
    config = run_config(algorithm=algorithm, ppo=replace(PPO, **ppo), num_groups=4)
    return Learner(copy.deepcopy(model), encoder.suppressed_ids(), config)


def updated(learner, batch, iteration=0):
    outputs = learner.model_outputs(batch)
    credit = replace(learner.config.algorithm.credit(batch, outputs), turn_end_returns_BK=None)
    return learner.update(batch, outputs, credit, iteration=iteration)


def weights(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def same(module, before):
    return all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


@pytest.mark.parametrize("dtype", quick(["float32", "bfloat16"], "float32"))
def test_no_gradients_are_left_behind_an_update(played, dtype):
    model, encoder, batch = played
    learner = learner_of(model.to(getattr(torch, dtype)), encoder)
    updated(learner, batch)
    for optimizer in (learner.policy_optimizer, learner.critic_optimizer):
        assert all(weight.grad is None for weight in (*optimizer._weights, *optimizer._stepped))


@pytest.mark.parametrize("aggregation", quick(["token_mean", "sequence_mean"], "token_mean"))
def test_gradients_do_not_depend_on_the_micro_batches(played, aggregation):
    model, encoder, batch = played
    batch = replace(batch, trainable_B=torch.tensor([True] * 7 + [False]))
    metrics, gradients = [], []
    for size in (2, 3, 8):
        with recorded_steps() as steps:
            learner = learner_of(model, encoder, micro_batch_size=size, aggregation=aggregation)
            metrics.append(updated(learner, batch))
        gradients.append(first_steps(steps))
    assert len(gradients[2]) == 2, "the policy's and the critic's"
    for steps in gradients[:2]:
        assert_same_steps(steps, gradients[2])
    for name in ("policy_loss", "value_loss", "entropy", "clip_fraction", "grad_norm", "critic_grad_norm"):
        assert metrics[0][name] == pytest.approx(metrics[2][name], rel=1e-3, abs=1e-6), name


def test_the_critics_loss_is_a_mean_over_tokens_and_turn_ends(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder, {"num_epochs": 1, "num_minibatches": 1}, micro_batch_size=3)
    outputs = learner.model_outputs(batch)
    credit = learner.config.algorithm.credit(batch, outputs)
    assert credit.turn_end_returns_BK is not None
    token_errors = (outputs.values_BT - credit.returns_BT)[batch.response_mask_BT]
    end_errors = (outputs.turn_end_values_BK - credit.turn_end_returns_BK)[batch.turn_mask_BK]
    expected = 0.5 * (torch.cat([token_errors, end_errors]) / learner.critic.std).square().mean()
    metrics = learner.update(batch, outputs, credit, iteration=0)
    assert metrics["value_loss"] == pytest.approx(float(expected), rel=1e-4)


def test_metrics_do_not_depend_on_the_micro_batches(played):
    model, encoder, batch = played
    outputs = learner_of(model, encoder).model_outputs(batch)
    with torch.no_grad():  # away from the policy that sampled, so that ratios are clipped
        for parameter in model.model.language_model.parameters():
            parameter.mul_(1.1)
    advantages_BT = torch.linspace(-1, 1, 8)[:, None] * batch.response_mask_BT
    metrics = [
        learner_of(model, encoder, micro_batch_size=size).update(
            batch, outputs, Credit(advantages_BT=advantages_BT, returns_BT=3.0 * advantages_BT), iteration=0
        )
        for size in (3, 8)
    ]
    assert metrics[0].keys() == metrics[1].keys()
    assert 0.1 < metrics[0]["clip_fraction"] < 1
    for name, value in metrics[0].items():
        assert value == pytest.approx(metrics[1][name], rel=1e-2, abs=1e-5), name


def test_the_policy_waits_for_the_critic(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder, {"warmup_iterations": 1})
    policy, critic = weights(learner.policy), weights(learner.critic)
    metrics = updated(learner, batch, iteration=0)
    assert same(learner.policy, policy)
    assert not same(learner.critic, critic)
    assert "policy_loss" not in metrics
    updated(learner, batch, iteration=1)
    assert not same(learner.policy, policy)


def test_the_reference_never_moves_and_the_kl_starts_at_zero(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder)
    reference = weights(learner.reference)
    before = learner.model_outputs(batch)
    assert before.ref_kl == 0.0
    assert not before.token_rewards_BT.any()
    updated(learner, batch)
    after = learner.model_outputs(batch)
    assert after.token_rewards_BT.abs().max() > 0
    assert all(after.token_rewards_BT[batch.turn_index_BT == turn].any() for turn in (0, 1))
    assert not after.token_rewards_BT[batch.turn_index_BT < 0].any()
    assert same(learner.reference, reference)


def test_returns_to_go_are_of_the_turns_that_can_be_learnt_from():
    batch = text_batch(
        [[-1, 0, 1], [-1, 0, -1], [-1, 0, 1]],
        [[1.0, 2.0], [4.0, 0.0], [90.0, 90.0]],
        trainable_B=torch.tensor([True, True, False]),
    )
    assert turn_returns(batch).tolist() == [3.0, 2.0, 4.0]


def test_the_critic_is_calibrated_by_the_first_returns_and_never_again(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder)
    returns = turn_returns(batch)
    outputs = learner.model_outputs(batch)
    generated = batch.turn_index_BT >= 0
    assert torch.allclose(outputs.values_BT[generated], returns.mean()), "an untrained head says the mean"
    learner.model_outputs(replace(batch, turn_rewards_BK=batch.turn_rewards_BK + 100.0))
    assert float(learner.critic.mean) == pytest.approx(float(returns.mean()))
    assert float(learner.critic.std) == pytest.approx(float(returns.std()))


@pytest.mark.soak
def test_the_size_of_the_rewards_does_not_change_how_fast_the_critic_learns(played):
    model, encoder, batch = played
    large = replace(batch, turn_rewards_BK=batch.turn_rewards_BK * 64.0)
    losses = []
    for rewarded in (batch, large):
        learner = learner_of(model, encoder, kl_coef=0.0)
        losses.append([updated(learner, rewarded, iteration)["value_loss"] for iteration in range(3)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
    assert losses[0][-1] < losses[0][0]


def test_without_a_kl_penalty_there_is_no_reference(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder, kl_coef=0.0)
    assert learner.reference is None
    assert learner.model_outputs(batch).ref_kl is None


def test_old_logprobs_of_the_sampler_save_a_pass(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder, old_logprobs="sampler")
    outputs = learner.model_outputs(batch)
    assert torch.equal(outputs.old_logprobs_BT, batch.sampler_logprobs_BT)


@pytest.mark.parametrize("old_logprobs", quick(["sampler", "trainer"], "sampler"))
def test_the_sampler_gap_is_measured_before_the_first_step(played, old_logprobs):
    model, encoder, batch = played
    learner = learner_of(model, encoder, old_logprobs=old_logprobs)
    assert 0.0 < updated(learner, batch)["sampler_gap"] < 1e-4
    shifted = replace(batch, sampler_logprobs_BT=batch.sampler_logprobs_BT - 0.25)
    assert updated(learner_of(model, encoder), shifted)["sampler_gap"] == pytest.approx(0.25, abs=1e-3)


def test_a_batch_of_failures_changes_nothing(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder)
    policy, critic = weights(learner.policy), weights(learner.critic)
    updated(learner, replace(batch, trainable_B=torch.zeros(8, dtype=torch.bool)))
    assert same(learner.policy, policy)
    assert same(learner.critic, critic)


def test_a_gradient_that_is_not_finite_is_not_applied(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder)
    policy = weights(learner.policy)
    outputs = learner.model_outputs(batch)
    credit = learner.config.algorithm.credit(batch, outputs)
    infinite = replace(credit, advantages_BT=credit.advantages_BT * torch.inf)
    metrics = learner.update(batch, outputs, infinite, iteration=0)
    assert metrics["grad_norm"] != metrics["grad_norm"], "NaN is in the log"
    assert metrics["skipped_steps"] == 1
    assert same(learner.policy, policy)
    assert learner.num_updates == 0, "a step that is left out is no update"
    learner.update(batch, outputs, credit, iteration=1)
    assert learner.num_updates == 1


@pytest.mark.parametrize(("part", "what"), [("advantages_BT", "policy"), ("returns_BT", "critic")])
def test_gradients_that_stay_infinite_end_the_training(played, part, what):
    model, encoder, batch = played
    learner = learner_of(model, encoder, {"num_epochs": 2}, max_nonfinite_steps=2, num_epochs=2)
    policy, critic = weights(learner.policy), weights(learner.critic)
    outputs = learner.model_outputs(batch)
    credit = learner.config.algorithm.credit(batch, outputs)
    credit = replace(credit, **{part: getattr(credit, part) * torch.inf})
    with pytest.raises(NonFiniteGradientError, match=f"those of the {what} had norm nan in 2 "):
        learner.update(batch, outputs, credit, iteration=0)
    assert same(learner.policy, policy) == (what == "policy")
    assert all(torch.isfinite(value).all() for value in learner.policy.state_dict().values())
    assert same(learner.critic, critic | {name: learner.critic.state_dict()[name] for name in SCALE})


@pytest.mark.soak
def test_bfloat16_weights_learn_what_float32_ones_do(played):
    model, encoder, batch = played
    model = model.bfloat16()
    start = weights(model)
    moved = {}
    for dtype in (torch.float32, torch.bfloat16):
        learner = learner_of(
            model.to(dtype), encoder, {"num_epochs": 3, "learning_rate": 3e-5}, num_epochs=3, learning_rate=3e-5
        )
        updated(learner, batch)
        for part in ("policy", "critic"):
            after = {name: value.bfloat16() for name, value in getattr(learner, part).named_parameters()}
            changed = [(value != start[name]).float().mean() for name, value in after.items() if name in start]
            moved[part, dtype] = float(torch.stack(changed).mean())
    for part in ("policy", "critic"):
        assert moved[part, torch.float32] > 0.05
        assert moved[part, torch.bfloat16] == pytest.approx(moved[part, torch.float32], rel=0.2)


@pytest.mark.soak
def test_a_bfloat16_run_goes_on_bit_by_bit(played):
    model, encoder, batch = played
    straight, stopped = (learner_of(model.bfloat16(), encoder, learning_rate=1e-6) for _ in range(2))
    for learner in (straight, stopped):
        updated(learner, batch, iteration=0)
    resumed = learner_of(model, encoder, learning_rate=1e-6)
    resumed.load_state_dict(copy.deepcopy(stopped.state_dict()))
    for learner in (straight, resumed):
        updated(learner, batch, iteration=1)
    for part in ("policy_optimizer", "critic_optimizer"):
        masters = [getattr(learner, part).state_dict()["masters"] for learner in (straight, resumed)]
        assert masters[0][0].dtype == torch.float32
        assert all(torch.equal(*pair) for pair in zip(*masters, strict=True))
    assert same(straight.policy, resumed.policy.state_dict())


@pytest.mark.soak
def test_good_actions_become_likelier_and_bad_ones_less_likely(played):
    model, encoder, batch = played
    learner = learner_of(model, encoder, num_epochs=3, entropy_coef=0.0)
    outputs = learner.model_outputs(batch)
    sign_B = torch.tensor([1.0, -1.0] * 4)
    advantages_BT = sign_B[:, None] * batch.response_mask_BT
    zero_BT = torch.zeros_like(advantages_BT)
    learner.update(batch, outputs, Credit(advantages_BT=advantages_BT, returns_BT=zero_BT), iteration=0)
    after = learner.model_outputs(batch).old_logprobs_BT
    change_B = ((after - outputs.old_logprobs_BT) * batch.response_mask_BT).sum(-1)
    assert float((change_B * sign_B).mean()) > 0
    assert float(change_B[0::2].mean()) > float(change_B[1::2].mean())


def test_a_state_dict_continues_exactly(played):
    model, encoder, batch = played
    straight, stopped = learner_of(model, encoder), learner_of(model, encoder)
    for learner in (straight, stopped):
        updated(learner, batch, iteration=0)
    resumed = learner_of(model, encoder)
    resumed.load_state_dict(copy.deepcopy(stopped.state_dict()))
    for learner in (straight, resumed):
        updated(learner, batch, iteration=1)
    assert same(straight.policy, resumed.policy.state_dict())
    assert same(straight.critic, resumed.critic.state_dict())
    assert resumed.num_updates == straight.num_updates == 2


def test_grpo_has_no_critic(tiny):
    model, encoder = tiny
    batch = played_batch(model, encoder)
    config = run_config(ppo=PPO, num_groups=4, algorithm=GRPO(), sampling=SamplingConfig(max_new_tokens=6))
    learner = Learner(model, encoder.suppressed_ids(), config)
    assert learner.critic is None
    metrics = updated(learner, batch)
    assert "value_loss" not in metrics
    assert metrics["grad_norm"] > 0


@pytest.mark.parametrize("estimator", quick(["k2", "k3", None], "k2"))
def test_a_kl_loss_pulls_the_policy_back_to_the_reference(played, estimator):
    model, encoder, batch = played
    pulls = []
    for coefficient in (1e-9, 100.0):
        learner = learner_of(
            model, encoder, kl_placement="loss", kl_estimator=estimator, kl_coef=coefficient, entropy_coef=0.0
        )
        with torch.no_grad():
            for parameter in learner.policy.model.language_model.parameters():
                parameter.mul_(1.02)
        outputs = learner.model_outputs(batch)
        assert not outputs.token_rewards_BT.any(), "the reward is left alone"
        assert outputs.ref_kl is not None
        zero_BT = torch.zeros_like(outputs.old_logprobs_BT)
        metrics = learner.update(batch, outputs, Credit(advantages_BT=zero_BT), iteration=0)
        gap_BT = outputs.old_logprobs_BT - outputs.ref_logprobs_BT
        mask_BT = batch.response_mask_BT
        penalty_BT = 0.5 * gap_BT**2 if estimator == "k2" else torch.exp(-gap_BT) - 1 + gap_BT
        expected = float((penalty_BT * mask_BT).sum() / mask_BT.sum())
        assert metrics["kl_loss"] == pytest.approx(expected, rel=1e-3)
        assert metrics["policy_loss"] == 0, "the penalty is no part of it"
        pulls.append(metrics["grad_norm"])
    assert pulls[1] > 1e6 * pulls[0] > 0


def test_the_policys_rate_rises_over_ten_iterations_by_default(played):
    model, encoder, _ = played
    learner = learner_of(model, encoder, warmup_iterations=PPOConfig().warmup_iterations)
    rates = []
    for iteration in (0, 4, 9, 10):
        learner._set_learning_rates(iteration)
        rates.append(learner.policy_optimizer.learning_rate / 1e-3)
    assert rates == pytest.approx([0.1, 0.5, 1.0, 1.0])


@pytest.mark.soak
@pytest.mark.parametrize(("written", "read"), [("bfloat16", "float32"), ("float32", "bfloat16")])
def test_a_state_continues_in_weights_of_another_type_from_what_was_stepped_on(played, written, read):
    model, encoder, batch = played
    first, resumed = (learner_of(model.to(getattr(torch, dtype)), encoder) for dtype in (written, read))
    updated(first, batch)
    resumed.load_state_dict(copy.deepcopy(first.state_dict()))
    for part in ("policy", "critic"):
        wholes = [getattr(learner, f"{part}_optimizer")._stepped for learner in (first, resumed)]
        assert all(torch.equal(*pair) for pair in zip(*wholes, strict=True))
        assert any(not torch.equal(weight, weight.bfloat16().float()) for weight in wholes[0])
        own = dict(getattr(resumed, part).named_parameters()).values()
        assert {weight.dtype for weight in own} == {getattr(torch, read)}
    updated(resumed, batch, iteration=1)
    assert resumed.num_updates == first.num_updates + 1
