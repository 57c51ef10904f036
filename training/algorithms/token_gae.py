"""PPO with token-level GAE: one recurrence over all generated tokens (VAGEN, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from training.algorithms.algorithm import ModelOutputs, without_gradient
from training.algorithms.gae import GAE
from vlm_envs.validation import require_between

if TYPE_CHECKING:
    from torch import Tensor

    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class TokenGAE(GAE):
    """PPO with token-level GAE: one recurrence over all generated tokens (VAGEN, Algorithm 1).

    Attributes:
        gamma_token: Discount between tokens.
        lambda_token: GAE decay between tokens.
        reward_placement: Where rewards are placed: each turn's reward on its last token (`"turn"`), or all rewards on
            the last token of the row (`"trajectory"`: VAGEN-Base, Algorithm 1, line 16).
        mask: Tokens to train on: `"generated"` ones, or `"all"`, which treats observations as if the policy had
            generated them ("vanilla PPO" of VAGEN, section 3, which the paper finds to fail). See
            `training.batch.with_observations_as_actions`.
    """

    title: ClassVar[str] = "PPO with token-level GAE"

    gamma_token: float = 1.0
    lambda_token: float = 1.0
    reward_placement: Literal["turn", "trajectory"] = "turn"
    mask: Literal["generated", "all"] = "generated"

    def __post_init__(self) -> None:
        require_between(self, 0, 1, "gamma_token", "lambda_token")

    @property
    def learns_observations(self) -> bool:
        """Whether observations count as generated."""
        return self.mask == "all"

    def keep(self, batch: Batch) -> Batch:
        """Returns the batch, with observations counted as generated if `mask` is `"all"`."""
        from training.batch import with_observations_as_actions

        return with_observations_as_actions(batch) if self.learns_observations else batch

    def estimate(
        self, batch: Batch, outputs: ModelOutputs, values_BT: Tensor, bootstrap_B: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns advantages and critic targets; see `GAE.estimate`."""
        from training.algorithms.estimators import place_trajectory_reward, place_turn_rewards

        turn_index_BT = batch.usable_turn_index_BT
        if self.reward_placement == "trajectory":
            placed_BT = place_trajectory_reward(batch.turn_rewards_BK.sum(-1), turn_index_BT >= 0)
        else:
            placed_BT = place_turn_rewards(batch.turn_rewards_BK, turn_index_BT)
        return token_gae(
            outputs.token_rewards_BT + placed_BT,
            values_BT,
            turn_index_BT >= 0,
            gamma=self.gamma_token,
            gae_lambda=self.lambda_token,
            bootstrap_values_B=bootstrap_B,
        )


@without_gradient
def token_gae(
    rewards_BT: Tensor,
    values_BT: Tensor,
    mask_BT: Tensor,
    *,
    gamma: float,
    gae_lambda: float,
    bootstrap_values_B: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns the advantage of each generated token, skipping tokens that the policy did not generate.

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
    from training.algorithms.estimators import Generated, check_mask, check_unit_interval, run_gae

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
