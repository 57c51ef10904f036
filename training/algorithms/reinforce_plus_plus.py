"""REINFORCE++: what is still to come, normalised over the whole batch, without a critic (Hu et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from training.algorithms.algorithm import Algorithm, Credit, ModelOutputs, without_gradient

if TYPE_CHECKING:
    from torch import Tensor

    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class ReinforcePlusPlus(Algorithm):
    """REINFORCE++: what is still to come, normalised over the whole batch, without a critic (Hu et al. 2025).

    The KL penalty of each token is in its reward (k1), unless `ppo.kl_placement` puts it into the loss.

    Attributes:
        baseline: Whether an episode's return less its siblings' mean stands in place of what is still to come:
            "REINFORCE++ w/ Baseline", for groups of siblings. Its KL is in the loss in the paper, and k2:
            `ppo.kl_placement` loss, `ppo.kl_estimator` k2.
    """

    title: ClassVar[str] = "REINFORCE++"
    sibling_setting: ClassVar[str | None] = "baseline"

    baseline: bool = False

    @property
    def min_group_size(self) -> int:
        """Two where siblings are compared."""
        return 2 if self.baseline else 1

    def keep(self, batch: Batch) -> Batch:
        """Returns, with the baseline, the batch without rows that nothing can be compared with (see `GRPO.keep`)."""
        from training.algorithms.estimators import has_sibling

        if not self.baseline:
            return batch
        return replace(batch, trainable_B=batch.trainable_B & has_sibling(batch.comparable_group_index_B))

    def credit(self, batch: Batch, outputs: ModelOutputs) -> Credit:
        """Returns advantages; with the baseline 0 for a row that nothing can be compared with."""
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
    """Returns what each token is still to earn, normalised over the batch's tokens.

        A_t = sum over i >= t of (r_i - beta * KL_i),    then    (A - mean(A)) / std(A) over the batch

    With `group_index_B`, the baseline variant: the episode's return less the mean of its group stands in place of the
    rewards, at every token of the row.

        A_t = R - mean(R of the group) - sum over i >= t of beta * KL_i,    normalised likewise

    Args:
        turn_rewards_BK: float `(B, K)`, reward of each turn, earned at its last token.
        token_rewards_BT: float `(B, T)`, `-beta * KL` of each generated token.
        turn_index_BT: integer `(B, T)`, as in `bilevel_gae`.
        mask_BT: bool `(B, T)`, true at generated tokens that are learnt from; statistics run over these.
        group_index_B: integer `(B,)`, group of each row; None for no baseline.

    Returns:
        Advantages, float32 `(B, T)`, of mean 0 and sample variance 1; 0 where the mask is false and, with a baseline,
        in rows without a sibling.

    Raises:
        ValueError: As in `bilevel_gae`, or on a mask that is not bool.

    Source: Hu et al. 2025, "REINFORCE++" (arXiv 2501.03262v9), equations 4 and 5 (section 3.1); with a baseline 6 and 7
    (section 3.2). The paper pays one reward, at the end; here each turn's is paid at its own end and counts for the
    tokens before it. With a baseline the paper has the KL in a loss of its own (k2, equation 8) and so none here; what
    is given stays with its tokens, where verl puts it into R before the mean of the group is taken.
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
