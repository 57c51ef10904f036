"""PPO with bi-level GAE: turns get an advantage first, then the tokens inside each turn (VAGEN, Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from training.algorithms.algorithm import ModelOutputs
from training.algorithms.gae import GAE
from vlm_envs.validation import require, require_between

if TYPE_CHECKING:
    from torch import Tensor

    from training.batch import Batch


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
        ConfigError: If the setting would make the turn level inert.
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
            "With every gamma and lambda 1 bi-level GAE is token GAE. Lower --algorithm.gamma-turn or "
            "--algorithm.lambda-turn, or choose --algorithm token_gae.",
        )

    def estimate(
        self, batch: Batch, outputs: ModelOutputs, values_BT: Tensor, bootstrap_B: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns advantages and critic targets, as `GAE.estimate` says."""
        from training.algorithms.functional.bilevel_gae import bilevel_gae

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
        """Returns what V is to learn at the ends of turns, where `paper` reads it."""
        from training.algorithms.functional.turn_ends import turn_end_returns

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
