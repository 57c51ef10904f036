"""Estimate: from a scored batch to one advantage and one critic target per generated token."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from training import advantages
from training.batch import Batch
from training.config import AdvantageConfig


@dataclass(frozen=True, kw_only=True)
class Evaluations:
    """What the models say of a batch before the update. All float32 on the CPU.

    Attributes:
        old_logprobs_BT: Log-probabilities the ratio is taken against.
        values_BT: V of the prefix before each generated token; None without a critic.
        turn_end_values_BK: V of the prefix through each turn's last token; None without a critic.
        token_rewards_BT: The KL penalty, 0 without a reference.
        ref_kl: Mean k1 estimate against the reference; None without one.
    """

    old_logprobs_BT: Tensor
    values_BT: Tensor | None
    turn_end_values_BK: Tensor | None
    token_rewards_BT: Tensor
    ref_kl: float | None


def estimate(batch: Batch, evaluations: Evaluations, config: AdvantageConfig) -> tuple[Tensor, Tensor | None]:
    """Assigns credit.

    Args:
        batch: The rows and their turn rewards.
        evaluations: Values and KL penalties.
        config: Which estimator, with which discounts.

    Returns:
        (advantages_BT, returns_BT); returns are None for GRPO, which has no critic.
    """
    mask_BT = batch.response_mask_BT
    turn_index_BT = torch.where(mask_BT, batch.turn_index_BT, -1)
    if config.estimator == "grpo":
        token_BT = evaluations.token_rewards_BT * mask_BT
        totals_B = batch.turn_rewards_BK.sum(-1) + token_BT.sum(-1)
        groups_B = _comparable_groups(batch)
        return advantages.grpo(totals_B, groups_B, turn_index_BT, scale=config.grpo_scale), None
    values_BT, ends_BK = evaluations.values_BT, evaluations.turn_end_values_BK
    assert values_BT is not None and ends_BK is not None, "GAE needs a critic"
    bootstrap_B = last_state_values(batch, ends_BK) if config.bootstrap_truncated else None
    if config.estimator == "bilevel_gae":
        advantages_BT, returns_BT = advantages.bilevel_gae(
            batch.turn_rewards_BK,
            evaluations.token_rewards_BT,
            values_BT,
            ends_BK,
            turn_index_BT,
            gamma_turn=config.gamma_turn,
            lambda_turn=config.lambda_turn,
            gamma_token=config.gamma_token,
            lambda_token=config.lambda_token,
            bootstrap_values_B=bootstrap_B,
            variant=config.variant,
        )
    elif config.estimator == "turn_gae":
        advantages_BT, returns_BT = advantages.turn_gae(
            batch.turn_rewards_BK,
            evaluations.token_rewards_BT,
            values_BT,
            turn_index_BT,
            gamma=config.gamma_turn,
            gae_lambda=config.lambda_turn,
            bootstrap_values_B=bootstrap_B,
        )
    else:
        rewards_BT = evaluations.token_rewards_BT + advantages.place_turn_rewards(batch.turn_rewards_BK, turn_index_BT)
        advantages_BT, returns_BT = advantages.token_gae(
            rewards_BT,
            values_BT,
            mask_BT,
            gamma=config.gamma_token,
            gae_lambda=config.lambda_token,
            bootstrap_values_B=bootstrap_B,
        )
    if config.sibling_baseline:
        advantages_BT = advantages.subtract_siblings(advantages_BT, mask_BT, batch.group_index_B)
    if config.whiten:
        advantages_BT = advantages.masked_whiten(advantages_BT, mask_BT)
    return advantages_BT, returns_BT


def _comparable_groups(batch: Batch) -> Tensor:
    """Returns the groups, with each row that is masked in one of its own: a failure is no measure for its siblings."""
    alone_B = -1 - torch.arange(batch.num_rows)
    return torch.where(batch.trainable_B, batch.group_index_B, alone_B)


def last_state_values(batch: Batch, turn_end_values_BK: Tensor) -> Tensor:
    """Returns V through each row's last turn, and 0 for rows whose world ended, shape (B,)."""
    num_turns_B = batch.turn_index_BT.amax(-1) + 1
    last_B = turn_end_values_BK.gather(1, (num_turns_B - 1).clamp(min=0)[:, None])[:, 0]
    return torch.where(batch.terminated_B | (num_turns_B == 0), 0.0, last_B)


def without_flat_groups(batch: Batch) -> Batch:
    """Returns the batch with the rows of groups whose trainable siblings all earned the same left out of every loss.

    GRPO gives them advantage 0; left in, their tokens would only make the mean over tokens smaller (trap 12).
    """
    groups_B = _comparable_groups(batch)
    is_flat_G = advantages.zero_variance_groups(batch.turn_rewards_BK.sum(-1), groups_B)
    is_flat_B = is_flat_G[torch.unique(groups_B, return_inverse=True)[1]]
    return replace(batch, trainable_B=batch.trainable_B & ~is_flat_B)
