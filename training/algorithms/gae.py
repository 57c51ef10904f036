"""The base class of algorithms with GAE: critic, bootstrapping, group baseline, whitening."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from training.algorithms.algorithm import Algorithm, Credit, CriticConfig, ModelOutputs

if TYPE_CHECKING:
    from torch import Tensor

    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class GAE(Algorithm):
    """An algorithm that estimates advantages from rewards and a critic's values.

    Attributes:
        critic: Training settings of the critic.
        bootstrap_truncated: Whether truncated episodes bootstrap from V of their last state, read after the final
            observation. Correct if the time limit is only a sampling artifact; wrong if it is part of the task and
            the agent observes the remaining time (Pardo et al. 2018), as in worlds whose prompt counts the turns.
        sibling_baseline: Whether to subtract the mean advantage of the other rows of the group, which corrects for a
            critic that has not yet learned the value of the start state.
        whiten: Whether to whiten advantages over the batch's generated tokens.
    """

    sibling_setting: ClassVar[str | None] = "sibling_baseline"

    critic: CriticConfig = field(default_factory=CriticConfig)
    bootstrap_truncated: bool = True
    sibling_baseline: bool = False
    whiten: bool = True

    @property
    def min_group_size(self) -> int:
        """2 with `sibling_baseline`, else 1."""
        return 2 if self.sibling_baseline else 1

    @property
    def needs_final_observations(self) -> bool:
        """Whether truncated episodes bootstrap."""
        return self.bootstrap_truncated

    def credit(self, batch: Batch, outputs: ModelOutputs) -> Credit:
        """Returns advantages and critic targets."""
        from training.algorithms.estimators import masked_whiten, subtract_siblings

        assert outputs.values_BT is not None, "GAE needs a critic"
        bootstrap_B, mask_BT = self._bootstrap_values(batch, outputs), batch.response_mask_BT
        advantages_BT, returns_BT = self.estimate(batch, outputs, outputs.values_BT, bootstrap_B)
        advantages_BT, returns_BT = advantages_BT * mask_BT, returns_BT * mask_BT
        if self.sibling_baseline:
            advantages_BT = subtract_siblings(advantages_BT, mask_BT, batch.comparable_group_index_B)
        if self.whiten:
            advantages_BT = masked_whiten(advantages_BT, mask_BT)
        return Credit(
            advantages_BT=advantages_BT,
            returns_BT=returns_BT,
            turn_end_returns_BK=self.turn_end_targets(batch, outputs, bootstrap_B),
        )

    @abstractmethod
    def estimate(
        self, batch: Batch, outputs: ModelOutputs, values_BT: Tensor, bootstrap_B: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Returns advantages and critic targets of all usable rows, float32 `(B, T)` each.

        Args:
            batch: The rows: `turn_rewards_BK`, and in `usable_turn_index_BT` the turn of each token to be credited, -1
                for the others.
            outputs: Model outputs for these rows.
            values_BT: V of the prefix before each generated token, 0 elsewhere.
            bootstrap_B: V after each row's last turn, 0 if the episode terminated; None if no row bootstraps.
        """

    def turn_end_targets(self, batch: Batch, outputs: ModelOutputs, bootstrap_B: Tensor | None) -> Tensor | None:
        """Returns the targets of V at the ends of turns, float32 `(B, K)`; None if V is not read there.

        Args:
            batch: The rows, as for `estimate`.
            outputs: Model outputs for these rows; `turn_end_values_BK` is V at the ends of turns.
            bootstrap_B: As for `estimate`.
        """
        return None

    def _bootstrap_values(self, batch: Batch, outputs: ModelOutputs) -> Tensor | None:
        """Returns V of the final state of truncated rows, 0 for terminated ones, float32[B]; None to not bootstrap."""
        import torch

        if not self.bootstrap_truncated:
            return None
        assert outputs.final_values_B is not None, "GAE needs a critic"
        lacking_B = batch.usable_B & ~batch.terminated_B & ~batch.has_final_B
        assert not lacking_B.any(), (
            f"{int(lacking_B.sum())} truncated rows lack their final observation; see make_batch"
        )
        return torch.where(batch.has_final_B, outputs.final_values_B, 0.0)
