"""PPO with token-level GAE: one recurrence over all generated tokens (VAGEN, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from training.algorithms.algorithm import ModelOutputs
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
        reward_placement: Where rewards are put: each turn's on its own last token (`"turn"`), or all of them on the
            last token of the row (`"trajectory"`: VAGEN-Base, Algorithm 1, line 16).
        mask: What is learnt from: the tokens that were `"generated"`, or `"all"`, observations included, as if the
            policy had said them ("vanilla PPO" of VAGEN, section 3, which the paper finds to fail). See
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
        """Returns the rows, with observations counted as generated where `mask` says so."""
        from training.batch import with_observations_as_actions

        return with_observations_as_actions(batch) if self.learns_observations else batch

    def estimate(
        self, batch: Batch, outputs: ModelOutputs, values_BT: Tensor, bootstrap_B: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns advantages and critic targets, as `GAE.estimate` says."""
        from training.algorithms.functional.token_gae import place_trajectory_reward, place_turn_rewards, token_gae

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
