"""Estimate: from a scored batch to one advantage and one critic target per generated token."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from training.algorithms import advantages
from training.algorithms.turn_ends import turn_end_returns
from training.batch import Batch
from training.config.advantage import AdvantageConfig


@dataclass(frozen=True, kw_only=True)
class Evaluations:
    """What the models say of a batch before the update. All float32 on the CPU.

    Attributes:
        old_logprobs_BT: Log-probabilities the ratio is taken against.
        values_BT: V of the prefix before each generated token; None without a critic.
        turn_end_values_BK: V of the prefix through each turn's last token; None without a critic.
        final_values_B: V after the final observation of rows that carry one, 0 elsewhere; None without a critic.
        token_rewards_BT: The KL penalty, 0 without a reference or where the KL is part of the loss.
        ref_kl: Mean k1 estimate against the reference; None without one.
        ref_logprobs_BT: Log-probabilities under the reference; None without one.
    """

    old_logprobs_BT: Tensor
    values_BT: Tensor | None
    turn_end_values_BK: Tensor | None
    final_values_B: Tensor | None
    token_rewards_BT: Tensor
    ref_kl: float | None
    ref_logprobs_BT: Tensor | None = None


def estimate(batch: Batch, evaluations: Evaluations, config: AdvantageConfig) -> tuple[Tensor, Tensor | None]:
    """Assigns credit.

    Args:
        batch: The rows and their turn rewards.
        evaluations: Values and KL penalties.
        config: Which estimator, with which discounts.

    Returns:
        (advantages_BT, returns_BT), 0 at tokens that are not learnt from; returns are None for GRPO, which has no
        critic. What a masked turn earned counts for the turns before it as ever; a row with an infinite or NaN reward
        is left out whole.
    """
    mask_BT = batch.response_mask_BT
    turn_index_BT = torch.where(batch.usable_B[:, None], batch.turn_index_BT, -1)
    if config.estimator == "grpo":
        token_BT = evaluations.token_rewards_BT * (turn_index_BT >= 0)
        totals_B = batch.turn_rewards_BK.sum(-1) + token_BT.sum(-1)
        groups_B = _comparable_groups(batch)
        return advantages.grpo(totals_B, groups_B, turn_index_BT, scale=config.grpo_scale) * mask_BT, None
    values_BT, ends_BK = evaluations.values_BT, evaluations.turn_end_values_BK
    assert values_BT is not None and ends_BK is not None, "GAE needs a critic"
    bootstrap_B = _bootstrap_values(batch, evaluations, config)
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
        if config.reward_placement == "trajectory":
            placed_BT = advantages.place_trajectory_reward(batch.turn_rewards_BK.sum(-1), turn_index_BT >= 0)
        else:
            placed_BT = advantages.place_turn_rewards(batch.turn_rewards_BK, turn_index_BT)
        rewards_BT = evaluations.token_rewards_BT + placed_BT
        advantages_BT, returns_BT = advantages.token_gae(
            rewards_BT,
            values_BT,
            turn_index_BT >= 0,
            gamma=config.gamma_token,
            gae_lambda=config.lambda_token,
            bootstrap_values_B=bootstrap_B,
        )
    advantages_BT, returns_BT = advantages_BT * mask_BT, returns_BT * mask_BT
    if config.sibling_baseline:
        advantages_BT = advantages.subtract_siblings(advantages_BT, mask_BT, _comparable_groups(batch))
    if config.whitens:
        advantages_BT = advantages.masked_whiten(advantages_BT, mask_BT)
    return advantages_BT, returns_BT


def _comparable_groups(batch: Batch) -> Tensor:
    """Returns the groups, with each row in one of its own that failed or whose total no judge knows.

    Neither is a measure for its siblings: a turn without a score would count as one with a score of 0.
    """
    alone_B = -1 - torch.arange(batch.num_rows)
    return torch.where(batch.comparable_B, batch.group_index_B, alone_B)


def turn_end_targets(batch: Batch, evaluations: Evaluations, config: AdvantageConfig) -> Tensor | None:
    """Returns what V is to learn at the ends of turns, where the estimator reads it there.

    Args:
        batch: The rows and their turn rewards.
        evaluations: Values and KL penalties.
        config: Which estimator, with which discounts.

    Returns:
        float32 `(B, K)`, 0 for turns that are not learnt from; None for estimators that only read V before generated
        tokens, whose targets `estimate` returns.
    """
    if not config.reads_turn_ends:
        return None
    assert evaluations.turn_end_values_BK is not None, "GAE needs a critic"
    targets_BK = turn_end_returns(
        batch.turn_rewards_BK,
        evaluations.turn_end_values_BK,
        torch.where(batch.usable_B[:, None], batch.turn_index_BT, -1),
        gamma=config.gamma_turn,
        gae_lambda=config.lambda_turn,
        bootstrap_values_B=_bootstrap_values(batch, evaluations, config),
    )
    return targets_BK * batch.turn_mask_BK


def _bootstrap_values(batch: Batch, evaluations: Evaluations, config: AdvantageConfig) -> Tensor | None:
    """Returns what follows each row's last turn, shape (B,): V of the state it was truncated in, 0 if the world ended.

    None where nothing is to follow.
    """
    if not config.bootstraps:
        return None
    values_B = evaluations.final_values_B
    assert values_B is not None, "GAE needs a critic"
    lacking_B = batch.usable_B & ~batch.terminated_B & ~batch.has_final_B
    assert not lacking_B.any(), f"{int(lacking_B.sum())} truncated rows lack their final observation; see make_batch"
    return torch.where(batch.has_final_B, values_B, 0.0)


def without_flat_groups(batch: Batch) -> Batch:
    """Returns the batch with the rows of groups whose comparable siblings all earned the same left out of every loss.

    So is a row that cannot be compared. GRPO gives them advantage 0; left in, their tokens would only make the mean
    over tokens smaller.
    """
    groups_B = _comparable_groups(batch)
    is_flat_G = advantages.zero_variance_groups(batch.turn_rewards_BK.sum(-1), groups_B)
    is_flat_B = is_flat_G[torch.unique(groups_B, return_inverse=True)[1]]
    return replace(batch, trainable_B=batch.trainable_B & ~is_flat_B)
