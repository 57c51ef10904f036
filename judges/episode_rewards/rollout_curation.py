"""Which rollouts of which samples are good enough to imitate, by any reward of whole episodes.

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
"""Answers of the base model that decide whether a sample is trivial; ARM-Thinker, section 3.2."""

RolloutT = TypeVar("RolloutT")


@dataclass(frozen=True, kw_only=True, slots=True)
class Curated(Generic[RolloutT]):
    """What curation kept.

    Attributes:
        kept: The best rollout of each sample kept, by sample id.
        rewards: The reward of each of these.
        samples: Ids of the samples looked at.
        num_rollouts: Rollouts looked at, those without a score included.
        num_good_rollouts: Rollouts that reach the threshold.
    """

    kept: Mapping[str, RolloutT] = field(default_factory=dict)
    rewards: Mapping[str, float] = field(default_factory=dict)
    samples: tuple[str, ...] = ()
    num_rollouts: int = 0
    num_good_rollouts: int = 0

    @property
    def num_samples(self) -> int:
        """Samples looked at."""
        return len(self.samples)

    @property
    def sample_yield(self) -> float:
        """Samples kept over samples looked at; NaN without any."""
        return len(self.kept) / self.num_samples if self.num_samples else math.nan

    @property
    def rollout_yield(self) -> float:
        """Good rollouts over rollouts looked at; NaN without any. The paper's was about 3.1 %."""
        return self.num_good_rollouts / self.num_rollouts if self.num_rollouts else math.nan


def curate(samples: Mapping[str, Sequence[tuple[RolloutT, Reward]]], threshold: float = 0.7) -> Curated[RolloutT]:
    """Returns the samples whose best rollout is good enough to imitate, each with that rollout.

    The gate sees to it that a kept rollout answers right: below it the reward is the accuracy itself.

    Args:
        samples: An expert's rollouts with their rewards, by sample id. Rollouts without a reward are passed over.
        threshold: Least reward of the best rollout.

    Source: Argos, section 4 and appendix C: 0.7. Choice: of equals the first.
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
    """Returns whether the base model got a sample right every time, so that it is dropped.

    Args:
        num_right: Right answers.
        num_samples: Answers drawn.

    Raises:
        ConfigError: More right answers than answers, or fewer than none.

    Source: ARM-Thinker, section 3.2: 100 % of five.
    """
    require_positive("num_samples", num_samples)
    if not 0 <= num_right <= num_samples:
        raise ConfigError(f"num_right must be from 0 to {num_samples}; got {num_right}.")
    return num_right == num_samples
