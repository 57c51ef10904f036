"""RLOO: REINFORCE with a leave-one-out baseline, without a critic (Ahmadian et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from training.algorithms.algorithm import Algorithm, Credit, ModelOutputs, without_gradient

if TYPE_CHECKING:
    from torch import Tensor

    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class RLOO(Algorithm):
    """RLOO: REINFORCE with a leave-one-out baseline, without a critic (Ahmadian et al. 2024).

    The return includes the KL penalty, as in the paper, unless `ppo.kl_placement` puts it into the loss. So groups
    with equal world rewards are trained on, too: their penalties differ.

    Deviation: PPO's clipped loss, whose gradient equals REINFORCE's while the ratio is 1. TRL and verl do the same.
    """

    title: ClassVar[str] = "RLOO"
    min_group_size: ClassVar[int] = 2

    def keep(self, batch: Batch) -> Batch:
        """Returns the batch with rows that are alone in their group excluded from every loss (see `GRPO.keep`)."""
        from training.algorithms.estimators import has_sibling

        return replace(batch, trainable_B=batch.trainable_B & has_sibling(batch.comparable_group_index_B))

    def credit(self, batch: Batch, outputs: ModelOutputs) -> Credit:
        """Returns advantages, the same for all tokens of a row; 0 for a row that is alone in its group."""
        advantages_BT = rloo(
            outputs.returns_B(batch),
            batch.comparable_group_index_B,
            batch.usable_turn_index_BT,
            magnitudes_B=outputs.magnitudes_B(batch),
        )
        return Credit(advantages_BT=advantages_BT * batch.response_mask_BT)


@without_gradient
def rloo(
    returns_B: Tensor, group_index_B: Tensor, turn_index_BT: Tensor, *, magnitudes_B: Tensor | None = None
) -> Tensor:
    """Returns each row's return minus the mean of the other rows of its group, at every generated token of the row.

        A_i = R_i - 1 / (k - 1) * sum over j != i of R_j

    Args:
        returns_B: float `(B,)`, total reward of each row, KL penalties included.
        group_index_B: integer `(B,)`, group of each row; rows of a group share their start state.
        turn_index_BT: integer `(B, T)`, negative where no token is generated.
        magnitudes_B: float `(B,)`, see `zero_variance_groups`.

    Returns:
        Advantages, float32 `(B, T)`; exactly 0 for a group whose returns are all equal, and for a row without siblings.

    Raises:
        ValueError: On a wrong shape or dtype.

    Source: Ahmadian et al. 2024, "Back to Basics: Revisiting REINFORCE Style Optimization for Learning from Human
    Feedback in LLMs" (arXiv 2402.14740), the RLOO estimator of section 2.2, after Kool et al. 2019. Same as verl's.
    """
    import torch

    from training.algorithms.estimators import check_shape, check_turn_index, zero_variance_groups

    check_turn_index(turn_index_BT)
    check_shape("returns_B", returns_B, (len(turn_index_BT),))
    is_flat_G = zero_variance_groups(returns_B, group_index_B, magnitudes_B)
    group_B = torch.unique(group_index_B, return_inverse=True)[1]
    size_G, scores_B = group_B.bincount(), returns_B.float()
    sum_G = scores_B.new_zeros(len(size_G)).index_add(0, group_B, scores_B)
    others_B = (sum_G[group_B] - scores_B) / (size_G[group_B] - 1).clamp(min=1)
    # Otherwise rounding would leave noise in a flat group, and a row alone in its group would be compared with 0.
    advantages_B = (scores_B - others_B).masked_fill(is_flat_G[group_B], 0.0)
    return torch.where(turn_index_BT >= 0, advantages_B[:, None], 0.0)
