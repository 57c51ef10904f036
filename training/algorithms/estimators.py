"""Advantage estimation that algorithms share: generated tokens as runs, GAE, group baselines, and whitening."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

GroupScale = Literal["std", "none"]


ROUNDING = 1e-6
"""Relative tolerance for float32 rounding: sums of the same rewards in different order differ by less."""


@dataclass(frozen=True, kw_only=True)
class Generated:
    """The generated tokens of a batch, laid end to end in row-major order."""

    grid: torch.Size
    """`(B, T)` of the padded grid."""
    cell_N: Tensor
    """Position of each token in the flattened grid."""
    last_token_M: Tensor
    """Position in the flat list of the last token of each turn."""
    row_M: Tensor
    """Row of each turn."""
    column_M: Tensor
    """Column of each turn in the `(B, K)` tensors."""
    last_turn_R: Tensor
    """Position in the list of turns of the last turn of each row that has one."""

    @classmethod
    def from_turn_index(cls, turn_index_BT: Tensor) -> Generated:
        """Returns the generated tokens and their turns; raises `ValueError` if turns fall along a row."""
        is_generated_BT = turn_index_BT >= 0
        cell_N = is_generated_BT.flatten().nonzero().squeeze(-1)
        turn_N = turn_index_BT.flatten().index_select(0, cell_N).int()
        num_tokens_B = is_generated_BT.count_nonzero(dim=1)
        last_of_row_R = (num_tokens_B.cumsum(0) - 1)[num_tokens_B > 0]

        steps_N = turn_N.diff(append=turn_N[-1:])
        steps_N[last_of_row_R] = 1  # the turn ends here, whichever turn the next row starts with
        if bool((steps_N < 0).any()):
            raise ValueError(
                "turn_index_BT: expected turn numbers that never fall along a row, got a row in which a later token "
                "has an earlier turn. Number turns in the order of their tokens."
            )
        last_token_M = steps_N.nonzero().squeeze(-1)
        row_M = cell_N[last_token_M] // max(turn_index_BT.shape[1], 1)
        return cls(
            grid=turn_index_BT.shape,
            cell_N=cell_N,
            last_token_M=last_token_M,
            row_M=row_M,
            column_M=turn_N[last_token_M].long(),
            last_turn_R=torch.searchsorted(last_token_M, last_of_row_R),
        )

    def pick_tokens(self, x_BT: Tensor) -> Tensor:
        """Returns the grid's values at generated tokens, float32[N]."""
        return x_BT.flatten().index_select(0, self.cell_N).float()

    def pick_turns(self, x_BK: Tensor) -> Tensor:
        """Returns the values of turns that hold a generated token, float32[M]."""
        return x_BK[self.row_M, self.column_M].float()

    def place_turns(self, x_M: Tensor, num_turns: int) -> Tensor:
        """Returns a `(B, K)` grid with these values at turns that hold a generated token and 0 elsewhere."""
        cell_M = self.row_M * num_turns + self.column_M
        return x_M.new_zeros(self.grid[0] * num_turns).index_copy(0, cell_M, x_M).view(self.grid[0], num_turns)

    def pick_bootstrap_values(self, bootstrap_values_B: Tensor | None) -> Tensor:
        """Returns the bootstrap value of each row that has a generated token, float32[R]; 0 when absent."""
        if bootstrap_values_B is None:
            return torch.zeros(len(self.last_turn_R), device=self.cell_N.device)
        check_shape("bootstrap_values_B", bootstrap_values_B, self.grid[:1])
        return bootstrap_values_B[self.row_M[self.last_turn_R]].float()

    def place_tokens(self, x_N: Tensor) -> Tensor:
        """Returns a grid with these values at generated tokens and 0 elsewhere."""
        return x_N.new_zeros(self.grid.numel()).index_copy(0, self.cell_N, x_N).view(self.grid)

    def turn_gae(
        self, rewards_M: Tensor, values_M: Tensor, bootstrap_values_B: Tensor | None, *, gamma: float, gae_lambda: float
    ) -> Tensor:
        """Returns GAE over the turns of each row, float32[M].

        Args:
            rewards_M: Reward of each turn that has a generated token, row by row.
            values_M: V of each such turn, at the token where the algorithm reads it.
            bootstrap_values_B: V after each row's last turn; None for 0.
            gamma: Discount per turn.
            gae_lambda: Decay of the deltas per turn, in addition to `gamma`.
        """
        after_R = self.pick_bootstrap_values(bootstrap_values_B)
        return run_gae(rewards_M, values_M, self.last_turn_R, after_R, gamma=gamma, gae_lambda=gae_lambda)


def run_gae(
    rewards_N: Tensor,
    values_N: Tensor,
    last_of_run: Tensor,
    values_after_run: Tensor,
    *,
    gamma: float,
    gae_lambda: float,
) -> Tensor:
    """Returns GAE inside every run of consecutive elements, float32[N].

    Args:
        rewards_N: Reward of each element, the runs one after another.
        values_N: V of each element.
        last_of_run: Index in N of each run's last element, int64, ascending.
        values_after_run: V after each run's last element, in the same order; 0 where nothing follows.
        gamma: Discount per element.
        gae_lambda: Decay of the deltas per element, in addition to `gamma`.
    """
    next_values_N = values_N.roll(-1)
    next_values_N[last_of_run] = values_after_run
    deltas_N = rewards_N + gamma * next_values_N - values_N
    return _decayed_sums_to_run_end(deltas_N, last_of_run, decay=gamma * gae_lambda)


def _decayed_sums_to_run_end(x_N: Tensor, last_of_run: Tensor, *, decay: float) -> Tensor:
    """Returns the solution of `y_i = x_i + decay * y_{i+1}` inside every run.

    The reach of each partial sum doubles per pass (Hillis and Steele, 1986): log2(longest run) passes of
    vector code instead of one Python step per token, without the divisions by `decay**i` that make
    cumulative-product forms overflow.
    """
    if x_N.numel() == 0:
        return x_N
    lengths = run_lengths(last_of_run)
    position_N = torch.arange(len(x_N), dtype=torch.int32, device=x_N.device)
    num_followers_N = last_of_run.int().repeat_interleave(lengths) - position_N
    longest = int(lengths.max())
    y_N, reach = x_N.clone(), 1
    while reach < longest:
        # `where`, not a product with 0, so that a NaN stays inside its own run.
        followers_N = torch.where(num_followers_N[:-reach] >= reach, y_N[reach:], 0.0)
        y_N[:-reach].add_(followers_N, alpha=decay**reach)
        reach *= 2
    return y_N


def run_lengths(last_of_run: Tensor) -> Tensor:
    """Returns the number of tokens of each run, from the positions of their last tokens."""
    return last_of_run.diff(prepend=last_of_run.new_full((1,), -1))


@torch.no_grad()
def relative_to_group(
    scores_N: Tensor,
    group_index_N: Tensor,
    *,
    scale: GroupScale = "std",
    eps: float = 1e-6,
    magnitudes_N: Tensor | None = None,
) -> Tensor:
    """Returns each score minus its group's mean, divided by the group's standard deviation if `scale` is `std`.

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
    centered_N = values_N - mean_G[group_N]
    if scale == "std":
        sum_of_squares_G = torch.zeros_like(mean_G).index_add(0, group_N, centered_N.square())
        std_G = (sum_of_squares_G / (size_G - 1).clamp(min=1)).sqrt()
        centered_N = centered_N / (std_G + eps)[group_N]
    # Otherwise rounding of the mean would leave noise, which the tiny deviation would amplify.
    return torch.where(is_flat_G[group_N], 0.0, centered_N)


@torch.no_grad()
def zero_variance_groups(returns_B: Tensor, group_index_B: Tensor, magnitudes_B: Tensor | None = None) -> Tensor:
    """Returns which groups have no learning signal because all their returns are equal.

    Args:
        returns_B: float `(B,)`, total reward of each row.
        group_index_B: integer `(B,)`, group of each row.
        magnitudes_B: float `(B,)`, sum of the absolute rewards in each return. Returns count as equal if they differ
            by at most `ROUNDING` times the group's largest magnitude, so that the order of rewards does not matter.
            None for the absolute returns.

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
    # Returns that are all +inf (or -inf) are equal; one infinite return is not, although its tolerance is infinite
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
    centered_N = x_N - x_N.mean()
    variance = centered_N.square().sum() / max(len(x_N) - 1, 1)
    whitened_N = centered_N * (variance + eps).rsqrt()
    return torch.zeros_like(mask_BT, dtype=torch.float32).masked_scatter(mask_BT, whitened_N)


@torch.no_grad()
def subtract_siblings(advantages_BT: Tensor, mask_BT: Tensor, group_index_B: Tensor) -> Tensor:
    """Returns each row minus the average of the other rows of its group.

    The difficulty of a start state affects the whole group; until the critic has learned it, it remains in the
    advantages. The average of the other rows does not depend on the row's own tokens, so the policy gradient keeps
    its expectation.

    Args:
        advantages_BT: float `(B, T)`.
        mask_BT: bool `(B, T)`, true at generated tokens; rows without any are ignored.
        group_index_B: integer `(B,)`, group of each row; rows of a group share their start state.

    Returns:
        float32 `(B, T)`; 0 where the mask is false. A row that is alone in its group is unchanged.

    Raises:
        ValueError: On a wrong shape, a mask that is not bool or an index that is not an integer.

    Source: leave-one-out baseline of Kool et al. 2019 ("Buy 4 REINFORCE Samples, Get a Baseline for Free!"), applied
    to the critic's residual.
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


@torch.no_grad()
def place_turn_rewards(turn_rewards_BK: Tensor, turn_index_BT: Tensor) -> Tensor:
    """Returns a grid with the reward of each turn on the last generated token of the turn.

    Args:
        turn_rewards_BK: float `(B, K)`; entries of turns that a row does not have are ignored.
        turn_index_BT: integer `(B, T)`, as in `bilevel_gae`.

    Returns:
        float32 `(B, T)`, 0 at every other token.

    Raises:
        ValueError: On a wrong shape or dtype, or a turn index out of range or out of order.
    """
    check_turn_index(turn_index_BT)
    check_turns(turn_index_BT, turn_rewards_BK=turn_rewards_BK)
    generated = Generated.from_turn_index(turn_index_BT)
    rewards_N = torch.zeros_like(generated.cell_N, dtype=torch.float32)
    rewards_N[generated.last_token_M] = generated.pick_turns(turn_rewards_BK)
    return generated.place_tokens(rewards_N)


@torch.no_grad()
def place_trajectory_reward(returns_B: Tensor, mask_BT: Tensor) -> Tensor:
    """Returns a grid with the total reward of each row on its last generated token.

    Args:
        returns_B: float `(B,)`, sum of the turn rewards.
        mask_BT: bool `(B, T)`, true at generated tokens.

    Returns:
        float32 `(B, T)`, 0 at every other token and in rows without a generated token.

    Raises:
        ValueError: On a wrong shape or a mask that is not bool.

    Source: VAGEN, Algorithm 1, line 16.
    """
    check_mask(mask_BT)
    check_shape("returns_B", returns_B, (len(mask_BT),))
    return place_turn_rewards(returns_B[:, None], mask_BT.long() - 1)


def check_turn_index(turn_index_BT: Tensor, **per_token_BT: Tensor) -> None:
    """Raises `ValueError` unless this is an integer `(B, T)` grid and the others have its shape."""
    check_rank("turn_index_BT", turn_index_BT, 2)
    check_integer("turn_index_BT", turn_index_BT)
    for name, x_BT in per_token_BT.items():
        check_shape(name, x_BT, turn_index_BT.shape)


def check_turns(turn_index_BT: Tensor, **per_turn_BK: Tensor) -> None:
    """Raises `ValueError` unless the `(B, K)` tensors agree and have a column for every turn of the grid."""
    num_rows, num_turns = len(turn_index_BT), next(iter(per_turn_BK.values())).shape[-1]
    for name, x_BK in per_turn_BK.items():
        check_shape(name, x_BK, (num_rows, num_turns))
    lowest, highest = turn_index_BT.aminmax() if turn_index_BT.numel() else (-1, -1)
    if lowest < -1 or highest >= num_turns:
        raise ValueError(
            f"turn_index_BT: expected numbers from -1 (not generated) to {num_turns - 1} (K - 1), got "
            f"{int(lowest)} to {int(highest)}. Number the turns of a row from 0 and give the (B, K) tensors one "
            "column per turn."
        )


def check_mask(mask_BT: Tensor, **per_token_BT: Tensor) -> None:
    """Raises `ValueError` unless this is a bool `(B, T)` grid and the others have its shape."""
    check_rank("mask_BT", mask_BT, 2)
    if mask_BT.dtype != torch.bool:
        raise ValueError(f"mask_BT: expected dtype bool, got {mask_BT.dtype}. Pass e.g. `mask != 0`.")
    for name, x_BT in per_token_BT.items():
        check_shape(name, x_BT, mask_BT.shape)


def check_rank(name: str, x: Tensor, rank: int) -> None:
    """Raises `ValueError` unless a tensor has this many dimensions."""
    if x.ndim != rank:
        raise ValueError(f"{name}: expected {rank} dimensions, got shape {tuple(x.shape)}. Reshape it first.")


def check_shape(name: str, x: Tensor, shape: tuple[int, ...]) -> None:
    """Raises `ValueError` unless a tensor has this shape."""
    if x.shape != shape:
        raise ValueError(
            f"{name}: expected shape {tuple(shape)}, got {tuple(x.shape)}. Pad all tensors of a batch alike."
        )


def check_integer(name: str, index: Tensor) -> None:
    """Raises `ValueError` unless a tensor holds integers."""
    if index.is_floating_point() or index.dtype == torch.bool:
        raise ValueError(f"{name}: expected an integer dtype, got {index.dtype}. Convert it with `.long()`.")


def check_unit_interval(**coefficients: float) -> None:
    """Raises `ValueError` unless every coefficient lies within 0 and 1."""
    for name, coefficient in coefficients.items():
        if not 0.0 <= coefficient <= 1.0:
            raise ValueError(f"{name}: expected a number in [0, 1], got {coefficient}. Check the config.")
