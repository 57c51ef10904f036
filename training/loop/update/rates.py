"""Learning rates of an iteration: a schedule, and a policy that is to move about as far in each."""

from __future__ import annotations

from typing import Any

from training.config.run import RunConfig

_STEP = 1.5
_MAX_FACTOR = 10.0
"""Farthest that a rate gets from its schedule, either way."""


class LearningRates:
    """The rates of policy and critic, by iteration.

    With `ppo.target_kl` the policy's rate is multiplied by 1.5 after an iteration that moved the policy by less than
    half of that, and divided by 1.5 after one that moved it by more than twice; up to ten times its schedule, down to a
    tenth. Warm-up is not interfered with; against a rate that falls over the run the target wins, within these bounds.
    What counts is `approx_kl`, the mean over the iteration's optimiser steps, each as it began: the first adds what
    sampler and trainer differ by, and the last is not in it.

    Source: Schulman et al. 2017, "Proximal Policy Optimization Algorithms", section 4, adapts a penalty likewise, by
    other constants; rsl_rl the step size, with `schedule="adaptive"`.

    Args:
        config: The run.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._factor = 1.0

    def policy(self, iteration: int) -> float:
        """Returns the policy's rate in an iteration, counted from 0."""
        ppo = self._config.ppo
        return ppo.learning_rate * self._warmup(iteration) * self._decay(iteration) * self._factor

    def critic(self, iteration: int, peak: float) -> float:
        """Returns a critic's rate in an iteration, counted from 0."""
        return peak * self._decay(iteration)

    def moved(self, approx_kl: float | None, *, iteration: int) -> None:
        """Takes note of how far an iteration moved the policy; None, 0 or NaN says that it did not."""
        target = self._config.ppo.target_kl
        if target is None or self._warmup(iteration) < 1 or not approx_kl or not approx_kl > 0:
            return
        if approx_kl < target / 2:
            self._factor = min(self._factor * _STEP, _MAX_FACTOR)
        elif approx_kl > target * 2:
            self._factor = max(self._factor / _STEP, 1 / _MAX_FACTOR)

    def state_dict(self) -> dict[str, Any]:
        """Returns what a resumed run goes on with; the schedule is the iteration's alone."""
        return {"factor": self._factor}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from what `state_dict` returned."""
        self._factor = state["factor"] if self._config.ppo.target_kl is not None else 1.0

    def _warmup(self, iteration: int) -> float:
        ppo = self._config.ppo
        since = iteration - self._config.algorithm.critic_warmup_iterations
        return min(1.0, max(0, since + 1) / ppo.warmup_iterations) if ppo.warmup_iterations else 1.0

    def _decay(self, iteration: int) -> float:
        low = self._config.ppo.final_learning_rate_ratio
        left = 1.0 - iteration / max(1, self._config.num_iterations)
        return max(0.0, left) * (1.0 - low) + low
