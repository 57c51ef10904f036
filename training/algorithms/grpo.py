"""GRPO: episode returns relative to their group, without a critic (DeepSeekMath, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from training.algorithms.algorithm import Algorithm, Credit, ModelOutputs, without_gradient
from vlm_envs.validation import require_at_least

if TYPE_CHECKING:
    from torch import Tensor

    from training.algorithms.estimators import GroupScale
    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class GRPO(Algorithm):
    """GRPO: episode returns relative to their group, without a critic (DeepSeekMath, section 4.1).

    Attributes:
        scale: Whether advantages are divided by the group's standard deviation (`"std"`) or not (`"none"`, Dr.GRPO).
        max_sampling_rounds: Maximum number of rollout rounds per iteration to collect enough useful groups; 1 plays
            no further groups (see DAPO).
    """

    title: ClassVar[str] = "GRPO"
    min_group_size: ClassVar[int] = 2

    scale: Literal["std", "none"] = "std"

    max_sampling_rounds: int = 1

    def __post_init__(self) -> None:
        require_at_least(self, 1, "max_sampling_rounds")

    def useful_rows(self, batch: Batch) -> Tensor:
        """Returns the rows of groups whose comparable returns are not all equal."""
        import torch

        from training.algorithms.estimators import zero_variance_groups

        groups_B = batch.comparable_group_index_B
        is_flat_G = zero_variance_groups(batch.returns_B, groups_B, batch.magnitudes_B)
        # A row with a NaN reward is its own group, which is not flat: NaN equals nothing
        return ~is_flat_G[torch.unique(groups_B, return_inverse=True)[1]] & batch.comparable_B

    def keep(self, batch: Batch) -> Batch:
        """Returns the batch with rows of groups that are not useful excluded from every loss.

        Rows that cannot be compared are excluded, too. Their advantage is 0, so that they would only dilute the mean
        over tokens.
        """
        return replace(batch, trainable_B=batch.trainable_B & self.useful_rows(batch))

    def credit(self, batch: Batch, outputs: ModelOutputs) -> Credit:
        """Returns advantages."""
        advantages_BT = grpo(
            outputs.returns_B(batch),
            batch.comparable_group_index_B,
            batch.usable_turn_index_BT,
            scale=self.scale,
            magnitudes_B=outputs.magnitudes_B(batch),
        )
        return Credit(advantages_BT=advantages_BT * batch.response_mask_BT)


@without_gradient
def grpo(
    returns_B: Tensor,
    group_index_B: Tensor,
    turn_index_BT: Tensor,
    *,
    scale: GroupScale = "std",
    eps: float = 1e-6,
    magnitudes_B: Tensor | None = None,
) -> Tensor:
    """Returns each row's group-relative advantage, at every generated token of the row.

    Args:
        returns_B: float `(B,)`, total reward of each row.
        group_index_B: integer `(B,)`, group of each row; rows of a group share their start state.
        turn_index_BT: integer `(B, T)`, negative where no token is generated.
        scale: `std` divides by the group's sample standard deviation (n - 1) plus `eps`; `none` only
            subtracts the mean, as in Dr.GRPO.
        eps: Added to the standard deviation, positive.
        magnitudes_B: float `(B,)`, see `zero_variance_groups`.

    Returns:
        Advantages, float32 `(B, T)`; exactly 0 for a group whose returns are all equal.

    Raises:
        ValueError: On a wrong shape or dtype, or an unknown scale.

    Source: DeepSeekMath (GRPO), section 4.1; Understanding R1-Zero-Like Training (Dr.GRPO) for `none`.
    """
    import torch

    from training.algorithms.estimators import check_shape, check_turn_index, relative_to_group

    check_turn_index(turn_index_BT)
    check_shape("returns_B", returns_B, (len(turn_index_BT),))
    scores_B = relative_to_group(returns_B, group_index_B, scale=scale, eps=eps, magnitudes_N=magnitudes_B)
    return torch.where(turn_index_BT >= 0, scores_B[:, None], 0.0)
