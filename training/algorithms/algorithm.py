"""What an algorithm is: settings of its own, what it learns from, how it assigns credit, the loss of the policy.

A file of algorithms imports torch where it computes, not at its top: the command line knows algorithms by their
settings, and whoever gets an option wrong need not wait for torch.
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
    """Return a formula that is computed under `torch.no_grad()`; decorating with it does not import torch."""

    @functools.wraps(formula)
    def computed(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        import torch

        with torch.no_grad():
            return formula(*args, **kwargs)

    return computed


@dataclass(frozen=True, kw_only=True)
class CriticConfig:
    """How a critic learns.

    Attributes:
        learning_rate: Of the critic (AdamW).
        warmup_iterations: First iterations in which only the critic learns.
        num_epochs: The critic's passes over an iteration's batch.
        num_minibatches: Its optimiser steps per pass. A regression can take many small steps where a policy gradient
            would drown in noise.
        value_clip: Clip of value changes, in standard deviations of the first returns; None for none.
        trunk: What its head stands on: a model of its `"own"`, trained with it from a copy of the policy; or the
            `"policy"`, whose hidden states it reads without training them. That takes no second model, and no backward
            pass but the head's; it sees what the policy has learnt to see.
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
    """What the models say of a batch before the update. All float32 on the CPU.

    Attributes:
        old_logprobs_BT: Log-probabilities the ratio is taken against.
        values_BT: V of the prefix before each generated token; None without a critic.
        turn_end_values_BK: V of the prefix through each turn's last token; None without a critic.
        final_values_B: V after the final observation of rows that carry one, 0 elsewhere; None without a critic.
        token_rewards_BT: The KL penalty, 0 without a reference or where the KL is part of the loss.
        ref_kl: Mean k1 estimate against the reference; None without one.
        ref_logprobs_BT: Log-probabilities under the reference; None without one.
    """

    old_logprobs_BT: Tensor
    values_BT: Tensor | None
    turn_end_values_BK: Tensor | None
    final_values_B: Tensor | None
    token_rewards_BT: Tensor
    ref_kl: float | None
    ref_logprobs_BT: Tensor | None = None

    def returns_B(self, batch: Batch) -> Tensor:
        """Returns what each row earned in all, turns and KL penalties together, float32[B]."""
        return batch.returns_B + self._penalties_BT(batch).sum(-1)

    def magnitudes_B(self, batch: Batch) -> Tensor:
        """Returns what that is the sum of, without its signs, float32[B]: what its rounding is measured by."""
        return batch.magnitudes_B + self._penalties_BT(batch).abs().sum(-1)

    def _penalties_BT(self, batch: Batch) -> Tensor:
        return self.token_rewards_BT * (batch.usable_turn_index_BT >= 0)


@dataclass(frozen=True, kw_only=True)
class Credit:
    """What a batch teaches. All float32 on the CPU, 0 at what is not learnt from.

    Attributes:
        advantages_BT: Of each generated token.
        returns_BT: Targets of V before each generated token; None without a critic.
        turn_end_returns_BK: Targets of V at the ends of turns; None where V is not read there.
    """

    advantages_BT: Tensor
    returns_BT: Tensor | None = None
    turn_end_returns_BK: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Algorithm(ABC):
    """How a policy learns from what it played. A subclass is a frozen dataclass of the settings that it reads.

    A field `critic: CriticConfig` among them gives it a critic, whose values it reads.

    Class attributes:
        title: What a report calls it, as in "40 iterations of GRPO".
        sibling_setting: The flag among its settings without which no siblings are needed; None where there is none.
        needs_several_steps: Whether it would be another algorithm if the policy did not move within an iteration.
    """

    title: ClassVar[str] = "reinforcement learning"
    sibling_setting: ClassVar[str | None] = None
    needs_several_steps: ClassVar[bool] = False

    @property
    def critic_config(self) -> CriticConfig | None:
        """How its critic learns, its field `critic`; None for an algorithm without one."""
        critic = getattr(self, "critic", None)
        return critic if isinstance(critic, CriticConfig) else None

    @property
    def critic_trunk(self) -> Literal["own", "policy"]:
        """What its critic stands on; `"own"` without one."""
        return self.critic_config.trunk if self.critic_config is not None else "own"

    def with_critic(self, **changes: Any) -> Self:
        """Returns the algorithm with some of its critic's settings changed; as it is, without a critic."""
        if self.critic_config is None:
            return self
        return replace(self, **{"critic": replace(self.critic_config, **changes)})

    @property
    def critic_warmup_iterations(self) -> int:
        """First iterations in which only a critic learns."""
        return self.critic_config.warmup_iterations if self.critic_config is not None else 0

    @property
    def min_group_size(self) -> int:
        """The fewest siblings a start state is played with."""
        return 1

    @property
    def max_sampling_rounds(self) -> int:
        """How often an iteration's number of groups is played at most, until as many are useful; a field may say so."""
        return 1

    @property
    def update_settings(self) -> Mapping[str, Any]:
        """What it decides of the update itself: values in place of those settings of `ppo`, which are refused then."""
        return {}

    @property
    def needs_final_observations(self) -> bool:
        """Whether V is read after the final observation of truncated episodes."""
        return False

    @property
    def learns_observations(self) -> bool:
        """Whether tokens are learnt from that no sampler drew, and so has no log-probability of."""
        return False

    def useful_rows(self, batch: Batch) -> Tensor:
        """Returns the rows of groups that something can be learnt from, bool[B]: all, if not overridden.

        Where `max_sampling_rounds` is above 1, further groups are played in place of the others.

        Args:
            batch: Rows as they were played; no group is without one of its rows.
        """
        return batch.trainable_B.new_ones(batch.num_rows)

    def keep(self, batch: Batch) -> Batch:
        """Returns what of an iteration's rows is learnt from: all that was generated, if not overridden.

        Args:
            batch: The rows as they were played.
        """
        return batch

    @abstractmethod
    def credit(self, batch: Batch, outputs: ModelOutputs) -> Credit:
        """Returns advantages and critic targets.

        What a masked turn earned counts for the turns before it as ever; a row with an infinite or NaN reward is left
        out whole.

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
        """Returns the loss of some rows, with the gradient of `logprobs_BT`, and means to log.

        PPO's clipped surrogate unless overridden, see `training.algorithms.losses.policy_loss`.

        Args:
            logprobs_BT: float `(B, T)`, log-probabilities under the policy; carries the gradient.
            old_logprobs_BT: float `(B, T)`, what the ratio is taken against.
            advantages_BT: float `(B, T)`.
            mask_BT: bool `(B, T)`, true at tokens that are learnt from.
            clip_low: How far the ratio may fall below 1.
            clip_high: How far it may rise above 1.
            aggregation: How token losses are averaged.
            normalizer: What the sum is divided by.
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
