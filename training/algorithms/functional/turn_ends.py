"""What the critic learns at the ends of turns, where the turn level of bi-level GAE reads it."""

from __future__ import annotations

import torch
from torch import Tensor

from training.algorithms.functional.checks import check_turn_index, check_turns, check_unit_interval
from training.algorithms.functional.runs import Generated


@torch.no_grad()
def turn_end_returns(
    turn_rewards_BK: Tensor,
    turn_end_values_BK: Tensor,
    turn_index_BT: Tensor,
    *,
    gamma: float,
    gae_lambda: float,
    bootstrap_values_B: Tensor | None = None,
) -> Tensor:
    """Returns the critic's targets for the values of the prefixes that end with a turn.

    Such a prefix has seen what was said in turn `k`, not what came of it: its value holds the reward of the turn
    itself. The target is the lambda-return of the turn level, `A_k + V_k` with `A_k` the advantage of the turn in
    `bilevel_gae` (`paper`).

    Args:
        turn_rewards_BK: float `(B, K)`, reward of each turn without the token rewards.
        turn_end_values_BK: float `(B, K)`, value of the prefix that includes the last token of the turn.
        turn_index_BT: integer `(B, T)`, turn of each generated token in `[0, K)` and -1 elsewhere. It never falls
            along a row. A turn without a token is skipped together with its reward.
        gamma: Discount between turns, in `[0, 1]`.
        gae_lambda: GAE decay between turns, in `[0, 1]`.
        bootstrap_values_B: float `(B,)`, value of the state after the last turn: the critic's estimate for truncated
            rows and 0 for terminated ones. All 0 when absent.

    Returns:
        Targets, float32 `(B, K)`; 0 for turns without a token.

    Raises:
        ValueError: On a wrong shape or dtype, a coefficient outside `[0, 1]`, or a turn index out of range or out of
            order.

    Source: VAGEN leaves this target open. Algorithm 1 (line 28) regresses V of the prefix *before* token `i` on the
    token's return, and no such prefix ends with a turn, since an observation follows; J^Critic of section 2.2
    regresses V of the prefix *through* token `i` on it. Algorithm 2 reads V through the last token of each turn and
    names no target. Chosen here: Algorithm 1 for all prefixes before tokens, and section 2.2 for the last token of a
    turn, with the return of the level that reads it. Without token rewards and with a token discount of 1 this is the
    return of that token, as section 2.2 has it; otherwise the KL penalty and the token discount of the last token are
    left out, for the turn level has neither. The other prefixes through a token are those before the next one, and
    have their target already.
    """
    check_unit_interval(gamma=gamma, gae_lambda=gae_lambda)
    check_turn_index(turn_index_BT)
    check_turns(turn_index_BT, turn_rewards_BK=turn_rewards_BK, turn_end_values_BK=turn_end_values_BK)
    generated = Generated.from_turn_index(turn_index_BT)
    values_M = generated.pick_turns(turn_end_values_BK)
    rewards_M = generated.pick_turns(turn_rewards_BK)
    advantages_M = generated.turn_gae(rewards_M, values_M, bootstrap_values_B, gamma=gamma, gae_lambda=gae_lambda)
    return generated.place_turns(advantages_M + values_M, turn_rewards_BK.shape[1])
