"""GSPO: GRPO with sequence-level importance ratios and clipping (Zheng et al. 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from training.algorithms.grpo import GRPO
from vlm_envs.validation import require_above, require_between

if TYPE_CHECKING:
    from torch import Tensor

    from training.algorithms.losses import Aggregation


@dataclass(frozen=True, kw_only=True)
class GSPO(GRPO):
    """GSPO: GRPO with sequence-level importance ratios and clipping (Zheng et al. 2025).

    A row's sequence is all of its generated tokens, over all turns. Rows weigh the same regardless of length.

    Attributes:
        sequence_clip_low: Clip of the sequence ratio below 1, in place of `ppo.clip_low`; both defaults are from
            section 5.1.
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
        """Returns the loss of some rows with sequence-level ratios; see `Algorithm.policy_loss`."""
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


def gspo_loss(
    logprobs_BT: Tensor,
    old_logprobs_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    aggregation: Aggregation = "sequence_mean",
    normalizer: float | None = None,
    importance_weights_BT: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Returns the clipped loss with one ratio per row, `-min(s * A, clip(s) * A)`.

        s_i = (pi(y_i) / pi_old(y_i))^(1 / |y_i|) = exp(mean over the tokens of row i of log(pi / pi_old))

    Args:
        logprobs_BT: float `(B, T)`, log-probabilities under the policy being trained; carries the gradient.
        old_logprobs_BT: float `(B, T)`, the trainer's log-probabilities before the first update.
        advantages_BT: float `(B, T)`.
        mask_BT: bool `(B, T)`, true at generated tokens; those of a row are its sequence, over all of its turns.
        clip_low: How far the ratio may fall below 1, in `[0, 1]`.
        clip_high: How far the ratio may rise above 1, at least 0.
        aggregation: See `aggregate`; the paper averages over sequences.
        normalizer: See `aggregate`.
        importance_weights_BT: float `(B, T)`, as in `policy_loss`.

    Returns:
        The scalar loss, and detached means over the tokens of this call: `clip_fraction` and `ratio_mean` of the
        sequences' ratios, and `approx_kl` of the tokens', as in `policy_loss`.

    Raises:
        ValueError: As in `policy_loss`.

    Source: Zheng et al. 2025, "Group Sequence Policy Optimization" (arXiv 2507.18071), section 4.1, in the form of
    GSPO-token (section 4.3), whose ratio is s_i with the gradient of each token's own log-probability: with one
    advantage per row, value and gradient equal GSPO's, otherwise GSPO-token's. verl and TRL do the same. Deviation:
    log-ratios are bounded to +-20.
    """
    import torch

    from training.algorithms.estimators import check_mask
    from training.algorithms.losses import kl_penalty, policy_loss

    check_mask(mask_BT, logprobs_BT=logprobs_BT, old_logprobs_BT=old_logprobs_BT)
    current_BT, old_BT = logprobs_BT.float(), old_logprobs_BT.float().detach()
    log_ratio_BT = torch.where(mask_BT, current_BT.detach() - old_BT, 0.0)
    of_row_B = log_ratio_BT.sum(-1) / mask_BT.sum(-1).clamp(min=1)
    loss, metrics = policy_loss(
        of_row_B[:, None] + (current_BT - current_BT.detach()),  # relative to 0: adding `old_BT` would round it
        torch.zeros_like(old_BT),
        advantages_BT,
        mask_BT,
        clip_low=clip_low,
        clip_high=clip_high,
        aggregation=aggregation,
        normalizer=normalizer,
        importance_weights_BT=importance_weights_BT,
    )
    kl_BT = torch.where(mask_BT, kl_penalty(old_BT, current_BT.detach(), kl_estimator="k3"), 0.0)
    return loss, metrics | {"approx_kl": kl_BT.sum() / mask_BT.sum().clamp(min=1)}
