"""GSPO: GRPO with the importance ratio and the clip of whole sequences (Zheng et al. 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from training.algorithms.grpo import GRPO
from vlm_envs.validation import require_above, require_between

if TYPE_CHECKING:
    from torch import Tensor

    from training.algorithms.functional.losses import Aggregation


@dataclass(frozen=True, kw_only=True)
class GSPO(GRPO):
    """GSPO: GRPO with the importance ratio and the clip of whole sequences (Zheng et al. 2025).

    A row's sequence is all that was generated in it, in every turn. Rows are averaged, whatever their length.

    Attributes:
        sequence_clip_low: Clip of a sequence's ratio below 1, in place of `ppo.clip_low`; both are section 5.1's.
        sequence_clip_high: Clip above 1, in place of `ppo.clip_high`.
    """

    title: ClassVar[str] = "GSPO"
    needs_several_steps: ClassVar[bool] = True

    sequence_clip_low: float = 3e-4
    sequence_clip_high: float = 4e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between(self, 0, 1, "sequence_clip_low", includes=(False, False))
        require_above(self, 0, "sequence_clip_high")

    @property
    def update_settings(self) -> Mapping[str, Any]:
        """Its own clip, and the mean over sequences."""
        clip = {"clip_low": self.sequence_clip_low, "clip_high": self.sequence_clip_high}
        return {**clip, "aggregation": "sequence_mean"}

    def policy_loss(
        self,
        logprobs_BT: Tensor,
        old_logprobs_BT: Tensor,
        advantages_BT: Tensor,
        mask_BT: Tensor,
        *,
        clip_low: float,
        clip_high: float,
        aggregation: Aggregation,
        normalizer: float | None,
        importance_weights_BT: Tensor | None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the loss of some rows by their sequences' ratios, as `Algorithm.policy_loss` says."""
        from training.algorithms.functional.gspo import gspo_loss

        return gspo_loss(
            logprobs_BT,
            old_logprobs_BT,
            advantages_BT,
            mask_BT,
            clip_low=clip_low,
            clip_high=clip_high,
            aggregation=aggregation,
            normalizer=normalizer,
            importance_weights_BT=importance_weights_BT,
        )
