"""GRPO: an episode's return against its siblings', without a critic (DeepSeekMath, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from training.algorithms.algorithm import Algorithm, Credit, ModelOutputs
from vlm_envs.validation import require_at_least

if TYPE_CHECKING:
    from torch import Tensor

    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class GRPO(Algorithm):
    """GRPO: an episode's return against its siblings', without a critic (DeepSeekMath, section 4.1).

    Attributes:
        scale: Whether advantages are divided by the group's standard deviation (`"std"`) or not (`"none"`, Dr.GRPO).
        max_sampling_rounds: How often an iteration's number of groups is played at most, to have as many useful ones;
            1 plays no further ones (see DAPO).
    """

    title: ClassVar[str] = "GRPO"
    min_group_size: ClassVar[int] = 2

    scale: Literal["std", "none"] = "std"

    max_sampling_rounds: int = 1

    def __post_init__(self) -> None:
        require_at_least(self, 1, "max_sampling_rounds")

    def useful_rows(self, batch: Batch) -> Tensor:
        """Returns the rows of groups whose comparable siblings did not all earn the same."""
        import torch

        from training.algorithms.functional.grpo import zero_variance_groups

        groups_B = batch.comparable_group_index_B
        is_flat_G = zero_variance_groups(batch.returns_B, groups_B, batch.magnitudes_B)
        # A row with a NaN reward is a group of its own that is not flat: NaN equals nothing
        return ~is_flat_G[torch.unique(groups_B, return_inverse=True)[1]] & batch.comparable_B

    def keep(self, batch: Batch) -> Batch:
        """Returns the batch without the rows of groups that are not useful, in any loss.

        A row that cannot be compared is left out, too. They have advantage 0; left in, their tokens would only make the
        mean over tokens smaller.
        """
        return replace(batch, trainable_B=batch.trainable_B & self.useful_rows(batch))

    def credit(self, batch: Batch, outputs: ModelOutputs) -> Credit:
        """Returns advantages."""
        from training.algorithms.functional.grpo import grpo

        advantages_BT = grpo(
            outputs.returns_B(batch),
            batch.comparable_group_index_B,
            batch.usable_turn_index_BT,
            scale=self.scale,
            magnitudes_B=outputs.magnitudes_B(batch),
        )
        return Credit(advantages_BT=advantages_BT * batch.response_mask_BT)
