"""Losses against written-out constants and against what their gradients must do."""

import math
from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from training.algorithms.losses import (
    Aggregation,
    KlEstimator,
    aggregate,
    entropy,
    explained_variance,
    kl_penalty,
    loss_normalizer,
    policy_loss,
    truncated_importance_weights,
    value_loss,
)

NAN = float("nan")
CLIP: dict[str, Any] = {"clip_low": 0.2, "clip_high": 0.3}

# Six tokens with ratios 0.5, 1.0, 2.0 and advantages of both signs, then a masked-out NaN. Bounds: 0.8, 1.3.
RATIOS = torch.tensor([[0.5, 1.0, 2.0, 0.5, 1.0, 2.0, NAN]])
ADVANTAGES = torch.tensor([[1.0, 1.0, 1.0, -1.0, -1.0, -1.0, NAN]])
MASK = torch.tensor([[True] * 6 + [False]])
# min(u A, clip(u) A):  0.5,  1.0,  1.3,  -0.8,  -1.0,  -2.0;  sum -1.0.  The clip binds at tokens 2 and 3.
PER_TOKEN_LOSS = [-0.5, -1.0, -1.3, 0.8, 1.0, 2.0]


def leaf(x: Tensor) -> Tensor:
    return x.clone().requires_grad_()


def grad_of(loss: Tensor, x: Tensor) -> Tensor:
    loss.backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    return x.grad


class TestPolicyLoss:
    def test_golden(self) -> None:
        loss, metrics = policy_loss(RATIOS.log(), torch.zeros_like(RATIOS), ADVANTAGES, MASK, **CLIP)
        assert loss.item() == pytest.approx(1.0 / 6)
        assert set(metrics) == {"clip_fraction", "approx_kl", "ratio_mean"}
        assert metrics["clip_fraction"].item() == pytest.approx(2 / 6)
        assert metrics["ratio_mean"].item() == pytest.approx(7 / 6)
        # k3 of KL(old || new) is u - 1 - log u: twice (-0.5 + log 2), twice 0, twice (1 - log 2); sum is 1.
        assert metrics["approx_kl"].item() == pytest.approx(1.0 / 6)

    @pytest.mark.parametrize("token", range(6))
    def test_golden_by_token(self, token: int) -> None:
        mask = torch.zeros_like(MASK)
        mask[0, token] = True
        loss, _ = policy_loss(RATIOS.log(), torch.zeros_like(RATIOS), ADVANTAGES, mask, **CLIP)
        assert loss.item() == pytest.approx(PER_TOKEN_LOSS[token])

    def test_clipped_tokens_and_masked_tokens_get_no_gradient(self) -> None:
        logprobs = leaf(RATIOS.log())
        loss, _ = policy_loss(logprobs, torch.zeros_like(RATIOS), ADVANTAGES, MASK, **CLIP)
        # Elsewhere d(-u A) / d log u = -u A, over six tokens.
        expected = torch.tensor([[-0.5, -1.0, 0.0, 0.0, 1.0, 2.0, 0.0]]) / 6
        torch.testing.assert_close(grad_of(loss, logprobs), expected)

    def test_ratio_is_new_over_old(self) -> None:
        new, old = torch.tensor([[math.log(0.6)]]), torch.tensor([[math.log(0.5)]])
        loss, metrics = policy_loss(new, old, torch.ones(1, 1), torch.ones(1, 1).bool(), **CLIP)
        assert metrics["ratio_mean"].item() == pytest.approx(1.2)
        assert loss.item() == pytest.approx(-1.2)

    def test_importance_weights_scale_tokens_and_masked_ones_may_be_nan(self) -> None:
        weights = torch.tensor([[2.0, 1.0, 1.0, 1.0, 1.0, 0.5, NAN]])
        loss, _ = policy_loss(
            RATIOS.log(), torch.zeros_like(RATIOS), ADVANTAGES, MASK, **CLIP, importance_weights_BT=weights
        )
        # The first token counts twice (-0.5 more), the last one half (2.0 becomes 1.0): 1.0 - 0.5 - 1.0.
        assert loss.item() == pytest.approx(-0.5 / 6)

    def test_gradient_flows_to_the_new_logprobs_only(self) -> None:
        new, old, advantages, weights = (leaf(torch.ones(1, 2)) for _ in range(4))
        loss, _ = policy_loss(new, old, advantages, torch.ones(1, 2).bool(), **CLIP, importance_weights_BT=weights)
        grad_of(loss, new)
        assert old.grad is None
        assert advantages.grad is None
        assert weights.grad is None

    def test_nan_advantages_at_masked_tokens_do_not_reach_the_gradient(self) -> None:
        logprobs, advantages = leaf(torch.zeros(1, 2)), torch.tensor([[1.0, NAN]])
        mask = torch.tensor([[True, False]])
        loss, _ = policy_loss(logprobs, torch.zeros(1, 2), advantages, mask, **CLIP)
        assert grad_of(loss, logprobs).tolist() == [[-1.0, 0.0]]

    def test_huge_ratios_stay_finite(self) -> None:
        new = leaf(torch.tensor([[500.0]]))
        loss, metrics = policy_loss(new, torch.zeros(1, 1), -torch.ones(1, 1), torch.ones(1, 1).bool(), **CLIP)
        assert loss.isfinite()
        assert metrics["approx_kl"].isfinite()
        assert grad_of(loss, new).item() == 0.0

    @pytest.mark.parametrize("changes", [{"clip_low": -0.1}, {"clip_low": 1.2}, {"clip_high": -0.1}])
    def test_clip_range_is_checked(self, changes: dict[str, float]) -> None:
        with pytest.raises(ValueError, match="clip_low, clip_high: expected 0 <= clip_low <= 1"):
            policy_loss(RATIOS, RATIOS, ADVANTAGES, MASK, **{**CLIP, **changes})


class TestAggregation:
    # Rows of 1, 3 and 0 tokens with losses 6 | 1, 2, 3 | none.
    LOSS = torch.tensor([[6.0, NAN, NAN], [1.0, 2.0, 3.0], [NAN, NAN, NAN]])
    MASK = torch.tensor([[True, False, False], [True, True, True], [False, False, False]])

    @pytest.mark.parametrize(
        ("aggregation", "normalizer", "expected"),
        [
            ("token_mean", None, 12 / 4),
            ("sequence_mean", None, (6 + 2) / 2),  # the empty row does not count
            ("constant", 9.0, 12 / 9),
            ("token_mean", 8.0, 12 / 8),
            ("sequence_mean", 4.0, (6 + 2) / 4),
        ],
    )
    def test_golden(self, aggregation: Aggregation, normalizer: float | None, expected: float) -> None:
        actual = aggregate(self.LOSS, self.MASK, aggregation=aggregation, normalizer=normalizer)
        assert actual.item() == pytest.approx(expected)

    @pytest.mark.parametrize("aggregation", get_args(Aggregation))
    def test_micro_batches_add_up_to_the_full_batch(self, aggregation: Aggregation) -> None:
        generator = torch.Generator().manual_seed(0)
        logprobs, old_logprobs, advantages = (0.3 * torch.randn(4, 5, generator=generator) for _ in range(3))
        mask = torch.arange(5) < torch.tensor([[5], [1], [3], [0]])
        normalizer = 20.0 if aggregation == "constant" else loss_normalizer(mask, aggregation=aggregation)

        def gradient(parts: list[slice]) -> Tensor:
            new = leaf(logprobs)
            for rows in parts:
                inputs = (new[rows], old_logprobs[rows], advantages[rows], mask[rows])
                loss, _ = policy_loss(*inputs, **CLIP, aggregation=aggregation, normalizer=normalizer)
                loss.backward()  # type: ignore[no-untyped-call]
            assert new.grad is not None
            return new.grad

        full = gradient([slice(0, 4)])
        assert full[mask].ne(0).any()
        torch.testing.assert_close(gradient([slice(0, 1), slice(1, 3), slice(3, 4)]), full)

    def test_token_mean_of_unequal_parts_is_not_the_mean_of_their_means(self) -> None:
        halves = [aggregate(self.LOSS[[i]], self.MASK[[i]], aggregation="token_mean") for i in (0, 1)]
        assert sum(halves).item() / 2 == pytest.approx(4.0)  # type: ignore[union-attr]
        full = aggregate(self.LOSS, self.MASK, aggregation="token_mean", normalizer=4.0)
        assert full.item() == pytest.approx(3.0)

    @pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean"])
    def test_nothing_generated_is_a_zero_that_backpropagates(self, aggregation: Aggregation) -> None:
        loss_BT = leaf(torch.full((2, 3), NAN))
        loss = aggregate(loss_BT, torch.zeros(2, 3).bool(), aggregation=aggregation)
        assert loss.item() == 0.0
        assert not grad_of(loss, loss_BT).any()

    @pytest.mark.parametrize(
        ("aggregation", "normalizer", "message"),
        [
            ("constant", None, "normalizer.*'constant'"),
            ("mean", None, "aggregation: expected one of token_mean, sequence_mean, constant, got 'mean'"),
            ("mean", 3.0, "aggregation: expected one of token_mean, sequence_mean, constant, got 'mean'"),
            ("token_mean", 0.0, "normalizer: expected a positive number, got 0.0"),
        ],
    )
    def test_misuse(self, aggregation: Aggregation, normalizer: float | None, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            aggregate(self.LOSS, self.MASK, aggregation=aggregation, normalizer=normalizer)


class TestValueLoss:
    # Old value 10, range 0.5, targets 11: predictions 10.2 (inside), 10.8 and 13 (clipped to 10.5).
    # Squared errors 0.64, 0.04, 4.0; of the clipped predictions 0.64, 0.25, 0.25; maxima 0.64, 0.25, 4.0.
    VALUES = torch.tensor([[10.2, 10.8, 13.0, NAN]])
    OLD = torch.tensor([[10.0, 10.0, 10.0, NAN]])
    RETURNS = torch.tensor([[11.0, 11.0, 11.0, NAN]])
    MASK = torch.tensor([[True, True, True, False]])

    def test_golden_and_gradient(self) -> None:
        values = leaf(self.VALUES)
        loss, metrics = value_loss(values, self.OLD, self.RETURNS, self.MASK, clip_range=0.5)
        assert loss.item() == pytest.approx(0.5 * 4.89 / 3)
        assert metrics["value_clip_fraction"].item() == pytest.approx(1 / 3)
        expected = torch.tensor([[-0.8, 0.0, 2.0, 0.0]]) / 3  # v - R where the plain error is the larger
        torch.testing.assert_close(grad_of(loss, values), expected)

    def test_gradient_flows_to_the_new_values_only(self) -> None:
        values, old_values, returns = (leaf(torch.tensor([[x]])) for x in (1.0, 2.0, 3.0))
        loss, _ = value_loss(values, old_values, returns, torch.ones(1, 1).bool(), clip_range=0.5)
        grad_of(loss, values)
        assert old_values.grad is None
        assert returns.grad is None

    def test_without_clip(self) -> None:
        loss, metrics = value_loss(self.VALUES, self.OLD, self.RETURNS, self.MASK, clip_range=None)
        assert loss.item() == pytest.approx(0.5 * 4.68 / 3)
        assert metrics["value_clip_fraction"].item() == 0.0

    def test_normalizer(self) -> None:
        loss, _ = value_loss(self.VALUES, self.OLD, self.RETURNS, self.MASK, clip_range=None, normalizer=10.0)
        assert loss.item() == pytest.approx(0.5 * 4.68 / 10)

    def test_clip_range_is_checked(self) -> None:
        with pytest.raises(ValueError, match="clip_range: expected a positive number or None"):
            value_loss(self.VALUES, self.OLD, self.RETURNS, self.MASK, clip_range=0.0)


class TestEntropy:
    def test_golden(self) -> None:
        probabilities = torch.tensor([[[0.25] * 4, [0.5, 0.25, 0.125, 0.125], [1.0, 0.0, 0.0, 0.0]]])
        expected = torch.tensor([[2.0, 1.75, 0.0]]) * math.log(2)  # 2, 1.75 and 0 bits
        torch.testing.assert_close(entropy(probabilities.log()), expected)

    def test_suppressed_tokens_keep_the_gradient_finite(self) -> None:
        logits = leaf(torch.tensor([[[0.0, 1.0, -torch.inf]]]))
        assert grad_of(entropy(logits).sum(), logits).isfinite().all()

    def test_does_not_depend_on_a_shift_of_the_logits(self) -> None:
        logits = torch.tensor([[[0.0, 1.0, 3.0]]])
        torch.testing.assert_close(entropy(logits + 50.0), entropy(logits))


class TestKlPenalty:
    @pytest.mark.parametrize(
        ("estimator", "expected"),
        [
            ("k1", [math.log(2), -math.log(2)]),
            ("k2", [0.5 * math.log(2) ** 2, 0.5 * math.log(2) ** 2]),
            ("k3", [0.5 - 1 + math.log(2), 2 - 1 - math.log(2)]),
        ],
    )
    def test_golden(self, estimator: KlEstimator, expected: list[float]) -> None:
        # policy / reference is 2, then 1/2.
        policy, reference = torch.tensor([[0.8, 0.2]]).log(), torch.tensor([[0.4, 0.4]]).log()
        actual = kl_penalty(policy, reference, kl_estimator=estimator)
        torch.testing.assert_close(actual, torch.tensor([expected]))

    def expectation(self, policy_V: Tensor, reference_V: Tensor, estimator: KlEstimator) -> Tensor:
        return (policy_V * kl_penalty(policy_V.log(), reference_V.log(), kl_estimator=estimator)).sum()

    def test_k1_and_k3_are_unbiased_and_k2_is_not(self) -> None:
        policy, reference = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.2, 0.3, 0.5])
        exact = (policy * (policy / reference).log()).sum()
        torch.testing.assert_close(self.expectation(policy, reference, "k1"), exact)
        torch.testing.assert_close(self.expectation(policy, reference, "k3"), exact)
        assert not torch.isclose(self.expectation(policy, reference, "k2"), exact, rtol=1e-2)

    @pytest.mark.parametrize(("estimator", "is_exact"), [("k1", False), ("k2", True), ("k3", False)])
    def test_only_k2_has_the_gradient_of_the_kl(self, estimator: KlEstimator, is_exact: bool) -> None:
        logits, reference = leaf(torch.tensor([1.0, 0.0, -1.0])), torch.tensor([0.2, 0.3, 0.5])
        logprobs = logits.log_softmax(0)
        (exact,) = torch.autograd.grad((logprobs.exp() * (logprobs - reference.log())).sum(), logits)
        sampled = kl_penalty(logits.log_softmax(0), reference.log(), kl_estimator=estimator)
        weights = logits.log_softmax(0).exp().detach()  # the sampling itself carries no gradient
        (estimate,) = torch.autograd.grad((weights * sampled).sum(), logits)
        assert torch.allclose(estimate, exact, atol=1e-5) == is_exact

    @pytest.mark.parametrize("gap", [-21.0, -99.0, -1e30, -math.inf])
    def test_k3_is_bounded_where_the_policy_has_all_but_given_up_a_token(self, gap: float) -> None:
        policy = leaf(torch.tensor([gap, -20.0, math.log(0.5)]))
        penalty = kl_penalty(policy, torch.zeros(3), kl_estimator="k3")
        grad = grad_of(penalty.sum(), policy)
        assert penalty[0].item() == penalty[1].item() == pytest.approx(math.exp(20) - 21)
        assert grad[0] == 0.0 and grad[2] == pytest.approx(-1.0)  # 1 - 1 / 0.5

    def test_k3_still_pulls_back_a_policy_that_is_far_above_the_reference(self) -> None:
        policy = leaf(torch.zeros(1))
        penalty = kl_penalty(policy, torch.tensor([-99.0]), kl_estimator="k3")
        assert penalty.item() == 98.0 and grad_of(penalty.sum(), policy).item() == 1.0

    def test_unknown_estimator(self) -> None:
        with pytest.raises(ValueError, match="estimator: expected one of k1, k2, k3, got 'k4'"):
            kl_penalty(RATIOS, RATIOS, kl_estimator="k4")  # type: ignore[arg-type]


def test_truncated_importance_weights_golden() -> None:
    # Trainer over sampler: 0.1 / 0.2 = 0.5, 0.3 / 0.3 = 1, 0.9 / 0.1 = 9 (capped).
    trainer, sampler = leaf(torch.tensor([[0.1, 0.3, 0.9]]).log()), torch.tensor([[0.2, 0.3, 0.1]]).log()
    weights = truncated_importance_weights(trainer, sampler, cap=2.0)
    torch.testing.assert_close(weights, torch.tensor([[0.5, 1.0, 2.0]]))
    assert not weights.requires_grad
    with pytest.raises(ValueError, match="cap: expected a positive number"):
        truncated_importance_weights(trainer, sampler, cap=0.0)


class TestExplainedVariance:
    RETURNS = torch.tensor([[1.0, 2.0, 3.0, NAN]])
    MASK = torch.tensor([[True, True, True, False]])

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ([1.0, 2.0, 3.0], 1.0),
            ([6.0, 7.0, 8.0], 1.0),  # a constant offset is not variance
            ([5.0, 5.0, 5.0], 0.0),
            ([3.0, 2.0, 1.0], -3.0),  # errors -2, 0, 2: four times the variance of the targets
        ],
    )
    def test_golden(self, values: list[float], expected: float) -> None:
        actual = explained_variance(torch.tensor([[*values, NAN]]), self.RETURNS, self.MASK)
        assert actual.item() == pytest.approx(expected)

    @pytest.mark.parametrize("mask", [torch.zeros(1, 7).bool(), torch.ones(1, 7).bool()])
    def test_undefined_without_variance(self, mask: Tensor) -> None:
        assert explained_variance(torch.arange(7.0)[None], torch.full((1, 7), 0.1), mask).isnan()


@pytest.mark.parametrize(
    "call",
    [
        lambda short: policy_loss(short, RATIOS, ADVANTAGES, MASK, **CLIP),
        lambda short: policy_loss(RATIOS, RATIOS, short, MASK, **CLIP),
        lambda short: policy_loss(RATIOS, RATIOS, RATIOS, MASK, **CLIP, importance_weights_BT=short),
        lambda short: value_loss(RATIOS, short, RATIOS, MASK, clip_range=None),
        lambda short: aggregate(short, MASK, aggregation="token_mean"),
        lambda short: kl_penalty(RATIOS, short, kl_estimator="k1"),
        lambda short: truncated_importance_weights(RATIOS, short, cap=1.0),
        lambda short: explained_variance(short, RATIOS, MASK),
    ],
)
def test_broadcasting_is_refused(call: Callable[[Tensor], object]) -> None:
    with pytest.raises(ValueError, match=r"expected shape \(1, 7\), got \(1, 1\)"):
        call(torch.zeros(1, 1))


def test_masks_are_bool_and_two_dimensional() -> None:
    with pytest.raises(ValueError, match=r"mask_BT: expected dtype bool, got torch\.float32"):
        aggregate(RATIOS, MASK.float(), aggregation="token_mean")
    with pytest.raises(ValueError, match=r"mask_BT: expected 2 dimensions, got shape \(7,\)"):
        aggregate(RATIOS[0], MASK[0], aggregation="token_mean")


def test_the_kl_of_a_small_update_is_not_lost_to_rounding() -> None:
    # At a ratio of e^0.0001 the k3 estimate is 0.0001^2 / 2; exp() - 1 alone is off by up to 6e-8 in float32.
    log_ratio_BT = torch.tensor([[1e-4, -1e-4, 3e-4]])
    mask_BT, zeros_BT = torch.ones(1, 3, dtype=torch.bool), torch.zeros(1, 3)
    _, metrics = policy_loss(log_ratio_BT, zeros_BT, zeros_BT, mask_BT, clip_low=0.2, clip_high=0.2)
    assert metrics["approx_kl"].item() == pytest.approx((1e-8 + 1e-8 + 9e-8) / 2 / 3, rel=2e-3)
