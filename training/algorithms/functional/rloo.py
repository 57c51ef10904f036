"""RLOO: each row against the mean of its siblings, itself left out."""

from __future__ import annotations

import torch
from torch import Tensor

from training.algorithms.functional.checks import check_shape, check_turn_index
from training.algorithms.functional.grpo import zero_variance_groups


@torch.no_grad()
def rloo(
    returns_B: Tensor, group_index_B: Tensor, turn_index_BT: Tensor, *, magnitudes_B: Tensor | None = None
) -> Tensor:
    """Returns each row's return less the mean of the others of its group, at every generated token of the row.

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
    check_turn_index(turn_index_BT)
    check_shape("returns_B", returns_B, (len(turn_index_BT),))
    is_flat_G = zero_variance_groups(returns_B, group_index_B, magnitudes_B)
    group_B = torch.unique(group_index_B, return_inverse=True)[1]
    size_G, scores_B = group_B.bincount(), returns_B.float()
    sum_G = scores_B.new_zeros(len(size_G)).index_add(0, group_B, scores_B)
    others_B = (sum_G[group_B] - scores_B) / (size_G[group_B] - 1).clamp(min=1)
    # Rounding would otherwise leave noise in a flat group, and a row on its own would be compared with 0.
    advantages_B = (scores_B - others_B).masked_fill(is_flat_G[group_B], 0.0)
    return torch.where(turn_index_BT >= 0, advantages_B[:, None], 0.0)
