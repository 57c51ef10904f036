"""REINFORCE++: what is still to come, normalised over the whole batch, without a critic (Hu et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from training.algorithms.algorithm import Algorithm, Credit, ModelOutputs

if TYPE_CHECKING:
    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class ReinforcePlusPlus(Algorithm):
    """REINFORCE++: what is still to come, normalised over the whole batch, without a critic (Hu et al. 2025).

    The KL penalty of each token is in its reward (k1), unless `ppo.kl_placement` puts it into the loss.

    Attributes:
        baseline: Whether an episode's return less its siblings' mean stands in place of what is still to come:
            "REINFORCE++ w/ Baseline", for groups of siblings. Its KL is in the loss in the paper, and k2:
            `ppo.kl_placement` loss, `ppo.kl_estimator` k2.
    """

    title: ClassVar[str] = "REINFORCE++"
    sibling_setting: ClassVar[str | None] = "baseline"

    baseline: bool = False

    @property
    def min_group_size(self) -> int:
        """Two where siblings are compared."""
        return 2 if self.baseline else 1

    def keep(self, batch: Batch) -> Batch:
        """Returns, with the baseline, the batch without rows that nothing can be compared with (see `GRPO.keep`)."""
        from training.algorithms.functional.grpo import has_sibling

        if not self.baseline:
            return batch
        return replace(batch, trainable_B=batch.trainable_B & has_sibling(batch.comparable_group_index_B))

    def credit(self, batch: Batch, outputs: ModelOutputs) -> Credit:
        """Returns advantages; with the baseline 0 for a row that nothing can be compared with."""
        from training.algorithms.functional.reinforce_plus_plus import reinforce_plus_plus

        advantages_BT = reinforce_plus_plus(
            batch.turn_rewards_BK,
            outputs.token_rewards_BT,
            batch.usable_turn_index_BT,
            batch.response_mask_BT,
            group_index_B=batch.comparable_group_index_B if self.baseline else None,
        )
        return Credit(advantages_BT=advantages_BT)
