"""Advantage estimators for multi-turn token sequences.

Every estimator sees a batch the same way. Only generated tokens count, so they are gathered from the
padded `(B, T)` grid into one flat list, row after row, and cut into *runs*: one run per row, or one per
turn. Inside a run there is a single backward recurrence, generalised advantage estimation; the
estimators differ only in where runs end, what is paid there and which value follows the last element.
Whatever the grid holds elsewhere (prompts, observations, padding; even NaN) is never read.

Shape suffixes: `B` rows, `T` tokens, `K` turns (padded), `N` generated tokens of the whole batch,
`M` turns that hold at least one generated token, `R` rows that do, `G` groups. Results are float32 and
carry no gradient.

None of the estimators whitens; call `masked_whiten` on the result where the recipe wants it.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from training.algorithms.checks import (
    check_integer,
    check_mask,
    check_rank,
    check_shape,
    check_turn_index,
    check_turns,
    check_unit_interval,
)
from training.algorithms.runs import Generated, run_gae, run_lengths

BilevelVariant = Literal["paper", "released"]
GroupScale = Literal["std", "none"]


@torch.no_grad()
def bilevel_gae(
    turn_rewards_BK: Tensor,
    token_rewards_BT: Tensor,
    values_BT: Tensor,
    turn_end_values_BK: Tensor,
    turn_index_BT: Tensor,
    *,
    gamma_turn: float,
    lambda_turn: float,
    gamma_token: float,
    lambda_token: float,
    bootstrap_values_B: Tensor | None = None,
    variant: BilevelVariant = "paper",
) -> tuple[Tensor, Tensor]:
    """Estimate advantages over turns first, then over the tokens inside each turn.

    With `e` the last token of turn `k` and `A_k` the advantage of the turn, the variants are:

    - `paper`: `A_k` is GAE over `turn_end_values_BK`. It is added to the ordinary TD error of `e`, whose
      next value is the value after the turn.
    - `released`: `A_k` is GAE over `V(e)`, with the token reward of `e` counted in the reward of the turn.
      The reward of `e` is then replaced by `A_k + V(e)` and its next value is 0, so that its advantage is
      exactly `A_k`. With all gammas and lambdas 1 and no token rewards this equals `token_gae`.

    Args:
        turn_rewards_BK: float `(B, K)`, reward of each turn without the token rewards. Entries of turns
            that a row does not have are ignored.
        token_rewards_BT: float `(B, T)`, reward of each generated token, in practice the KL penalty.
        values_BT: float `(B, T)`, value of the prefix before token `t`.
        turn_end_values_BK: float `(B, K)`, value of the prefix that includes the last token of the turn, before
            its outcome is seen; read by `paper` only, which needs the critic to learn it (`turn_end_returns`).
        turn_index_BT: integer `(B, T)`, turn of each generated token in `[0, K)` and -1 elsewhere. It
            never falls along a row. A turn without a token is skipped together with its reward.
        gamma_turn: discount between turns, in `[0, 1]`.
        lambda_turn: GAE decay between turns, in `[0, 1]`.
        gamma_token: discount between the tokens of a turn, in `[0, 1]`.
        lambda_token: GAE decay between the tokens of a turn, in `[0, 1]`.
        bootstrap_values_B: float `(B,)`, value of the state after the last turn, its outcome seen: the
            critic's estimate for truncated rows and 0 for terminated ones. All 0 when absent.
        variant: `paper` or `released`.

    Returns:
        Advantages and critic targets (advantage + value), float32 `(B, T)`; 0 where nothing is generated.

    Raises:
        ValueError: on a wrong shape or dtype, a coefficient outside `[0, 1]`, a turn index out of range or
            out of order, or an unknown variant.

    Source: VAGEN, Algorithm 2 (`paper`); the authors' public code (`released`). Deviations: the paper
    takes the value after the last turn as 0, here truncated rows may bootstrap; the critic targets, which
    Algorithm 2 leaves open, follow Algorithm 1, those at turn ends see `turn_end_returns`; the public code
    whitens, this function does not.
    """
    if variant not in get_args(BilevelVariant):
        raise ValueError(f"variant: expected 'paper' or 'released', got {variant!r}.")
    check_unit_interval(
        gamma_turn=gamma_turn, lambda_turn=lambda_turn, gamma_token=gamma_token, lambda_token=lambda_token
    )
    check_turn_index(turn_index_BT, token_rewards_BT=token_rewards_BT, values_BT=values_BT)
    check_turns(turn_index_BT, turn_rewards_BK=turn_rewards_BK, turn_end_values_BK=turn_end_values_BK)
    generated = Generated.from_turn_index(turn_index_BT)
    bootstrap_values_B = _bootstrap_or_zeros(bootstrap_values_B, turn_index_BT)

    values_N = generated.pick_tokens(values_BT)
    rewards_N = generated.pick_tokens(token_rewards_BT)
    last_token_M = generated.last_token_M
    turn_rewards_M = generated.pick_turns(turn_rewards_BK)
    if variant == "paper":
        turn_values_M = generated.pick_turns(turn_end_values_BK)
    else:
        turn_values_M = values_N[last_token_M]
        turn_rewards_M = turn_rewards_M + rewards_N[last_token_M]

    turn_advantages_M = run_gae(
        turn_rewards_M,
        turn_values_M,
        generated.last_turn_R,
        generated.pick_rows(bootstrap_values_B),
        gamma=gamma_turn,
        gae_lambda=lambda_turn,
    )
    if variant == "paper":
        rewards_N[last_token_M] += turn_advantages_M
        values_after_turn_M = turn_values_M
    else:
        rewards_N[last_token_M] = turn_advantages_M + turn_values_M
        values_after_turn_M = torch.zeros_like(turn_values_M)
    advantages_N = run_gae(
        rewards_N, values_N, last_token_M, values_after_turn_M, gamma=gamma_token, gae_lambda=lambda_token
    )
    return generated.place_tokens(advantages_N), generated.place_tokens(advantages_N + values_N)


@torch.no_grad()
def token_gae(
    rewards_BT: Tensor,
    values_BT: Tensor,
    mask_BT: Tensor,
    *,
    gamma: float,
    gae_lambda: float,
    bootstrap_values_B: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Estimate advantages token by token, stepping over the tokens that the policy did not generate.

    The next value and next advantage of a token come from the next generated token of its row. With
    `advantage.mask="all"` the mask covers observations too (`batch.with_observations_as_actions`): PPO
    without observation masking.

    Args:
        rewards_BT: float `(B, T)`; see `place_turn_rewards` and `place_trajectory_reward`.
        values_BT: float `(B, T)`, value of the prefix before token `t`.
        mask_BT: bool `(B, T)`, true at generated tokens.
        gamma: discount, in `[0, 1]`.
        gae_lambda: GAE decay, in `[0, 1]`.
        bootstrap_values_B: float `(B,)`, value of the last state of truncated rows, 0 for terminated ones.
            All 0 when absent.

    Returns:
        Advantages and critic targets (advantage + value), float32 `(B, T)`; 0 where the mask is false.

    Raises:
        ValueError: on a wrong shape or dtype, or a coefficient outside `[0, 1]`.

    Source: VAGEN, Algorithm 1, lines 17-23. Deviation: truncated rows may bootstrap.
    """
    check_unit_interval(gamma=gamma, gae_lambda=gae_lambda)
    check_mask(mask_BT, rewards_BT=rewards_BT, values_BT=values_BT)
    generated = Generated.from_turn_index(mask_BT.long() - 1)
    bootstrap_values_B = _bootstrap_or_zeros(bootstrap_values_B, mask_BT)

    values_N = generated.pick_tokens(values_BT)
    advantages_N = run_gae(
        generated.pick_tokens(rewards_BT),
        values_N,
        generated.last_token_M,  # the whole row counts as one turn
        generated.pick_rows(bootstrap_values_B),
        gamma=gamma,
        gae_lambda=gae_lambda,
    )
    return generated.place_tokens(advantages_N), generated.place_tokens(advantages_N + values_N)


@torch.no_grad()
def turn_gae(
    turn_rewards_BK: Tensor,
    token_rewards_BT: Tensor,
    values_BT: Tensor,
    turn_index_BT: Tensor,
    *,
    gamma: float,
    gae_lambda: float,
    bootstrap_values_B: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Estimate one advantage per turn and give it to every token of the turn.

    A turn is one action: its state value is the value at its first token, its reward the turn reward plus
    the token rewards of the whole turn.

    Args:
        turn_rewards_BK: float `(B, K)`, reward of each turn without the token rewards.
        token_rewards_BT: float `(B, T)`, reward of each generated token.
        values_BT: float `(B, T)`, value of the prefix before token `t`.
        turn_index_BT: integer `(B, T)`, as in `bilevel_gae`.
        gamma: discount between turns, in `[0, 1]`.
        gae_lambda: GAE decay between turns, in `[0, 1]`.
        bootstrap_values_B: float `(B,)`, as in `bilevel_gae`.

    Returns:
        Advantages and critic targets (advantage of the turn + value at its first token), both constant
        over a turn, float32 `(B, T)`; 0 where nothing is generated.

    Raises:
        ValueError: as in `bilevel_gae`.

    Source: the turn-level PPO baseline of VAGEN, section 3, after Zhai et al. (2024).
    """
    check_unit_interval(gamma=gamma, gae_lambda=gae_lambda)
    check_turn_index(turn_index_BT, token_rewards_BT=token_rewards_BT, values_BT=values_BT)
    check_turns(turn_index_BT, turn_rewards_BK=turn_rewards_BK)
    generated = Generated.from_turn_index(turn_index_BT)
    bootstrap_values_B = _bootstrap_or_zeros(bootstrap_values_B, turn_index_BT)

    num_tokens_M = run_lengths(generated.last_token_M)
    turn_of_token_N = torch.repeat_interleave(num_tokens_M)
    turn_rewards_M = generated.pick_turns(turn_rewards_BK).index_add(
        0, turn_of_token_N, generated.pick_tokens(token_rewards_BT)
    )
    turn_values_M = generated.pick_tokens(values_BT)[generated.last_token_M - num_tokens_M + 1]
    advantages_M = run_gae(
        turn_rewards_M,
        turn_values_M,
        generated.last_turn_R,
        generated.pick_rows(bootstrap_values_B),
        gamma=gamma,
        gae_lambda=gae_lambda,
    )
    returns_M = advantages_M + turn_values_M
    return (
        generated.place_tokens(advantages_M[turn_of_token_N]),
        generated.place_tokens(returns_M[turn_of_token_N]),
    )


@torch.no_grad()
def grpo(
    returns_B: Tensor,
    group_index_B: Tensor,
    turn_index_BT: Tensor,
    *,
    scale: GroupScale = "std",
    eps: float = 1e-6,
) -> Tensor:
    """Score each row against its siblings and give the score to every generated token of the row.

    Args:
        returns_B: float `(B,)`, total reward of each row.
        group_index_B: integer `(B,)`, group of each row; rows of a group share their start state.
        turn_index_BT: integer `(B, T)`, negative where no token is generated.
        scale: `std` divides by the group's sample standard deviation (n - 1) plus `eps`; `none` only
            subtracts the mean, as in Dr.GRPO.
        eps: added to the standard deviation, positive.

    Returns:
        Advantages, float32 `(B, T)`; exactly 0 for a group whose returns are all equal.

    Raises:
        ValueError: on a wrong shape or dtype, or an unknown scale.

    Source: DeepSeekMath (GRPO), section 4.1; Understanding R1-Zero-Like Training (Dr.GRPO) for `none`.
    """
    if scale not in get_args(GroupScale):
        raise ValueError(f"scale: expected 'std' or 'none', got {scale!r}.")
    check_turn_index(turn_index_BT)
    check_shape("returns_B", returns_B, (len(turn_index_BT),))
    is_flat_G = zero_variance_groups(returns_B, group_index_B)
    group_B = torch.unique(group_index_B, return_inverse=True)[1]
    scores_B, size_G = returns_B.float(), group_B.bincount()
    mean_G = scores_B.new_zeros(len(size_G)).index_add(0, group_B, scores_B) / size_G
    centred_B = scores_B - mean_G[group_B]
    if scale == "std":
        sum_of_squares_G = torch.zeros_like(mean_G).index_add(0, group_B, centred_B.square())
        std_G = (sum_of_squares_G / (size_G - 1).clamp(min=1)).sqrt()
        centred_B = centred_B / (std_G + eps)[group_B]
    # Rounding of the mean would otherwise leave noise that the tiny deviation blows up.
    centred_B = centred_B.masked_fill(is_flat_G[group_B], 0.0)
    return torch.where(turn_index_BT >= 0, centred_B[:, None], 0.0)


@torch.no_grad()
def zero_variance_groups(returns_B: Tensor, group_index_B: Tensor) -> Tensor:
    """Tell which groups cannot teach anything because all their returns are equal.

    Args:
        returns_B: float `(B,)`, total reward of each row.
        group_index_B: integer `(B,)`, group of each row.

    Returns:
        bool `(G,)`, one flag per distinct group in ascending order of its index; its mean is the fraction
        to log. A group of one row is always flagged.

    Raises:
        ValueError: on a wrong shape, or an index that is not an integer.
    """
    check_rank("returns_B", returns_B, 1)
    check_shape("group_index_B", group_index_B, returns_B.shape)
    check_integer("group_index_B", group_index_B)
    ids_G, group_B = torch.unique(group_index_B, return_inverse=True)
    lowest_G = returns_B.new_empty(len(ids_G)).scatter_reduce(0, group_B, returns_B, "amin", include_self=False)
    highest_G = torch.empty_like(lowest_G).scatter_reduce(0, group_B, returns_B, "amax", include_self=False)
    return lowest_G == highest_G


@torch.no_grad()
def masked_whiten(x_BT: Tensor, mask_BT: Tensor, *, shift_mean: bool = True, eps: float = 1e-8) -> Tensor:
    """Scale the masked-in entries to unit variance, and to zero mean if asked.

    Args:
        x_BT: float `(B, T)`.
        mask_BT: bool `(B, T)`; statistics (sample variance, n - 1) are taken over true entries only.
        shift_mean: false keeps the mean where it was.
        eps: added to the variance, positive.

    Returns:
        float32 `(B, T)`; 0 where the mask is false. A single entry becomes 0, or stays if not shifted.

    Raises:
        ValueError: on a wrong shape or a mask that is not bool.
    """
    check_mask(mask_BT, x_BT=x_BT)
    x_N = x_BT[mask_BT].float()
    centred_N = x_N - x_N.mean()
    variance = centred_N.square().sum() / max(len(x_N) - 1, 1)
    whitened_N = centred_N * (variance + eps).rsqrt()
    if not shift_mean:
        whitened_N = whitened_N + x_N.mean()
    return torch.zeros_like(mask_BT, dtype=torch.float32).masked_scatter(mask_BT, whitened_N)


@torch.no_grad()
def subtract_siblings(advantages_BT: Tensor, mask_BT: Tensor, group_index_B: Tensor) -> Tensor:
    """Subtract from each row what the other rows of its group have on average.

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
        ValueError: on a wrong shape, a mask that is not bool or an index that is not an integer.

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


@torch.no_grad()
def place_turn_rewards(turn_rewards_BK: Tensor, turn_index_BT: Tensor) -> Tensor:
    """Put the reward of each turn on the last generated token of the turn.

    Args:
        turn_rewards_BK: float `(B, K)`; entries of turns that a row does not have are ignored.
        turn_index_BT: integer `(B, T)`, as in `bilevel_gae`.

    Returns:
        float32 `(B, T)`, 0 at every other token.

    Raises:
        ValueError: on a wrong shape or dtype, or a turn index out of range or out of order.
    """
    check_turn_index(turn_index_BT)
    check_turns(turn_index_BT, turn_rewards_BK=turn_rewards_BK)
    generated = Generated.from_turn_index(turn_index_BT)
    rewards_N = torch.zeros_like(generated.cell_N, dtype=torch.float32)
    rewards_N[generated.last_token_M] = generated.pick_turns(turn_rewards_BK)
    return generated.place_tokens(rewards_N)


@torch.no_grad()
def place_trajectory_reward(returns_B: Tensor, mask_BT: Tensor) -> Tensor:
    """Put the total reward of each row on its last generated token.

    Args:
        returns_B: float `(B,)`, sum of the turn rewards.
        mask_BT: bool `(B, T)`, true at generated tokens.

    Returns:
        float32 `(B, T)`, 0 at every other token and in rows without a generated token.

    Raises:
        ValueError: on a wrong shape or a mask that is not bool.

    Source: VAGEN, Algorithm 1, line 16.
    """
    check_mask(mask_BT)
    check_shape("returns_B", returns_B, (len(mask_BT),))
    return place_turn_rewards(returns_B[:, None], mask_BT.long() - 1)


def _bootstrap_or_zeros(bootstrap_values_B: Tensor | None, grid_BT: Tensor) -> Tensor:
    if bootstrap_values_B is None:
        return torch.zeros(len(grid_BT), device=grid_BT.device)
    check_shape("bootstrap_values_B", bootstrap_values_B, (len(grid_BT),))
    return bootstrap_values_B
