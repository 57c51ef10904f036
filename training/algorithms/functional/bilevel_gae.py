"""Bi-level GAE: advantages over turns first, then over the tokens inside each turn."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from training.algorithms.functional.checks import check_turn_index, check_turns, check_unit_interval
from training.algorithms.functional.runs import Generated, run_gae

BilevelVariant = Literal["paper", "released"]


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
    """Returns advantages estimated over turns first, then over the tokens inside each turn.

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
        gamma_turn: Discount between turns, in `[0, 1]`.
        lambda_turn: GAE decay between turns, in `[0, 1]`.
        gamma_token: Discount between the tokens of a turn, in `[0, 1]`.
        lambda_token: GAE decay between the tokens of a turn, in `[0, 1]`.
        bootstrap_values_B: float `(B,)`, value of the state after the last turn, its outcome seen: the
            critic's estimate for truncated rows and 0 for terminated ones. All 0 when absent.
        variant: `paper` or `released`.

    Returns:
        Advantages and critic targets (advantage + value), float32 `(B, T)`; 0 where nothing is generated.

    Raises:
        ValueError: On a wrong shape or dtype, a coefficient outside `[0, 1]`, a turn index out of range or
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

    values_N = generated.pick_tokens(values_BT)
    rewards_N = generated.pick_tokens(token_rewards_BT)
    last_token_M = generated.last_token_M
    turn_rewards_M = generated.pick_turns(turn_rewards_BK)
    if variant == "paper":
        turn_values_M = generated.pick_turns(turn_end_values_BK)
    else:
        turn_values_M = values_N[last_token_M]
        turn_rewards_M = turn_rewards_M + rewards_N[last_token_M]

    turn_advantages_M = generated.turn_gae(
        turn_rewards_M, turn_values_M, bootstrap_values_B, gamma=gamma_turn, gae_lambda=lambda_turn
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
