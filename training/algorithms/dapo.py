"""DAPO: GRPO with a higher upper clip, dynamic sampling, a token-level loss, and no KL (Yu et al. 2025)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from training.algorithms.algorithm import without_gradient
from training.algorithms.grpo import GRPO
from vlm_envs.validation import require_above, require_between

if TYPE_CHECKING:
    from torch import Tensor

    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class DAPO(GRPO):
    """DAPO: GRPO with a higher upper clip, dynamic sampling, a token-level loss, and no KL (Yu et al. 2025).

    A group is useful if its returns are not all equal, which is the paper's "not all right and not all wrong" for
    rewards of 0 or 1. Further groups are played until `num_groups` are useful, for at most `max_sampling_rounds`
    rounds; the batch is then filled with groups that no loss includes. verl stops the run instead.

    Attributes:
        max_sampling_rounds: Maximum number of rollout rounds per iteration, including the first; 1 plays no further
            groups. verl's recipe has 10 (`max_num_gen_batches`).
        clip_low: Ratio clip below 1, in place of `ppo.clip_low`.
        clip_high: Ratio clip above 1, in place of `ppo.clip_high` (clip-higher, section 3.1).
        overlong_share: Last fraction of the response limit (`sampling.max_new_tokens`) over which the penalty rises
            from 0 to its maximum; 0 for no penalty. 0.2 is the paper's 4096 of 20480 (section 3.4).
        overlong_penalty: Maximum penalty of a response.
    """

    title: ClassVar[str] = "DAPO"

    max_sampling_rounds: int = 10
    clip_low: float = 0.2
    clip_high: float = 0.28
    overlong_share: float = 0.2
    overlong_penalty: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between(self, 0, 1, "clip_low", includes=(False, False))
        require_above(self, 0, "clip_high", "overlong_penalty")
        require_between(self, 0, 1, "overlong_share")

    @property
    def update_settings(self) -> Mapping[str, Any]:
        """Its own clip, the mean over tokens (section 3.3), and no KL penalty (section 2.3)."""
        no_kl = {"kl_coef": 0.0, "kl_placement": "reward", "kl_estimator": None}
        return {"clip_low": self.clip_low, "clip_high": self.clip_high, "aggregation": "token_mean", **no_kl}

    def keep(self, batch: Batch) -> Batch:
        """Returns the batch with only useful groups trainable and overlong penalties in the turn rewards."""
        kept, limit = super().keep(batch), batch.max_response_tokens
        if self.overlong_share == 0:
            return kept
        penalties_BK = overlong_penalties(
            batch.turn_index_BT,
            num_turns=batch.turn_rewards_BK.shape[1],
            max_tokens=limit,
            cache_tokens=self.overlong_share * limit,
            penalty=self.overlong_penalty,
        )
        return replace(kept, turn_rewards_BK=batch.turn_rewards_BK + penalties_BK)


@without_gradient
def overlong_penalties(
    turn_index_BT: Tensor, *, num_turns: int, max_tokens: int, cache_tokens: float, penalty: float = 1.0
) -> Tensor:
    """Returns the length penalty of each turn's response.

        0                                             where |y| <= L_max - L_cache
        penalty * ((L_max - L_cache) - |y|) / L_cache    up to L_max
        -penalty                                      beyond

    Args:
        turn_index_BT: integer `(B, T)`, turn of each generated token and -1 elsewhere.
        num_turns: K, number of columns of the result.
        max_tokens: L_max, in tokens: the length at which the penalty reaches its maximum; at least 1.
        cache_tokens: L_cache, in tokens: length of the interval before `max_tokens` in which the penalty rises; above
            0 and at most `max_tokens`.
        penalty: Maximum penalty, at least 0.

    Returns:
        float32 `(B, K)`, from `-penalty` to 0; 0 for turns that a row does not have.

    Raises:
        ValueError: On a wrong shape or dtype, or lengths out of range.

    Source: DAPO (arXiv 2503.14476), section 3.4, equation 13, with a penalty of 1; verl adds the factor. In the paper
    an episode is one response; here the response of each turn is measured separately.
    """
    import torch

    from training.algorithms.estimators import check_turn_index

    check_turn_index(turn_index_BT)
    if not 0.0 < cache_tokens <= max_tokens:
        raise ValueError(f"cache_tokens: expected a number above 0 and at most {max_tokens}, got {cache_tokens}.")
    if penalty < 0.0:
        raise ValueError(f"penalty: expected a number of at least 0, got {penalty}.")
    num_tokens_BK = turn_index_BT.new_zeros(len(turn_index_BT), num_turns + 1, dtype=torch.float32)
    num_tokens_BK.scatter_add_(1, turn_index_BT.long() + 1, torch.ones(turn_index_BT.shape))
    excess_BK = num_tokens_BK[:, 1:] - (max_tokens - cache_tokens)
    return -penalty * (excess_BK / cache_tokens).clamp(0.0, 1.0)
