"""RLOO: REINFORCE with a leave-one-out baseline, without a critic (Ahmadian et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from training.algorithms.algorithm import Algorithm, Credit, ModelOutputs

if TYPE_CHECKING:
    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class RLOO(Algorithm):
    """RLOO: an episode's return against the mean of its siblings', without a critic (Ahmadian et al. 2024).

    The return has the KL penalty in it, as in the paper, unless `ppo.kl_placement` puts it into the loss. So siblings
    that the world paid the same are learnt from, too: their penalties differ.

    Deviation: PPO's clipped loss, whose gradient is REINFORCE's as long as the ratio is 1. TRL and verl have it, too.
    """

    title: ClassVar[str] = "RLOO"
    min_group_size: ClassVar[int] = 2

    def keep(self, batch: Batch) -> Batch:
        """Returns the batch without rows that nothing can be compared with, in any loss (see `GRPO.keep`)."""
        from training.algorithms.functional.grpo import has_sibling

        return replace(batch, trainable_B=batch.trainable_B & has_sibling(batch.comparable_group_index_B))

    def credit(self, batch: Batch, outputs: ModelOutputs) -> Credit:
        """Returns advantages, the same for all tokens of a row; 0 for a row that nothing can be compared with."""
        from training.algorithms.functional.rloo import rloo

        advantages_BT = rloo(
            outputs.returns_B(batch),
            batch.comparable_group_index_B,
            batch.usable_turn_index_BT,
            magnitudes_B=outputs.magnitudes_B(batch),
        )
        return Credit(advantages_BT=advantages_BT * batch.response_mask_BT)
