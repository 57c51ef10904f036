"""What is taken out of advantages that a critic gave: their scale, and what siblings share."""

from __future__ import annotations

import torch
from torch import Tensor

from training.algorithms.functional.checks import check_integer, check_mask, check_shape


@torch.no_grad()
def masked_whiten(x_BT: Tensor, mask_BT: Tensor, *, eps: float = 1e-8) -> Tensor:
    """Returns the masked-in entries scaled to zero mean and unit variance.

    Args:
        x_BT: float `(B, T)`.
        mask_BT: bool `(B, T)`; statistics (sample variance, n - 1) are taken over true entries only.
        eps: Added to the variance, positive.

    Returns:
        float32 `(B, T)`; 0 where the mask is false. A single entry becomes 0.

    Raises:
        ValueError: On a wrong shape or a mask that is not bool.
    """
    check_mask(mask_BT, x_BT=x_BT)
    x_N = x_BT[mask_BT].float()
    centred_N = x_N - x_N.mean()
    variance = centred_N.square().sum() / max(len(x_N) - 1, 1)
    whitened_N = centred_N * (variance + eps).rsqrt()
    return torch.zeros_like(mask_BT, dtype=torch.float32).masked_scatter(mask_BT, whitened_N)


@torch.no_grad()
def subtract_siblings(advantages_BT: Tensor, mask_BT: Tensor, group_index_B: Tensor) -> Tensor:
    """Returns each row less what the other rows of its group have on average.

    What makes a start state easy or hard moves all siblings alike; a critic that has not learnt it yet leaves it in
    their advantages. The others' average does not depend on the row's own tokens, so the policy gradient keeps its
    expectation.

    Args:
        advantages_BT: float `(B, T)`.
        mask_BT: bool `(B, T)`, true at generated tokens; rows without any neither give nor take.
        group_index_B: integer `(B,)`, group of each row; rows of a group share their start state.

    Returns:
        float32 `(B, T)`; 0 where the mask is false. A row without siblings stays as it is.

    Raises:
        ValueError: On a wrong shape, a mask that is not bool or an index that is not an integer.

    Source: leave-one-out baseline of Kool et al. 2019 ("Buy 4 REINFORCE Samples, Get a Baseline for Free!"), applied
        to what the critic left unexplained.
    """
    check_mask(mask_BT, advantages_BT=advantages_BT)
    check_shape("group_index_B", group_index_B, (len(mask_BT),))
    check_integer("group_index_B", group_index_B)
    kept_BT = torch.where(mask_BT, advantages_BT.float(), 0.0)
    has_tokens_B = mask_BT.any(-1)
    mean_B = kept_BT.sum(-1) / mask_BT.sum(-1).clamp(min=1)
    group_B = torch.unique(group_index_B, return_inverse=True)[1]
    num_groups = int(group_B.max()) + 1 if len(group_B) else 0
    sum_G = mean_B.new_zeros(num_groups).index_add(0, group_B, mean_B)
    size_G = mean_B.new_zeros(num_groups).index_add(0, group_B, has_tokens_B.float())
    others_B = (sum_G[group_B] - mean_B) / (size_G[group_B] - 1).clamp(min=1)
    return torch.where(mask_BT, kept_BT - others_B[:, None], 0.0)
