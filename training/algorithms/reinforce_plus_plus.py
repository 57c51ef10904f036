"""REINFORCE++: rewards-to-go normalized over the whole batch, without a critic (Hu et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from training.algorithms.algorithm import Algorithm, Credit, ModelOutputs, without_gradient

if TYPE_CHECKING:
    from torch import Tensor

    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class ReinforcePlusPlus(Algorithm):
    """REINFORCE++: rewards-to-go normalized over the whole batch, without a critic (Hu et al. 2025).

    The KL penalty of each token is in its reward (k1), unless `ppo.kl_placement` puts it into the loss.

    Attributes:
        baseline: Whether to use the episode return minus the group mean in place of rewards-to-go: "REINFORCE++ w/
            Baseline". The paper then puts a k2 KL into the loss: set `ppo.kl_placement` to loss and
            `ppo.kl_estimator` to k2.
    """

    title: ClassVar[str] = "REINFORCE++"
    sibling_setting: ClassVar[str | None] = "baseline"

    baseline: bool = False

    @property
    def min_group_size(self) -> int:
        """2 with `baseline`, else 1."""
        return 2 if self.baseline else 1

    def keep(self, batch: Batch) -> Batch:
        """Returns the batch, with the baseline without rows that are alone in their group (see `GRPO.keep`)."""
        from training.algorithms.estimators import has_sibling

        if not self.baseline:
            return batch
        return replace(batch, trainable_B=batch.trainable_B & has_sibling(batch.comparable_group_index_B))

    def credit(self, batch: Batch, outputs: ModelOutputs) -> Credit:
        """Returns advantages; with the baseline, 0 for a row that is alone in its group."""
        advantages_BT = reinforce_plus_plus(
            batch.turn_rewards_BK,
            outputs.token_rewards_BT,
            batch.usable_turn_index_BT,
            batch.response_mask_BT,
            group_index_B=batch.comparable_group_index_B if self.baseline else None,
        )
        return Credit(advantages_BT=advantages_BT)


@without_gradient
def reinforce_plus_plus(
    turn_rewards_BK: Tensor,
    token_rewards_BT: Tensor,
    turn_index_BT: Tensor,
    mask_BT: Tensor,
    *,
    group_index_B: Tensor | None = None,
) -> Tensor:
    """Returns the reward-to-go of each token, normalized over the batch's tokens.

        A_t = sum over i >= t of (r_i - beta * KL_i),    then    (A - mean(A)) / std(A) over the batch

    With `group_index_B`, the baseline variant: the episode return minus the group mean replaces the rewards, at every
    token of the row.

        A_t = R - mean(R of the group) - sum over i >= t of beta * KL_i,    normalized as above

    Args:
        turn_rewards_BK: float `(B, K)`, reward of each turn, earned at its last token.
        token_rewards_BT: float `(B, T)`, `-beta * KL` of each generated token.
        turn_index_BT: integer `(B, T)`, as in `bilevel_gae`.
        mask_BT: bool `(B, T)`, true at generated tokens to train on; statistics are computed over these.
        group_index_B: integer `(B,)`, group of each row; None for no baseline.

    Returns:
        Advantages, float32 `(B, T)`, of mean 0 and sample variance 1; 0 where the mask is false and, with a baseline,
        in rows that are alone in their group.

    Raises:
        ValueError: As in `bilevel_gae`, or on a mask that is not bool.

    Source: Hu et al. 2025, "REINFORCE++" (arXiv 2501.03262v9), equations 4 and 5 (section 3.1); with a baseline 6 and
    7 (section 3.2). The paper has one reward, at the end; here each turn's reward is placed at the end of the turn
    and counts for the tokens before it. With a baseline the paper puts the KL into a separate loss (k2, equation 8),
    not into the rewards; here KL penalties that are passed in stay at their tokens, while verl adds them to R before
    it computes the group mean.
    """
    import torch

    from training.algorithms.estimators import (
        check_mask,
        check_shape,
        check_turn_index,
        check_turns,
        has_sibling,
        masked_whiten,
        place_trajectory_reward,
        place_turn_rewards,
        relative_to_group,
    )

    check_turn_index(turn_index_BT, token_rewards_BT=token_rewards_BT)
    check_turns(turn_index_BT, turn_rewards_BK=turn_rewards_BK)
    check_mask(mask_BT, turn_index_BT=turn_index_BT)
    is_generated_BT = turn_index_BT >= 0
    placed_BT, learnt_BT = place_turn_rewards(turn_rewards_BK, turn_index_BT), mask_BT
    if group_index_B is not None:
        check_shape("group_index_B", group_index_B, (len(turn_index_BT),))
        returns_B, magnitudes_B = turn_rewards_BK.double().sum(-1), turn_rewards_BK.abs().sum(-1)
        relative_B = relative_to_group(returns_B.float(), group_index_B, scale="none", magnitudes_N=magnitudes_B)
        placed_BT = place_trajectory_reward(relative_B, is_generated_BT)
        learnt_BT = mask_BT & has_sibling(group_index_B)[:, None]
    earned_BT = placed_BT + torch.where(is_generated_BT, token_rewards_BT.float(), 0.0)
    to_go_BT = earned_BT.flip(1).cumsum(1).flip(1)
    return masked_whiten(to_go_BT, learnt_BT)
