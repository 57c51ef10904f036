"""The losses and metrics of a micro-batch, and validation of an algorithm's credit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from training.algorithms.algorithm import Algorithm, Credit, ModelOutputs
from training.algorithms.losses import (
    aggregate,
    explained_variance,
    kl_penalty,
    truncated_importance_weights,
    value_loss,
)
from training.algorithms.shipped import name_of
from training.batch import Batch
from training.config.run_config import RunConfig
from training.config.update_config import PPOConfig
from training.engines.policy import Values
from training.update.micro_batches import MicroBatch, drawn_mask, learnt_mask
from vlm_envs.errors import ConfigError


def policy_loss(
    config: RunConfig,
    micro: MicroBatch,
    outputs: ModelOutputs,
    advantages_BT: Tensor,
    logprobs_BT: Tensor,
    entropy_BT: Tensor,
    sums: defaultdict[str, float],
) -> Tensor:
    """Returns one micro-batch's share of the policy loss, and adds its metrics to `sums`.

    Args:
        config: The run, with the settings that its algorithm overrides applied.
        micro: The rows.
        outputs: The models' outputs for the whole batch before the update.
        advantages_BT: Advantages of the whole batch.
        logprobs_BT: Log-probabilities of the rows' tokens, with gradients.
        entropy_BT: Entropies of the token distributions; with gradients if there is a bonus.
        sums: Metrics of the optimizer step.
    """
    ppo, part, normalizer, share = config.ppo, micro.part, micro.normalizer, micro.share
    device = logprobs_BT.device

    def of(grid_BT: Tensor) -> Tensor:
        return micro.of(grid_BT).to(device)

    mask_BT = part.response_mask_BT.to(device)
    old_BT = of(outputs.old_logprobs_BT)
    weights_BT = None
    if ppo.importance_cap is not None:
        weights_BT = truncated_importance_weights(old_BT, part.sampler_logprobs_BT.to(device), cap=ppo.importance_cap)
    loss, metrics = config.algorithm.policy_loss(
        logprobs_BT,
        old_BT,
        of(advantages_BT),
        mask_BT,
        clip_low=ppo.clip_low,
        clip_high=ppo.clip_high,
        aggregation=ppo.aggregation,
        normalizer=normalizer,
        importance_weights_BT=weights_BT,
    )
    sums["policy_loss"] += float(loss.detach())
    if ppo.entropy_coef > 0:
        loss = loss - ppo.entropy_coef * aggregate(
            entropy_BT, mask_BT, aggregation=ppo.aggregation, normalizer=normalizer
        )
    if ppo.kl_placement == "loss" and outputs.ref_logprobs_BT is not None:
        penalty_BT = kl_penalty(logprobs_BT, of(outputs.ref_logprobs_BT), kl_estimator=ppo.kl_formula)
        loss = loss + ppo.kl_coef * aggregate(penalty_BT, mask_BT, aggregation=ppo.aggregation, normalizer=normalizer)
        sums["kl_loss"] += share * masked_mean(penalty_BT.detach(), mask_BT)
    gap_BT = (logprobs_BT.detach() - part.sampler_logprobs_BT.to(device)).abs()
    is_drawn_BT = drawn_mask(part).to(device)
    sums["sampler_gap"] += micro.drawn_share * masked_mean(torch.where(is_drawn_BT, gap_BT, 0.0), is_drawn_BT)
    sums["entropy"] += share * masked_mean(entropy_BT.detach(), mask_BT)
    for name, value in metrics.items():
        sums[name] += share * float(value)
    return loss


def critic_loss(
    config: RunConfig,
    micro: MicroBatch,
    outputs: ModelOutputs,
    credit: Credit,
    values: Values,
    std: Tensor,
    sums: defaultdict[str, float],
) -> Tensor:
    """Returns one micro-batch's share of the critic loss, in units of the first returns' standard deviation.

    Args:
        config: The run, whose algorithm has a critic.
        micro: The rows.
        outputs: The models' outputs for the whole batch before the update.
        credit: The value targets.
        values: Values of the rows, with gradients.
        std: Standard deviation of the first returns.
        sums: Metrics of the optimizer step, to which the micro-batch's are added.
    """
    critic, device = config.algorithm.critic_config, values.before_BT.device
    assert critic is not None and outputs.values_BT is not None and outputs.turn_end_values_BK is not None
    assert credit.returns_BT is not None
    values_BX, old_BX, returns_BX = values.before_BT, micro.of(outputs.values_BT), micro.of(credit.returns_BT)
    with_turn_ends = credit.turn_end_returns_BK is not None
    if credit.turn_end_returns_BK is not None:
        values_BX = torch.cat([values_BX, values.turn_ends_BK], dim=1)
        old_BX = torch.cat([old_BX, outputs.turn_end_values_BK[micro.rows]], dim=1)
        returns_BX = torch.cat([returns_BX, credit.turn_end_returns_BK[micro.rows]], dim=1)
    loss, metrics = value_loss(
        values_BX / std,
        old_BX.to(device) / std,
        returns_BX.to(device) / std,
        learnt_mask(micro.part, with_turn_ends=with_turn_ends).to(device),
        clip_range=critic.value_clip,
        aggregation=config.ppo.aggregation,
        normalizer=micro.normalizer,
    )
    sums["value_loss"] += float(loss.detach())
    sums["value_clip_fraction"] += micro.share * float(metrics["value_clip_fraction"])
    return loss


def kl_rewards(ppo: PPOConfig, batch: Batch, old_logprobs_BT: Tensor, ref_logprobs_BT: Tensor | None) -> Tensor:
    """Returns the KL penalty in the reward of each generated token, float32 `(B, T)`.

    0 without a reference or if the penalty is part of the loss (`ppo.kl_placement`).
    """
    if ref_logprobs_BT is None or ppo.kl_placement != "reward":
        return torch.zeros_like(old_logprobs_BT)
    penalty_BT = kl_penalty(old_logprobs_BT, ref_logprobs_BT, kl_estimator=ppo.kl_formula)
    return -ppo.kl_coef * penalty_BT * (batch.turn_index_BT >= 0)


def masked_mean(x_BT: Tensor, mask_BT: Tensor) -> float:
    """Returns the mean over a mask; 0 for an empty mask."""
    return float((x_BT * mask_BT).sum() / mask_BT.sum().clamp(min=1))


def update_metrics(
    steps: Sequence[dict[str, float]], batch: Batch, outputs: ModelOutputs, credit: Credit
) -> dict[str, float]:
    """Returns an iteration's update metrics: means over its optimizer steps, except `skipped_steps`, a count."""
    totals: defaultdict[str, list[float]] = defaultdict(list)
    for name, value in (item for step in steps for item in step.items()):
        totals[name].append(value)
    num_skipped = sum(totals.pop("skipped_steps", []))
    metrics = {name: float(np.mean(values)) for name, values in totals.items()}
    metrics["skipped_steps"] = num_skipped
    if credit.returns_BT is not None and outputs.values_BT is not None:
        metrics["explained_variance"] = float(
            explained_variance(outputs.values_BT, credit.returns_BT, batch.response_mask_BT)
        )
    if credit.turn_end_returns_BK is not None and outputs.turn_end_values_BK is not None:
        metrics["turn_end_explained_variance"] = float(
            explained_variance(outputs.turn_end_values_BK, credit.turn_end_returns_BK, batch.turn_mask_BK)
        )
    if "sampler_gap" in totals:
        metrics["sampler_gap"] = totals["sampler_gap"][0]  # first step only: later gaps include policy changes
    return metrics


def assigned_credit(algorithm: Algorithm, batch: Batch, outputs: ModelOutputs) -> Credit:
    """Returns the algorithm's credit for a batch.

    Raises:
        ConfigError: If the algorithm does not return a `Credit`, its tensors do not have the batch's shapes, or critic
            targets are given without a critic or missing with one.
    """
    credit = algorithm.credit(batch, outputs)
    if fault := _credit_fault(credit, batch, has_critic=algorithm.critic_config is not None):
        raise ConfigError(f"--algorithm {name_of(algorithm)}: credit {fault}")
    return credit


def _credit_fault(credit: object, batch: Batch, *, has_critic: bool) -> str:
    if not isinstance(credit, Credit):
        return f"must return a Credit; got {type(credit).__name__}. Use Credit(advantages_BT=...)."
    if (credit.returns_BT is not None) != has_critic:
        return (
            "must return returns_BT with a critic, and None without one; the algorithm "
            f"{'has a' if has_critic else 'has no'} critic, and returns_BT is {'None' if has_critic else 'a tensor'}. "
            "A critic is its field `critic: CriticConfig`."
        )
    per_token, per_turn = batch.response_mask_BT.shape, batch.turn_rewards_BK.shape
    for name, tensor, shape in (
        ("advantages_BT", credit.advantages_BT, per_token),
        ("returns_BT", credit.returns_BT, per_token),
        ("turn_end_returns_BK", credit.turn_end_returns_BK, per_turn),
    ):
        is_optional = name != "advantages_BT"
        if not (isinstance(tensor, Tensor) and tensor.shape == shape) and not (is_optional and tensor is None):
            found = tuple(tensor.shape) if isinstance(tensor, Tensor) else type(tensor).__name__
            return f"returned {name} of {found}; expected a tensor of shape {tuple(shape)}."
    return ""
