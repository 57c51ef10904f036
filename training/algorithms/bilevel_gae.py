"""PPO with bi-level GAE: turns get an advantage first, then the tokens inside each turn (VAGEN, Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from training.algorithms.algorithm import ModelOutputs, without_gradient
from training.algorithms.gae import GAE
from vlm_envs.validation import require, require_between

if TYPE_CHECKING:
    from torch import Tensor

    from training.batch import Batch


BilevelVariant = Literal["paper", "released"]


@dataclass(frozen=True, kw_only=True)
class BilevelGAE(GAE):
    """PPO with bi-level GAE: over turns first, then over the tokens of each (VAGEN, Algorithm 2).

    Attributes:
        variant: `"paper"` (Algorithm 2) or `"released"` (the public code).
        gamma_turn: Discount between turns.
        lambda_turn: GAE decay between turns.
        gamma_token: Discount between tokens.
        lambda_token: GAE decay between tokens.

    Raises:
        ConfigError: If all coefficients of the variant `released` are 1, which would disable the turn level.
    """

    title: ClassVar[str] = "PPO with bi-level GAE"

    variant: Literal["paper", "released"] = "paper"
    gamma_turn: float = 0.95
    lambda_turn: float = 0.95
    gamma_token: float = 1.0
    lambda_token: float = 1.0

    def __post_init__(self) -> None:
        require_between(self, 0, 1, "gamma_turn", "lambda_turn", "gamma_token", "lambda_token")
        coefficients = {self.gamma_turn, self.lambda_turn, self.gamma_token, self.lambda_token}
        require(
            self.variant == "paper" or coefficients != {1.0},
            "With every gamma and lambda 1, bi-level GAE equals token GAE. Lower --algorithm.gamma-turn or "
            "--algorithm.lambda-turn, or choose --algorithm token_gae.",
        )

    def estimate(
        self, batch: Batch, outputs: ModelOutputs, values_BT: Tensor, bootstrap_B: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns advantages and critic targets; see `GAE.estimate`."""
        assert outputs.turn_end_values_BK is not None, "GAE needs a critic"
        return bilevel_gae(
            batch.turn_rewards_BK,
            outputs.token_rewards_BT,
            values_BT,
            outputs.turn_end_values_BK,
            batch.usable_turn_index_BT,
            gamma_turn=self.gamma_turn,
            lambda_turn=self.lambda_turn,
            gamma_token=self.gamma_token,
            lambda_token=self.lambda_token,
            bootstrap_values_B=bootstrap_B,
            variant=self.variant,
        )

    def turn_end_targets(self, batch: Batch, outputs: ModelOutputs, bootstrap_B: Tensor | None) -> Tensor | None:
        """Returns the targets of V at the ends of turns; None except in the variant `paper`."""
        if self.variant != "paper":
            return None
        assert outputs.turn_end_values_BK is not None, "GAE needs a critic"
        targets_BK = turn_end_returns(
            batch.turn_rewards_BK,
            outputs.turn_end_values_BK,
            batch.usable_turn_index_BT,
            gamma=self.gamma_turn,
            gae_lambda=self.lambda_turn,
            bootstrap_values_B=bootstrap_B,
        )
        return targets_BK * batch.turn_mask_BK


@without_gradient
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
        turn_end_values_BK: float `(B, K)`, value of the prefix that includes the last token of the turn, before its
            outcome is observed; read by `paper` only, which requires training the critic on it (`turn_end_returns`).
        turn_index_BT: integer `(B, T)`, turn of each generated token in `[0, K)` and -1 elsewhere. It
            never falls along a row. A turn without a token is skipped together with its reward.
        gamma_turn: Discount between turns, in `[0, 1]`.
        lambda_turn: GAE decay between turns, in `[0, 1]`.
        gamma_token: Discount between the tokens of a turn, in `[0, 1]`.
        lambda_token: GAE decay between the tokens of a turn, in `[0, 1]`.
        bootstrap_values_B: float `(B,)`, value of the state after the outcome of the last turn: the critic's estimate
            for truncated rows and 0 for terminated ones. All 0 when absent.
        variant: `paper` or `released`.

    Returns:
        Advantages and critic targets (advantage + value), float32 `(B, T)`; 0 where nothing is generated.

    Raises:
        ValueError: On a wrong shape or dtype, a coefficient outside `[0, 1]`, a turn index out of range or
            out of order, or an unknown variant.

    Source: VAGEN, Algorithm 2 (`paper`); the authors' public code (`released`). Deviations: truncated rows may
    bootstrap, while the paper sets the value after the last turn to 0. Algorithm 2 does not specify critic targets;
    they follow Algorithm 1, and at turn ends `turn_end_returns`. The public code whitens; this function does not.
    """
    import torch

    from training.algorithms.estimators import Generated, check_turn_index, check_turns, check_unit_interval, run_gae

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


@without_gradient
def turn_end_returns(
    turn_rewards_BK: Tensor,
    turn_end_values_BK: Tensor,
    turn_index_BT: Tensor,
    *,
    gamma: float,
    gae_lambda: float,
    bootstrap_values_B: Tensor | None = None,
) -> Tensor:
    """Returns the critic's targets for the prefixes that end with the last token of a turn.

    Such a prefix includes the response of turn `k` but not its outcome, so that its value includes the reward of turn
    `k`. The target is the lambda-return of the turn level, `A_k + V_k` with `A_k` the advantage of the turn in
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

    Source: VAGEN does not specify this target. Algorithm 1 (line 28) regresses V of the prefix *before* token `i` on
    the token's return, and no such prefix ends with a turn, since an observation follows; J^Critic of section 2.2
    regresses V of the prefix *through* token `i` on it. Algorithm 2 reads V through the last token of each turn and
    names no target. Chosen here: Algorithm 1 for all prefixes before tokens, and section 2.2 for the last token of a
    turn, with the return of the level that reads it. Without token rewards and with a token discount of 1 this is the
    return of that token, as in section 2.2; otherwise the KL penalty and the token discount of the last token are
    left out, because the turn level has neither. Every other prefix through a token is the prefix before the next
    token and already has a target.
    """
    from training.algorithms.estimators import Generated, check_turn_index, check_turns, check_unit_interval

    check_unit_interval(gamma=gamma, gae_lambda=gae_lambda)
    check_turn_index(turn_index_BT)
    check_turns(turn_index_BT, turn_rewards_BK=turn_rewards_BK, turn_end_values_BK=turn_end_values_BK)
    generated = Generated.from_turn_index(turn_index_BT)
    values_M = generated.pick_turns(turn_end_values_BK)
    rewards_M = generated.pick_turns(turn_rewards_BK)
    advantages_M = generated.turn_gae(rewards_M, values_M, bootstrap_values_B, gamma=gamma, gae_lambda=gae_lambda)
    return generated.place_turns(advantages_M + values_M, turn_rewards_BK.shape[1])
