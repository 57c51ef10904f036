"""How a critic learns; what an algorithm without one neither has nor shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vlm_envs.validation import field_name, require, require_above, require_at_least


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
        # A clip that was changed: a default cannot be told from the same value written out
        epochs, minibatches, clip = (field_name(self, each) for each in ("num_epochs", "num_minibatches", "value_clip"))
        require(
            self.num_epochs * self.num_minibatches > 1 or self.value_clip in (None, CriticConfig.value_clip),
            f"With {epochs} 1 and {minibatches} 1 no value has moved before the only step, so {clip} "
            f"{self.value_clip} never acts. Take more steps or use {clip} None.",
        )
