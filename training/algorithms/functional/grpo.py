"""GRPO: each row against its siblings."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from training.algorithms.functional.checks import check_integer, check_rank, check_shape, check_turn_index

GroupScale = Literal["std", "none"]

ROUNDING = 1e-6
"""How much of what was paid may be lost to float32: sums of the same rewards in another order differ by less."""


@torch.no_grad()
def grpo(
    returns_B: Tensor,
    group_index_B: Tensor,
    turn_index_BT: Tensor,
    *,
    scale: GroupScale = "std",
    eps: float = 1e-6,
    magnitudes_B: Tensor | None = None,
) -> Tensor:
    """Returns each row's score against its siblings, at every generated token of the row.

    Args:
        returns_B: float `(B,)`, total reward of each row.
        group_index_B: integer `(B,)`, group of each row; rows of a group share their start state.
        turn_index_BT: integer `(B, T)`, negative where no token is generated.
        scale: `std` divides by the group's sample standard deviation (n - 1) plus `eps`; `none` only
            subtracts the mean, as in Dr.GRPO.
        eps: Added to the standard deviation, positive.
        magnitudes_B: float `(B,)`, see `zero_variance_groups`.

    Returns:
        Advantages, float32 `(B, T)`; exactly 0 for a group whose returns are all equal.

    Raises:
        ValueError: On a wrong shape or dtype, or an unknown scale.

    Source: DeepSeekMath (GRPO), section 4.1; Understanding R1-Zero-Like Training (Dr.GRPO) for `none`.
    """
    check_turn_index(turn_index_BT)
    check_shape("returns_B", returns_B, (len(turn_index_BT),))
    scores_B = relative_to_group(returns_B, group_index_B, scale=scale, eps=eps, magnitudes_N=magnitudes_B)
    return torch.where(turn_index_BT >= 0, scores_B[:, None], 0.0)


@torch.no_grad()
def relative_to_group(
    scores_N: Tensor,
    group_index_N: Tensor,
    *,
    scale: GroupScale = "std",
    eps: float = 1e-6,
    magnitudes_N: Tensor | None = None,
) -> Tensor:
    """Returns each score less the mean of its group, divided by the group's deviation where `scale` says so.

    Args:
        scores_N: float `(N,)`.
        group_index_N: integer `(N,)`, group of each score.
        scale: As in `grpo`.
        eps: Added to the standard deviation, positive.
        magnitudes_N: float `(N,)`, see `zero_variance_groups`.

    Returns:
        float32 `(N,)`; exactly 0 in a group whose scores are all equal, and so in a group of one.

    Raises:
        ValueError: On a wrong shape or dtype, or an unknown scale.

    Source: DeepSeekMath (GRPO), section 4.1.
    """
    if scale not in get_args(GroupScale):
        raise ValueError(f"scale: expected 'std' or 'none', got {scale!r}.")
    is_flat_G = zero_variance_groups(scores_N, group_index_N, magnitudes_N)
    group_N = torch.unique(group_index_N, return_inverse=True)[1]
    values_N, size_G = scores_N.float(), group_N.bincount()
    mean_G = values_N.new_zeros(len(size_G)).index_add(0, group_N, values_N) / size_G
    centred_N = values_N - mean_G[group_N]
    if scale == "std":
        sum_of_squares_G = torch.zeros_like(mean_G).index_add(0, group_N, centred_N.square())
        std_G = (sum_of_squares_G / (size_G - 1).clamp(min=1)).sqrt()
        centred_N = centred_N / (std_G + eps)[group_N]
    # Rounding of the mean would otherwise leave noise that the tiny deviation blows up.
    return torch.where(is_flat_G[group_N], 0.0, centred_N)


@torch.no_grad()
def zero_variance_groups(returns_B: Tensor, group_index_B: Tensor, magnitudes_B: Tensor | None = None) -> Tensor:
    """Returns which groups cannot teach anything because all their returns are equal.

    Args:
        returns_B: float `(B,)`, total reward of each row.
        group_index_B: integer `(B,)`, group of each row.
        magnitudes_B: float `(B,)`, what each return is the sum of without its signs. Returns of a group are equal that
            are within `ROUNDING` of its largest, so that what siblings earned in another order is the same. None for
            the returns' own.

    Returns:
        bool `(G,)`, one flag per distinct group in ascending order of its index; its mean is the fraction
        to log. A group of one row is always flagged, unless its return is NaN.

    Raises:
        ValueError: On a wrong shape, or an index that is not an integer.
    """
    check_rank("returns_B", returns_B, 1)
    check_shape("group_index_B", group_index_B, returns_B.shape)
    check_integer("group_index_B", group_index_B)
    ids_G, group_B = torch.unique(group_index_B, return_inverse=True)
    magnitudes_B = returns_B.abs() if magnitudes_B is None else magnitudes_B
    check_shape("magnitudes_B", magnitudes_B, returns_B.shape)

    def extreme(x_B: Tensor, which: Literal["amin", "amax"]) -> Tensor:
        return x_B.new_empty(len(ids_G)).scatter_reduce(0, group_B, x_B, which, include_self=False)

    lowest_G, highest_G = extreme(returns_B, "amin"), extreme(returns_B, "amax")
    spread_G, rounding_G = highest_G - lowest_G, ROUNDING * extreme(magnitudes_B, "amax")
    # All infinite alike is equal; one infinite return among others is not, however large that makes the rounding
    return (lowest_G == highest_G) | (spread_G.isfinite() & (spread_G <= rounding_G))


@torch.no_grad()
def has_sibling(group_index_B: Tensor) -> Tensor:
    """Returns which rows are not alone in their group, bool `(B,)`.

    Args:
        group_index_B: integer `(B,)`, group of each row.
    """
    _, group_B, size_G = torch.unique(group_index_B, return_inverse=True, return_counts=True)
    is_shared_B: Tensor = size_G[group_B] > 1
    return is_shared_B
