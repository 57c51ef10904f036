"""Turn-level PPO: one advantage per turn, the same for all of its tokens (VAGEN, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from training.algorithms.algorithm import ModelOutputs, without_gradient
from training.algorithms.gae import GAE
from vlm_envs.validation import require_between

if TYPE_CHECKING:
    from torch import Tensor

    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class TurnGAE(GAE):
    """Turn-level PPO: one advantage per turn, the same for all of its tokens (VAGEN, section 3).

    Attributes:
        gamma_turn: Discount between turns.
        lambda_turn: GAE decay between turns.
    """

    title: ClassVar[str] = "turn-level PPO"

    gamma_turn: float = 0.95
    lambda_turn: float = 0.95

    def __post_init__(self) -> None:
        require_between(self, 0, 1, "gamma_turn", "lambda_turn")

    def estimate(
        self, batch: Batch, outputs: ModelOutputs, values_BT: Tensor, bootstrap_B: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns advantages and critic targets; see `GAE.estimate`."""
        return turn_gae(
            batch.turn_rewards_BK,
            outputs.token_rewards_BT,
            values_BT,
            batch.usable_turn_index_BT,
            gamma=self.gamma_turn,
            gae_lambda=self.lambda_turn,
            bootstrap_values_B=bootstrap_B,
        )


@without_gradient
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
    """Returns one advantage per turn, at every token of the turn.

    A turn is one action: its state value is the value at its first token, and its reward is the turn reward plus the
    token rewards of the whole turn.

    Args:
        turn_rewards_BK: float `(B, K)`, reward of each turn without the token rewards.
        token_rewards_BT: float `(B, T)`, reward of each generated token.
        values_BT: float `(B, T)`, value of the prefix before token `t`.
        turn_index_BT: integer `(B, T)`, as in `bilevel_gae`.
        gamma: Discount between turns, in `[0, 1]`.
        gae_lambda: GAE decay between turns, in `[0, 1]`.
        bootstrap_values_B: float `(B,)`, as in `bilevel_gae`.

    Returns:
        Advantages and critic targets (advantage of the turn + value at its first token), both constant
        over a turn, float32 `(B, T)`; 0 where nothing is generated.

    Raises:
        ValueError: As in `bilevel_gae`.

    Source: the turn-level PPO baseline of VAGEN, section 3, after Zhai et al. (2024).
    """
    import torch

    from training.algorithms.estimators import (
        Generated,
        check_turn_index,
        check_turns,
        check_unit_interval,
        run_lengths,
    )

    check_unit_interval(gamma=gamma, gae_lambda=gae_lambda)
    check_turn_index(turn_index_BT, token_rewards_BT=token_rewards_BT, values_BT=values_BT)
    check_turns(turn_index_BT, turn_rewards_BK=turn_rewards_BK)
    generated = Generated.from_turn_index(turn_index_BT)

    num_tokens_M = run_lengths(generated.last_token_M)
    turn_of_token_N = torch.repeat_interleave(num_tokens_M)
    turn_rewards_M = generated.pick_turns(turn_rewards_BK).index_add(
        0, turn_of_token_N, generated.pick_tokens(token_rewards_BT)
    )
    turn_values_M = generated.pick_tokens(values_BT)[generated.last_token_M - num_tokens_M + 1]
    advantages_M = generated.turn_gae(
        turn_rewards_M, turn_values_M, bootstrap_values_B, gamma=gamma, gae_lambda=gae_lambda
    )
    returns_M = advantages_M + turn_values_M
    return (
        generated.place_tokens(advantages_M[turn_of_token_N]),
        generated.place_tokens(returns_M[turn_of_token_N]),
    )
