"""An algorithm of your own, RLOO: each episode's return minus the mean return of the rest of its group.

    A_i = R_i - 1 / (k - 1) * sum over j != i of R_j        for k siblings of one start state

Train with it: PYTHONPATH=examples python -m training frozenlake_tiny --algorithm rloo:RLOO
Source: Ahmadian et al. 2024, "Back to Basics: Revisiting REINFORCE Style Optimization for Learning from Human Feedback
in LLMs". Deviation: PPO's clipped loss, whose gradient at a ratio of 1 is REINFORCE's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from training.algorithms.algorithm import Algorithm, Credit, ModelOutputs

if TYPE_CHECKING:
    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class RLOO(Algorithm):
    """REINFORCE with a leave-one-out baseline (Ahmadian et al. 2024)."""

    title: ClassVar[str] = "RLOO"
    min_group_size: ClassVar[int] = 2

    def credit(self, batch: Batch, outputs: ModelOutputs) -> Credit:
        """Returns advantages, constant over a row's tokens; 0 for a row that is alone in its group."""
        import torch

        returns_B, groups_B = outputs.returns_B(batch), batch.comparable_group_index_B
        is_other_BB = (groups_B[:, None] == groups_B) & ~torch.eye(batch.num_rows, dtype=torch.bool)
        num_others_B = is_other_BB.sum(-1)
        others_B = torch.where(is_other_BB, returns_B, 0.0).sum(-1) / num_others_B.clamp(min=1)
        advantages_B = torch.where(num_others_B > 0, returns_B - others_B, 0.0)
        return Credit(advantages_BT=torch.where(batch.response_mask_BT, advantages_B[:, None], 0.0))
