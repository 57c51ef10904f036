"""Token-level GAE, and where it is paid: at the end of each turn or of the row."""

from __future__ import annotations

import torch
from torch import Tensor

from training.algorithms.functional.checks import (
    check_mask,
    check_shape,
    check_turn_index,
    check_turns,
    check_unit_interval,
)
from training.algorithms.functional.runs import Generated, run_gae


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
    """Returns advantages token by token, stepping over the tokens that the policy did not generate.

    The next value and next advantage of a token come from the next generated token of its row. With
    `algorithm.mask="all"` the mask covers observations too (`batch.with_observations_as_actions`): PPO
    without observation masking.

    Args:
        rewards_BT: float `(B, T)`; see `place_turn_rewards` and `place_trajectory_reward`.
        values_BT: float `(B, T)`, value of the prefix before token `t`.
        mask_BT: bool `(B, T)`, true at generated tokens.
        gamma: Discount, in `[0, 1]`.
        gae_lambda: GAE decay, in `[0, 1]`.
        bootstrap_values_B: float `(B,)`, value of the last state of truncated rows, 0 for terminated ones.
            All 0 when absent.

    Returns:
        Advantages and critic targets (advantage + value), float32 `(B, T)`; 0 where the mask is false.

    Raises:
        ValueError: On a wrong shape or dtype, or a coefficient outside `[0, 1]`.

    Source: VAGEN, Algorithm 1, lines 17-23. Deviation: truncated rows may bootstrap.
    """
    check_unit_interval(gamma=gamma, gae_lambda=gae_lambda)
    check_mask(mask_BT, rewards_BT=rewards_BT, values_BT=values_BT)
    generated = Generated.from_turn_index(mask_BT.long() - 1)
    values_N = generated.pick_tokens(values_BT)
    advantages_N = run_gae(
        generated.pick_tokens(rewards_BT),
        values_N,
        generated.last_token_M,  # the whole row counts as one turn
        generated.pick_bootstrap_values(bootstrap_values_B),
        gamma=gamma,
        gae_lambda=gae_lambda,
    )
    return generated.place_tokens(advantages_N), generated.place_tokens(advantages_N + values_N)


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
