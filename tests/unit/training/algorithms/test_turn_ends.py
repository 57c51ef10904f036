"""The critic's targets at the ends of turns: golden numbers, an identity, and an effect of training."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.unit.slow import quick
from tests.unit.training.batches import played_batch, run_config
from training.algorithms.algorithm import Credit, CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE, bilevel_gae, turn_end_returns
from training.config.update_config import PPOConfig
from training.update.learner import Learner

NAN = float("nan")

# Row 0: turns of two tokens, of one, and one that is masked out. Row 1: a turn of one token. Row 2: nothing.
TURN_INDEX = torch.tensor([[-1, 0, 0, -1, 1], [0, -1, -1, -1, -1], [-1, -1, -1, -1, -1]])
REWARDS = torch.tensor([[1.0, 2.0, NAN], [4.0, NAN, NAN], [NAN, NAN, NAN]])
ENDS = torch.tensor([[2.5, 5.0, NAN], [3.0, NAN, NAN], [NAN, NAN, NAN]])


def returns(**changes: Any) -> torch.Tensor:
    coefficients = {"gamma": 0.5, "gae_lambda": 0.4}
    return turn_end_returns(REWARDS, ENDS, TURN_INDEX, **{**coefficients, **changes})


def test_golden():
    # Row 0: delta_1 = 2 - 5 = -3, A_1 = -3, target 2. delta_0 = 1 + 0.5 * 5 - 2.5 = 1, A_0 = 1 + 0.2 * -3 = 0.4,
    # target 2.9. Row 1: A_0 = 4 - 3 = 1, target 4.
    expected = torch.tensor([[2.9, 2.0, 0.0], [4.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(returns(), expected)


def test_golden_truncated():
    # Row 0 goes on with 10: delta_1 = 2 + 0.5 * 10 - 5 = 2, target 7; A_0 = 1 + 0.2 * 2 = 1.4, target 3.9.
    expected = torch.tensor([[3.9, 7.0, 0.0], [4.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(returns(bootstrap_values_B=torch.tensor([10.0, 0.0, NAN])), expected)


def test_a_masked_out_turn_is_stepped_over():
    # Turn 1 has no token: turn 2 follows turn 0. Target 4 at turn 2, and 1 + 0.5 * (0.4 * 4 + 0.6 * 30) at turn 0.
    targets = turn_end_returns(
        torch.tensor([[1.0, NAN, 4.0]]),
        torch.tensor([[10.0, NAN, 30.0]]),
        torch.tensor([[0, -1, 2]]),
        gamma=0.5,
        gae_lambda=0.4,
    )
    torch.testing.assert_close(targets, torch.tensor([[10.8, 0.0, 4.0]]))


def test_without_penalties_and_token_discount_it_is_the_return_of_the_last_token():
    # The loss of section 2.2 regresses V through a token on that token's own return.
    generator = torch.Generator().manual_seed(0)
    turn_index = torch.tensor([[-1, 0, 0, -1, 1, 1, 1], [0, -1, 1, -1, 2, 2, -1]])
    rewards, ends = (torch.randn(2, 3, generator=generator) for _ in range(2))
    values, bootstrap = torch.randn(2, 7, generator=generator), torch.randn(2, generator=generator)
    _, returns_BT = bilevel_gae(
        rewards,
        torch.zeros(2, 7),
        values,
        ends,
        turn_index,
        gamma_turn=0.9,
        lambda_turn=0.8,
        gamma_token=1.0,
        lambda_token=0.3,
        bootstrap_values_B=bootstrap,
        variant="paper",
    )
    targets_BK = turn_end_returns(rewards, ends, turn_index, gamma=0.9, gae_lambda=0.8, bootstrap_values_B=bootstrap)
    torch.testing.assert_close(targets_BK[0, :2], returns_BT[0, [2, 6]])
    torch.testing.assert_close(targets_BK[1], returns_BT[1, [0, 2, 5]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gamma": 1.1}, r"gamma: expected a number in \[0, 1\], got 1.1"),
        ({"gae_lambda": NAN}, "gae_lambda: expected a number"),
        ({"bootstrap_values_B": torch.zeros(3, 1)}, r"bootstrap_values_B: expected shape \(3,\), got \(3, 1\)"),
    ],
)
def test_misuse_is_explained(changes, message):
    with pytest.raises(ValueError, match=message):
        returns(**changes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((REWARDS[:, :2], ENDS, TURN_INDEX), r"turn_end_values_BK: expected shape \(3, 2\), got \(3, 3\)"),
        ((REWARDS, ENDS, TURN_INDEX[0]), "turn_index_BT: expected 2 dimensions"),
        ((REWARDS, ENDS, TURN_INDEX.float()), "turn_index_BT: expected an integer dtype"),
        ((REWARDS, ENDS, TURN_INDEX + 3), "turn_index_BT: expected numbers from -1"),
        ((REWARDS, ENDS, TURN_INDEX.flip(1)), "turn_index_BT: expected turn numbers that never fall"),
    ],
)
def test_shapes_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        turn_end_returns(*arguments, gamma=1.0, gae_lambda=1.0)


# --- learning ------------------------------------------------------------------------------------------------------


def learner_of(model, encoder, *, variant: str = "paper", critic: dict[str, Any] | None = None, **ppo: Any) -> Learner:
    critic = {"num_minibatches": 1, "value_clip": None, "warmup_iterations": 100} | (critic or {})
    config = run_config(
        num_groups=4,
        num_iterations=200,
        algorithm=BilevelGAE(critic=CriticConfig(**critic), variant=variant, bootstrap_truncated=False),
        ppo=PPOConfig(**{"num_minibatches": 1, "kl_coef": 0.0, **ppo}),
    )
    return Learner(copy.deepcopy(model), encoder.suppressed_ids(), config)


def test_only_the_ends_of_turns_move_a_critic_whose_other_values_are_right(tiny):
    model, encoder = tiny
    batch = played_batch(model, encoder)
    learner = learner_of(model, encoder)
    before = learner.model_outputs(batch)
    target_BK = (before.turn_end_values_BK + 1.0) * batch.turn_mask_BK
    losses = []
    for targets in (None, target_BK):
        metrics = learner.update(
            batch,
            before,
            Credit(advantages_BT=torch.zeros(()), returns_BT=before.values_BT, turn_end_returns_BK=targets),
            iteration=0,
        )
        losses.append(metrics["value_loss"])
        if targets is None:
            assert "turn_end_explained_variance" not in metrics
            assert torch.equal(learner.model_outputs(batch).turn_end_values_BK, before.turn_end_values_BK)
    # Half a squared error of 1 (in standard deviations of the returns) at each end, over tokens and ends alike
    num_tokens, num_ends = int(batch.response_mask_BT.sum()), int(batch.turn_mask_BK.sum())
    assert num_ends == sum(len(set(turns) - {-1}) for turns in batch.turn_index_BT.tolist())
    assert losses == pytest.approx(
        [0.0, 0.5 / float(learner.critic.std) ** 2 * num_ends / (num_tokens + num_ends)], rel=1e-4
    )
    moved_BK = learner.model_outputs(batch).turn_end_values_BK - before.turn_end_values_BK
    assert (moved_BK[batch.turn_mask_BK] > 0).all()
    assert not moved_BK[~batch.turn_mask_BK].any()


@pytest.mark.parametrize("aggregation", quick(["token_mean", "sequence_mean", "constant"], "token_mean"))
def test_gradients_do_not_depend_on_the_micro_batches(tiny, aggregation):
    model, encoder = tiny
    batch = played_batch(model, encoder)
    batch = replace(batch, trainable_B=torch.tensor([True] * 7 + [False]))
    results = []
    for size in (3, 8):
        learner = learner_of(
            model,
            encoder,
            critic={"num_epochs": 2, "value_clip": 0.01},
            micro_batch_size=size,
            aggregation=aggregation,
        )
        learner.critic_optimizer.zero_grad = lambda: None  # they are looked at below
        outputs = learner.model_outputs(batch)
        with torch.no_grad():
            learner.critic.head.bias.fill_(0.1)  # away from the values of before, so that some are clipped
        credit = learner.config.algorithm.credit(batch, outputs)
        metrics = learner.update(batch, outputs, replace(credit, advantages_BT=torch.zeros(())), iteration=0)
        results.append((metrics, [p.grad for p in learner.critic.parameters() if p.grad is not None]))
    (first, first_grads), (second, second_grads) = results
    assert first == pytest.approx(second, rel=1e-3, abs=1e-6, nan_ok=True)
    assert max(float(grad.abs().max()) for grad in first_grads) > 1e-4
    for one, other in zip(first_grads, second_grads, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.soak
def test_the_papers_variant_learns_the_values_it_reads(tiny):
    model, encoder = tiny
    batch = played_batch(model, encoder)
    learner = learner_of(model, encoder, critic={"learning_rate": 1e-3})
    errors = []
    for iteration in range(12):
        outputs = learner.model_outputs(batch)
        credit = learner.config.algorithm.credit(batch, outputs)
        metrics = learner.update(batch, outputs, replace(credit, advantages_BT=torch.zeros(())), iteration=iteration)
        error_BK = (outputs.turn_end_values_BK - credit.turn_end_returns_BK) * batch.turn_mask_BK
        errors.append(float(error_BK.square().sum() / batch.turn_mask_BK.sum()))
        assert metrics["turn_end_explained_variance"] <= 1.0
    assert min(errors) < 0.7 * errors[0], errors


def test_turns_that_are_not_learnt_from_have_no_end_to_learn(tiny):
    model, encoder = tiny
    batch = played_batch(model, encoder, num_rows=4)
    trainable_BK = batch.trainable_BK.clone()
    trainable_BK[0, 0] = False
    part = replace(batch, trainable_BK=trainable_BK, trainable_B=torch.tensor([True, True, False, True]))
    has_turn_BK = torch.stack(
        [(batch.turn_index_BT == turn).any(-1) for turn in range(batch.turn_rewards_BK.shape[1])], 1
    )
    expected_BK = has_turn_BK.clone()
    expected_BK[0, 0], expected_BK[2] = False, False
    assert torch.equal(part.turn_mask_BK, expected_BK)
    assert torch.equal(batch.turn_mask_BK, has_turn_BK)
    learner = learner_of(model, encoder)
    targets_BK = learner.config.algorithm.credit(part, learner.model_outputs(part)).turn_end_returns_BK
    assert torch.equal(targets_BK != 0, expected_BK)
