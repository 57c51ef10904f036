"""Selects samples and rollouts that are good enough to imitate, by any episode reward.

Source: Argos, section 4 and appendix C; ARM-Thinker, section 3.2, for samples that are always answered right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from judges.scores import Reward
from vlm_envs.errors import ConfigError
from vlm_envs.validation import require_positive

NUM_DIFFICULTY_SAMPLES = 5
"""Number of base-model answers that decide whether a sample is trivial; ARM-Thinker, section 3.2."""

RolloutT = TypeVar("RolloutT")


@dataclass(frozen=True, kw_only=True, slots=True)
class Curated(Generic[RolloutT]):
    """The result of curation.

    Attributes:
        kept: The best rollout of each kept sample, by sample id.
        rewards: The rewards of these rollouts, by sample id.
        samples: Ids of all samples considered.
        num_rollouts: Number of rollouts considered, including those without a score.
        num_good_rollouts: Number of rollouts that reach the threshold.
    """

    kept: Mapping[str, RolloutT] = field(default_factory=dict)
    rewards: Mapping[str, float] = field(default_factory=dict)
    samples: tuple[str, ...] = ()
    num_rollouts: int = 0
    num_good_rollouts: int = 0

    @property
    def num_samples(self) -> int:
        """Number of samples considered."""
        return len(self.samples)

    @property
    def sample_yield(self) -> float:
        """Share of samples that were kept; NaN without samples."""
        return len(self.kept) / self.num_samples if self.num_samples else math.nan

    @property
    def rollout_yield(self) -> float:
        """Share of good rollouts; NaN without rollouts. The paper's was about 3.1 %."""
        return self.num_good_rollouts / self.num_rollouts if self.num_rollouts else math.nan


def curate(samples: Mapping[str, Sequence[tuple[RolloutT, Reward]]], threshold: float = 0.7) -> Curated[RolloutT]:
    """Returns the samples whose best rollout is good enough to imitate, each with that rollout.

    Argos's gate ensures that a kept rollout answers right, because below the gate the reward is the accuracy itself.

    Args:
        samples: An expert's rollouts with their rewards, by sample id. Rollouts without a reward are skipped.
        threshold: Minimum reward of the best rollout.

    Source: Argos, section 4 and appendix C: 0.7. Choice: the first wins a tie.
    """
    kept: dict[str, RolloutT] = {}
    rewards: dict[str, float] = {}
    good = 0
    for sample_id, rollouts in samples.items():
        scored = [(reward.total, rollout) for rollout, reward in rollouts if reward.available]
        good += sum(total >= threshold for total, _ in scored)
        total, best = max(scored, key=lambda pair: pair[0], default=(-math.inf, None))
        if best is not None and total >= threshold:
            kept[sample_id], rewards[sample_id] = best, total
    return Curated(
        kept=kept,
        rewards=rewards,
        samples=tuple(samples),
        num_rollouts=sum(map(len, samples.values())),
        num_good_rollouts=good,
    )


def is_trivial(num_right: int, num_samples: int = NUM_DIFFICULTY_SAMPLES) -> bool:
    """Returns whether the base model answered a sample right every time, so that curation drops it.

    Args:
        num_right: Number of right answers.
        num_samples: Number of answers drawn.

    Raises:
        ConfigError: `num_right` is negative or exceeds `num_samples`.

    Source: ARM-Thinker, section 3.2: 100 % of five.
    """
    require_positive("num_samples", num_samples)
    if not 0 <= num_right <= num_samples:
        raise ConfigError(f"num_right must be from 0 to {num_samples}; got {num_right}.")
    return num_right == num_samples
