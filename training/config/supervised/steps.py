"""Steps of supervised learning: how many there are and how each is taken."""

from __future__ import annotations

import math
from dataclasses import dataclass

from training.config.update.adamw import AdamWConfig


@dataclass(frozen=True, kw_only=True)
class SupervisedSteps:
    """How the steps of maximum likelihood are taken, whatever is imitated.

    Attributes:
        num_steps: Optimiser steps in all.
        learning_rate: Peak of a cosine schedule with warm-up.
        warmup_steps: Steps of linear warm-up.
        restart_at: Step, from 0, at which something else is learnt and the schedule begins; before, the rate stays at
            its peak after a warm-up of its own.
        final_learning_rate_ratio: What the rate falls to, as a share of its peak.
        adamw: AdamW's settings.
        max_grad_norm: Gradient norm that is clipped to.
        max_nonfinite_steps: Steps in a row whose gradients may be infinite or NaN, the last of which ends the training.
        checkpoint_every: Steps between checkpoints; 0 for none.
    """

    num_steps: int
    learning_rate: float
    warmup_steps: int
    final_learning_rate_ratio: float
    adamw: AdamWConfig
    max_grad_norm: float
    max_nonfinite_steps: int
    checkpoint_every: int
    restart_at: int = 0

    def learning_rate_at(self, step: int) -> float:
        """Returns the learning rate of a step, from 0: a linear warm-up, then a cosine, which waits for the restart."""
        is_before, num_steps = step < self.restart_at, self.num_steps - self.restart_at
        step = step if is_before else step - self.restart_at
        if step < self.warmup_steps:
            return self.learning_rate * ((step + 1) / self.warmup_steps)
        if is_before:
            return self.learning_rate
        progress = (step - self.warmup_steps) / max(1, num_steps - self.warmup_steps)
        low = self.final_learning_rate_ratio
        return self.learning_rate * (low + (1.0 - low) / 2 * (1.0 + math.cos(math.pi * progress)))

    def is_checkpoint_due(self, num_done: int) -> bool:
        """Returns whether a checkpoint is written after so many steps, as after the last one."""
        return self.checkpoint_every > 0 and (num_done % self.checkpoint_every == 0 or num_done == self.num_steps)
