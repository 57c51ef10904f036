"""GRPO: an episode's return against its siblings', without a critic (DeepSeekMath, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from training.algorithms.algorithm import Algorithm, Credit, ModelOutputs

if TYPE_CHECKING:
    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class GRPO(Algorithm):
    """GRPO: an episode's return against its siblings', without a critic (DeepSeekMath, section 4.1).

    Attributes:
        scale: Whether advantages are divided by the group's standard deviation (`"std"`) or not (`"none"`, Dr.GRPO).
    """

    title: ClassVar[str] = "GRPO"
    min_group_size: ClassVar[int] = 2

    scale: Literal["std", "none"] = "std"

    def keep(self, batch: Batch) -> Batch:
        """Returns the batch without the rows of groups whose comparable siblings all earned the same, in any loss.

        A row that cannot be compared is left out, too. They have advantage 0; left in, their tokens would only make the
        mean over tokens smaller.
        """
        import torch

        from training.algorithms.functional.grpo import zero_variance_groups

        groups_B = batch.comparable_group_index_B
        is_flat_G = zero_variance_groups(batch.turn_rewards_BK.sum(-1), groups_B)
        is_flat_B = is_flat_G[torch.unique(groups_B, return_inverse=True)[1]]
        return replace(batch, trainable_B=batch.trainable_B & ~is_flat_B)

    def credit(self, batch: Batch, outputs: ModelOutputs) -> Credit:
        """Returns advantages."""
        from training.algorithms.functional.grpo import grpo

        advantages_BT = grpo(
            outputs.returns_B(batch), batch.comparable_group_index_B, batch.usable_turn_index_BT, scale=self.scale
        )
        return Credit(advantages_BT=advantages_BT * batch.response_mask_BT)
