"""Losses and diagnostics of the policy and the critic, as pure functions of tensors.

Every per-token function reads generated tokens only: masked-out entries, even NaN, affect neither values nor
gradients. Shape suffixes: `B` rows, `T` tokens, `V` vocabulary.

Losses sum over tokens and divide by a *normalizer*. To make a batch split over micro-batches or ranks give the
gradient of the undivided batch, compute `loss_normalizer` once on the whole batch, pass it to every part, and add up
the parts.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from training.algorithms.estimators import check_mask, check_shape

Aggregation = Literal["token_mean", "sequence_mean", "constant"]
KlEstimator = Literal["k1", "k2", "k3"]

_MAX_LOG_RATIO = 20.0
"""Beyond e^20 a ratio carries no information; the bound keeps `exp` finite and the gradient zero there."""


def policy_loss(
    logprobs_BT: Tensor,
    old_logprobs_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    aggregation: Aggregation = "token_mean",
    normalizer: float | None = None,
    importance_weights_BT: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns PPO's clipped surrogate loss, `-w * min(u * A, clip(u, 1 - clip_low, 1 + clip_high) * A)`.

    Args:
        logprobs_BT: float `(B, T)`, log-probabilities under the policy being trained; carries the gradient.
        old_logprobs_BT: float `(B, T)`, the trainer's log-probabilities before the first update.
        advantages_BT: float `(B, T)`.
        mask_BT: bool `(B, T)`, true at generated tokens.
        clip_low: How far the ratio may fall below 1, in `[0, 1]`.
        clip_high: How far the ratio may rise above 1, at least 0.
        aggregation: See `aggregate`.
        normalizer: See `aggregate`.
        importance_weights_BT: float `(B, T)`, weights `w` such as `truncated_importance_weights`; used as
            constants. All 1 when absent.

    Returns:
        The scalar loss, and detached means over the tokens of this call: `clip_fraction` (tokens whose
        gradient the clip removes), `approx_kl` (k3 estimate of KL(old || new)) and `ratio_mean`.

    Raises:
        ValueError: On a wrong shape or dtype, a clip range out of bounds, or as `aggregate` does.

    Source: VAGEN, equation of J^PPO in section 2.2; separate bounds after DAPO; importance weights after
    truncated importance sampling (Yao et al., 2025). Deviation: log-ratios are bounded to +-20.
    """
    check_mask(mask_BT, logprobs_BT=logprobs_BT, old_logprobs_BT=old_logprobs_BT, advantages_BT=advantages_BT)
    if not 0.0 <= clip_low <= 1.0 or clip_high < 0.0:
        raise ValueError(
            f"clip_low, clip_high: expected 0 <= clip_low <= 1 and clip_high >= 0, got {clip_low} and "
            f"{clip_high}. Both are distances from a ratio of 1, e.g. 0.2."
        )
    log_ratio_BT = _masked(logprobs_BT.float() - old_logprobs_BT.float().detach(), mask_BT)
    bounded_BT = log_ratio_BT.clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    ratio_BT = bounded_BT.exp()
    advantages_BT = advantages_BT.float().detach()
    gain_BT = ratio_BT * advantages_BT
    clipped_gain_BT = ratio_BT.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages_BT
    loss_BT = -torch.minimum(gain_BT, clipped_gain_BT)
    if importance_weights_BT is not None:
        check_mask(mask_BT, importance_weights_BT=importance_weights_BT)
        loss_BT = loss_BT * importance_weights_BT.float().detach()

    with torch.no_grad():
        metrics = {
            "clip_fraction": _masked_mean((clipped_gain_BT < gain_BT).float(), mask_BT),
            "approx_kl": _masked_mean(torch.expm1(bounded_BT) - log_ratio_BT, mask_BT),
            "ratio_mean": _masked_mean(ratio_BT, mask_BT),
        }
    return aggregate(loss_BT, mask_BT, aggregation=aggregation, normalizer=normalizer), metrics


def value_loss(
    values_BT: Tensor,
    old_values_BT: Tensor,
    returns_BT: Tensor,
    mask_BT: Tensor,
    *,
    clip_range: float | None,
    aggregation: Aggregation = "token_mean",
    normalizer: float | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns half the critic's squared error, at least that of the prediction clipped to the clip range.

    Args:
        values_BT: float `(B, T)`, predictions being trained; carry the gradient.
        old_values_BT: float `(B, T)`, predictions from which the advantages were computed.
        returns_BT: float `(B, T)`, targets.
        mask_BT: bool `(B, T)`, true at generated tokens.
        clip_range: How far a prediction may move from the old one, positive; None for the plain error.
        aggregation: See `aggregate`.
        normalizer: See `aggregate`.

    Returns:
        The scalar loss, and the detached `value_clip_fraction`: tokens whose gradient the clip removes.

    Raises:
        ValueError: On a wrong shape or dtype, a clip range that is not positive, or as `aggregate` does.

    Source: VAGEN, J^Critic of section 2.2 and Algorithm 1, line 28, which differ in whether the prefix of target `i`
    includes token `i` (section 2.2) or ends before it (Algorithm 1). The caller chooses. Deviations: the factor 1/2,
    and the clip of the PPO reference implementation (Huang et al., 2022, detail 9).
    """
    check_mask(mask_BT, values_BT=values_BT, old_values_BT=old_values_BT, returns_BT=returns_BT)
    if clip_range is not None and clip_range <= 0.0:
        raise ValueError(f"clip_range: expected a positive number or None for no clip, got {clip_range}.")
    values_BT = _masked(values_BT.float(), mask_BT)
    old_values_BT, returns_BT = old_values_BT.float().detach(), returns_BT.float().detach()
    error_BT = (values_BT - returns_BT).square()
    clipped_error_BT = error_BT
    if clip_range is not None:
        moved_BT = (values_BT - old_values_BT).clamp(-clip_range, clip_range)
        clipped_error_BT = (old_values_BT + moved_BT - returns_BT).square()
    loss_BT = 0.5 * torch.maximum(error_BT, clipped_error_BT)
    with torch.no_grad():
        metrics = {"value_clip_fraction": _masked_mean((clipped_error_BT > error_BT).float(), mask_BT)}
    return aggregate(loss_BT, mask_BT, aggregation=aggregation, normalizer=normalizer), metrics


def aggregate(loss_BT: Tensor, mask_BT: Tensor, *, aggregation: Aggregation, normalizer: float | None = None) -> Tensor:
    """Returns a per-token loss reduced to a scalar.

    - `token_mean`: sum over tokens / normalizer. Every token of the batch weighs the same.
    - `sequence_mean`: sum over rows of the mean over the row / normalizer. Every row weighs the same, so
      the tokens of long rows weigh less.
    - `constant`: sum over tokens / normalizer, a number that does not depend on the batch, such as
      `num_rows * max_tokens` (Dr.GRPO).

    Args:
        loss_BT: float `(B, T)`.
        mask_BT: bool `(B, T)`, true at generated tokens.
        aggregation: One of the above.
        normalizer: Divisor, positive; `loss_normalizer` of this mask when absent. Required by `constant`.

    Returns:
        A scalar; 0, with zero gradient, for a mask that is nowhere true.

    Raises:
        ValueError: On a wrong shape or dtype, an unknown aggregation, or a missing or non-positive
            normalizer.
    """
    check_mask(mask_BT, loss_BT=loss_BT)
    if normalizer is None:
        normalizer = max(loss_normalizer(mask_BT, aggregation=aggregation), 1.0)
    elif aggregation not in get_args(Aggregation):
        raise _unknown("aggregation", aggregation, get_args(Aggregation))
    if normalizer <= 0.0:
        raise ValueError(f"normalizer: expected a positive number, got {normalizer}.")
    loss_BT = _masked(loss_BT, mask_BT)
    if aggregation == "sequence_mean":
        loss_BT = loss_BT / mask_BT.sum(dim=1, keepdim=True).clamp(min=1)
    return loss_BT.sum() / normalizer


def loss_normalizer(mask_BT: Tensor, *, aggregation: Aggregation) -> float:
    """Returns the default divisor of `aggregate`: the number of generated tokens, or of rows with any.

    Args:
        mask_BT: bool `(B, T)`, mask of the whole batch, not of a micro-batch.
        aggregation: `token_mean` or `sequence_mean`.

    Returns:
        The count; add up the counts of all ranks before use.

    Raises:
        ValueError: On a wrong mask, or an aggregation that is unknown or has no count (`constant`).
    """
    check_mask(mask_BT)
    if aggregation == "token_mean":
        return float(mask_BT.sum())
    if aggregation == "sequence_mean":
        return float(mask_BT.any(dim=1).sum())
    if aggregation == "constant":
        raise ValueError(
            "normalizer: required by aggregation 'constant'. Pass a number that stays the same throughout the run, "
            "e.g. num_rows * max_tokens."
        )
    raise _unknown("aggregation", aggregation, get_args(Aggregation))


def entropy(logits_BTV: Tensor) -> Tensor:
    """Returns the entropy of each next-token distribution, in nats.

    Args:
        logits_BTV: float `(..., V)`; -inf marks suppressed tokens.

    Returns:
        float32 `(...)`, in `[0, log V]`, differentiable.
    """
    logprobs_BTV = logits_BTV.float().log_softmax(dim=-1)
    # p * log p tends to 0 with p, but 0 * -inf is NaN.
    finite_logprobs_BTV = logprobs_BTV.masked_fill(logprobs_BTV == -torch.inf, 0.0)
    return -(logprobs_BTV.exp() * finite_logprobs_BTV).sum(dim=-1)


def kl_penalty(logprobs_BT: Tensor, ref_logprobs_BT: Tensor, *, kl_estimator: KlEstimator) -> Tensor:
    """Returns KL(policy || reference) at each token, estimated from the token that the policy sampled.

    With `d = log(policy / reference)`: `k1 = d`, `k2 = d^2 / 2`, `k3 = exp(-d) - 1 + d`. As estimates, k1 and k3 are
    unbiased and k2 is not; k3 varies less and is never negative. Subtracted from the *reward*, k1 gives the unbiased
    policy gradient. Differentiated as a *loss* on samples of the policy itself, k1 has expected gradient 0 and k3
    follows KL(reference || policy); only k2 has the gradient of this KL.

    Args:
        logprobs_BT: float, any shape, log-probabilities of the sampled tokens under the policy.
        ref_logprobs_BT: float, same shape, under the frozen reference; used as constants.
        kl_estimator: `k1`, `k2` or `k3`.

    Returns:
        float32 of the same shape, not scaled and not masked; differentiable.

    Raises:
        ValueError: On unequal shapes or an unknown estimator.

    Source: J. Schulman, "Approximating KL Divergence" (2020). Deviation: k3's `d` is at least -20, so that the
    estimate and its gradient stay finite at tokens to which the policy assigns almost no probability.
    """
    check_shape("ref_logprobs_BT", ref_logprobs_BT, logprobs_BT.shape)
    log_ratio_BT = logprobs_BT.float() - ref_logprobs_BT.float().detach()
    if kl_estimator == "k1":
        return log_ratio_BT
    if kl_estimator == "k2":
        return 0.5 * log_ratio_BT.square()
    if kl_estimator == "k3":
        bounded_BT = log_ratio_BT.clamp(min=-_MAX_LOG_RATIO)  # above, k3 grows by no more than `d` itself
        return torch.expm1(-bounded_BT) + bounded_BT
    raise _unknown("kl_estimator", kl_estimator, get_args(KlEstimator))


@torch.no_grad()
def truncated_importance_weights(old_logprobs_BT: Tensor, sampler_logprobs_BT: Tensor, *, cap: float) -> Tensor:
    """Returns the probability ratio of trainer to sampler at each token, capped.

    Args:
        old_logprobs_BT: float, any shape, log-probabilities by the trainer before the first update.
        sampler_logprobs_BT: float, same shape, by the engine that sampled, of the distribution it sampled
            from (after temperature and top-p).
        cap: Largest weight, positive, e.g. 2.

    Returns:
        float32 of the same shape, `min(exp(old - sampler), cap)`, without gradient.

    Raises:
        ValueError: On unequal shapes or a cap that is not positive.

    Source: Yao et al., "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training" (2025).
    """
    check_shape("sampler_logprobs_BT", sampler_logprobs_BT, old_logprobs_BT.shape)
    if cap <= 0.0:
        raise ValueError(f"cap: expected a positive number, got {cap}.")
    return (old_logprobs_BT.float() - sampler_logprobs_BT.float()).exp().clamp(max=cap)


@torch.no_grad()
def explained_variance(values_BT: Tensor, returns_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Returns `1 - Var(returns - values) / Var(returns)` over generated tokens.

    Args:
        values_BT: float `(B, T)`, predictions.
        returns_BT: float `(B, T)`, targets.
        mask_BT: bool `(B, T)`, true at generated tokens.

    Returns:
        float32 scalar, at most 1; 0 for a constant prediction; NaN where the targets do not vary.

    Raises:
        ValueError: On a wrong shape or dtype.
    """
    check_mask(mask_BT, values_BT=values_BT, returns_BT=returns_BT)
    returns_N = returns_BT[mask_BT].float()
    if len(returns_N) == 0 or bool(returns_N.min() == returns_N.max()):
        return returns_N.new_tensor(torch.nan)
    errors_N = returns_N - values_BT[mask_BT].float()
    return 1.0 - errors_N.var(correction=0) / returns_N.var(correction=0)


def _masked(x_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Returns the entries with masked-out ones replaced by 0.

    Multiplying by 0 would keep NaN in both the forward and the backward pass. Inputs that carry a gradient are masked
    before use, so that no NaN enters their gradient, and `aggregate` masks the loss.
    """
    return torch.where(mask_BT, x_BT, 0.0)


def _masked_mean(x_BT: Tensor, mask_BT: Tensor) -> Tensor:
    return _masked(x_BT, mask_BT).sum() / mask_BT.sum().clamp(min=1)


def _unknown(name: str, got: str, choices: tuple[str, ...]) -> ValueError:
    return ValueError(f"{name}: expected one of {', '.join(choices)}, got {got!r}.")
