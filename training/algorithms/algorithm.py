"""The interface of an algorithm: its settings, row selection, credit assignment, and policy loss.

Algorithm files import torch inside functions, not at the top: the command line needs only their settings, so that
usage errors appear without waiting for torch.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, ParamSpec, Self, TypeVar

from vlm_envs.validation import require_above, require_at_least

if TYPE_CHECKING:
    from torch import Tensor

    from training.algorithms.losses import Aggregation
    from training.batch import Batch


_P = ParamSpec("_P")
_R = TypeVar("_R")


def without_gradient(formula: Callable[_P, _R]) -> Callable[_P, _R]:
    """Returns a formula that is computed under `torch.no_grad()`, without importing torch at decoration."""

    @functools.wraps(formula)
    def computed(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        import torch

        with torch.no_grad():
            return formula(*args, **kwargs)

    return computed


@dataclass(frozen=True, kw_only=True)
class CriticConfig:
    """Training settings of a critic.

    Attributes:
        learning_rate: AdamW learning rate of the critic.
        warmup_iterations: First iterations in which only the critic learns.
        num_epochs: Passes of the critic over an iteration's batch.
        num_minibatches: Optimizer steps of the critic per pass. Regression tolerates many small steps; a policy
            gradient would drown in noise.
        value_clip: Limit on value changes, in standard deviations of the first returns; None for no limit.
        trunk: The model below the value head: `"own"`, a copy of the policy that is trained with the head; or
            `"policy"`, whose hidden states the head reads without training them. The latter needs no second model and
            a backward pass through the head only, but is limited to the policy's features.
    """

    learning_rate: float = 1e-5
    warmup_iterations: int = 0
    num_epochs: int = 1
    num_minibatches: int = 4
    value_clip: float | None = 0.5
    trunk: Literal["own", "policy"] = "own"

    def __post_init__(self) -> None:
        require_above(self, 0, "learning_rate", "value_clip")
        require_at_least(self, 0, "warmup_iterations")
        require_at_least(self, 1, "num_epochs", "num_minibatches")


@dataclass(frozen=True, kw_only=True)
class ModelOutputs:
    """Model outputs for a batch before the update. All float32 on the CPU.

    Attributes:
        old_logprobs_BT: Log-probabilities in the denominator of the ratio.
        values_BT: V of the prefix before each generated token; None without a critic.
        turn_end_values_BK: V of the prefix through each turn's last token; None without a critic.
        final_values_B: V after the final observation of rows that carry one, 0 elsewhere; None without a critic.
        token_rewards_BT: KL penalties; 0 without a reference model or if the KL is part of the loss.
        ref_kl: Mean k1 estimate of the KL to the reference; None without a reference.
        ref_logprobs_BT: Log-probabilities under the reference; None without a reference.
    """

    old_logprobs_BT: Tensor
    values_BT: Tensor | None
    turn_end_values_BK: Tensor | None
    final_values_B: Tensor | None
    token_rewards_BT: Tensor
    ref_kl: float | None
    ref_logprobs_BT: Tensor | None = None

    def returns_B(self, batch: Batch) -> Tensor:
        """Returns the total reward of each row, including KL penalties, float32[B]."""
        return batch.returns_B + self._penalties_BT(batch).sum(-1)

    def magnitudes_B(self, batch: Batch) -> Tensor:
        """Returns each row's sum of absolute rewards and penalties, float32[B], which bounds its rounding error."""
        return batch.magnitudes_B + self._penalties_BT(batch).abs().sum(-1)

    def _penalties_BT(self, batch: Batch) -> Tensor:
        return self.token_rewards_BT * (batch.usable_turn_index_BT >= 0)


@dataclass(frozen=True, kw_only=True)
class Credit:
    """Training targets for a batch. All float32 on the CPU, 0 at entries that are not trained on.

    Attributes:
        advantages_BT: Advantage of each generated token.
        returns_BT: Targets of V before each generated token; None without a critic.
        turn_end_returns_BK: Targets of V at the ends of turns; None if V is not read there.
    """

    advantages_BT: Tensor
    returns_BT: Tensor | None = None
    turn_end_returns_BK: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Algorithm(ABC):
    """A method for training a policy on rollouts. Each subclass is a frozen dataclass of its settings.

    A field `critic: CriticConfig` gives the algorithm a critic.

    Class attributes:
        title: Name in reports, as in "40 iterations of GRPO".
        sibling_setting: Name of the boolean setting that compares episodes within a group; None if there is no such
            setting.
        needs_several_steps: Whether the algorithm reduces to a different one with a single optimizer step per
            iteration.
    """

    title: ClassVar[str] = "reinforcement learning"
    sibling_setting: ClassVar[str | None] = None
    needs_several_steps: ClassVar[bool] = False

    @property
    def critic_config(self) -> CriticConfig | None:
        """The field `critic`; None for an algorithm without a critic."""
        critic = getattr(self, "critic", None)
        return critic if isinstance(critic, CriticConfig) else None

    @property
    def critic_trunk(self) -> Literal["own", "policy"]:
        """The model below the value head; `"own"` without a critic."""
        return self.critic_config.trunk if self.critic_config is not None else "own"

    def with_critic(self, **changes: Any) -> Self:
        """Returns a copy with changed critic settings, or the algorithm itself if it has no critic."""
        if self.critic_config is None:
            return self
        return replace(self, **{"critic": replace(self.critic_config, **changes)})

    @property
    def critic_warmup_iterations(self) -> int:
        """Number of initial iterations in which only the critic is trained."""
        return self.critic_config.warmup_iterations if self.critic_config is not None else 0

    @property
    def min_group_size(self) -> int:
        """The smallest group size: episodes per start state."""
        return 1

    @property
    def max_sampling_rounds(self) -> int:
        """Maximum number of rollout rounds per iteration to collect enough useful groups; may be a field."""
        return 1

    @property
    def update_settings(self) -> Mapping[str, Any]:
        """Settings of `ppo` that the algorithm fixes; setting these in the config is an error."""
        return {}

    @property
    def needs_final_observations(self) -> bool:
        """Whether V is read after the final observation of truncated episodes."""
        return False

    @property
    def learns_observations(self) -> bool:
        """Whether observation tokens, which have no sampling log-probability, are trained on."""
        return False

    def useful_rows(self, batch: Batch) -> Tensor:
        """Returns the rows of groups that are useful for training, bool[B]: all, unless overridden.

        If `max_sampling_rounds` is above 1, further groups are played to replace the others.

        Args:
            batch: Rows as they were played, with complete groups.
        """
        return batch.trainable_B.new_ones(batch.num_rows)

    def keep(self, batch: Batch) -> Batch:
        """Returns the batch restricted to the tokens to train on: all generated tokens, unless overridden.

        Args:
            batch: The rows as they were played.
        """
        return batch

    @abstractmethod
    def credit(self, batch: Batch, outputs: ModelOutputs) -> Credit:
        """Returns advantages and critic targets.

        The reward of a masked turn still counts for the turns before it. A row with an infinite or NaN reward is left
        out entirely.

        Args:
            batch: The rows that `keep` returned, and their turn rewards.
            outputs: Values and KL penalties.
        """

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
        """Returns the loss of some rows, differentiable in `logprobs_BT`, and mean metrics to log.

        PPO's clipped surrogate unless overridden; see `training.algorithms.losses.policy_loss`.

        Args:
            logprobs_BT: float `(B, T)`, log-probabilities under the policy; carries the gradient.
            old_logprobs_BT: float `(B, T)`, denominator of the ratio.
            advantages_BT: float `(B, T)`.
            mask_BT: bool `(B, T)`, true at tokens to train on.
            clip_low: How far the ratio may fall below 1.
            clip_high: How far the ratio may rise above 1.
            aggregation: How token losses are averaged.
            normalizer: Divisor of the sum.
            importance_weights_BT: float `(B, T)`, constants; all 1 when None.
        """
        from training.algorithms.losses import policy_loss

        return policy_loss(
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
