"""Turn-level PPO: one advantage per turn, the same for all of its tokens (VAGEN, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from training.algorithms.algorithm import ModelOutputs
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
        """Returns advantages and critic targets, as `GAE.estimate` says."""
        from training.algorithms.functional.turn_gae import turn_gae

        return turn_gae(
            batch.turn_rewards_BK,
            outputs.token_rewards_BT,
            values_BT,
            batch.usable_turn_index_BT,
            gamma=self.gamma_turn,
            gae_lambda=self.lambda_turn,
            bootstrap_values_B=bootstrap_B,
        )
