"""GiGPO: GRPO with an advantage of each turn, against turns that began in the same state (Feng et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from training.algorithms.algorithm import Credit, ModelOutputs
from training.algorithms.grpo import GRPO
from vlm_envs.validation import require_above, require_between

if TYPE_CHECKING:
    from torch import Tensor

    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class GiGPO(GRPO):
    """GiGPO: GRPO with an advantage of each turn, against turns that began in the same state (Feng et al. 2025).

    Compared are the turns of siblings, and of one episode, whose worlds were in equal states, by the world's own hash
    of it: whatever was said before, and however many turns are left.

    Attributes:
        gamma: Discount between turns in what a turn is still to earn.
        omega: Weight of the turns' advantages beside the episodes'.
    """

    title: ClassVar[str] = "GiGPO"

    gamma: float = 0.95
    omega: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between(self, 0, 1, "gamma")
        require_above(self, 0, "omega")

    def useful_rows(self, batch: Batch) -> Tensor:
        """Returns the rows of groups in which an episode or a turn earned more than another."""
        import torch

        nothing_BT = torch.zeros(batch.turn_index_BT.shape)
        of_episodes_BT, of_both_BT = (self._advantages(batch, nothing_BT, omega) for omega in (0.0, self.omega))
        differs_B = (of_episodes_BT != 0).any(-1) | (of_both_BT != 0).any(-1)
        group_B = torch.unique(batch.comparable_group_index_B, return_inverse=True)[1]
        return torch.isin(group_B, group_B[differs_B])

    def credit(self, batch: Batch, outputs: ModelOutputs) -> Credit:
        """Returns advantages, the same for all tokens of a turn."""
        return Credit(advantages_BT=self._advantages(batch, outputs.token_rewards_BT, self.omega))

    def _advantages(self, batch: Batch, token_rewards_BT: Tensor, omega: float) -> Tensor:
        from training.algorithms.functional.gigpo import gigpo

        advantages_BT = gigpo(
            batch.turn_rewards_BK,
            token_rewards_BT,
            batch.state_index_BK,
            batch.comparable_group_index_B,
            batch.usable_turn_index_BT,
            gamma=self.gamma,
            omega=omega,
            scale=self.scale,
        )
        # A row that is not wholly judged is a group of its own, and may yet come to one state twice
        return advantages_BT * (batch.response_mask_BT & batch.comparable_B[:, None])
