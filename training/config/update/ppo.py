"""The update: optimiser steps, clips, penalties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from training.config.update.adamw import AdamWConfig
from vlm_envs.validation import require, require_above, require_at_least, require_between

if TYPE_CHECKING:
    from training.algorithms.functional.losses import (
        KlEstimator,  # torch, which an error in the options must not wait for
    )


@dataclass(frozen=True, kw_only=True)
class PPOConfig(AdamWConfig):
    """The update. AdamW's settings are those of the policy and of a critic.

    Attributes:
        learning_rate: Of the policy (AdamW).
        warmup_iterations: Iterations in which the policy's rate rises linearly to its peak, once it learns. AdamW's
            first steps go by the sign of the first gradients, at the full rate, while advantages are at their noisiest.
            Ten are what verl's recipe of DAPO takes; verl's own default is none.
        final_learning_rate_ratio: What learning rates fall to, linearly over the run, as a share of their peaks.
        target_kl: How far an iteration is to move the policy, in nats a token (`approx_kl`): its rate is raised after
            one that moved it by less than half of that and lowered after one that moved it by more than twice, see
            `training.loop.update.rates`. None leaves the rate to its schedule.
        num_epochs: The policy's passes over an iteration's batch.
        num_minibatches: Its optimiser steps per pass.
        micro_batch_size: Rows per forward pass; gradients accumulate, results do not depend on it.
        micro_batch_tokens: Tokens per forward pass, padding included, in place of a number of rows: the memory that a
            pass takes goes by them. Without prefix sharing no more than a tenth is padding. A longer row goes alone.
        num_micro_batches_at_once: Most micro-batches that go through a model at a time on a CPU, each on its share
            of torch's threads and in memory of its own: with a small model, two threads do more so. It is 1 on GPUs, in
            several processes, and where torch has one thread.
        clip_low: Ratio clip below 1.
        clip_high: Ratio clip above 1.
        entropy_coef: Weight of the entropy bonus.
        kl_coef: Weight of the KL penalty, against the frozen start policy; 0 leaves the reference out altogether.
        kl_placement: Where the penalty is: in the `"reward"` of each token (VAGEN), or in the `"loss"`, with a gradient
            of its own (GRPO; Argos, equation 11).
        kl_estimator: How it is estimated from a sampled token; see `kl_penalty` in
            `training.algorithms.functional.losses`. None is k1 in the reward and k3 in the loss. k1 in the loss has
            expected gradient 0 and is refused.
        aggregation: How token losses are averaged over an optimiser step: per token, per row, or by the constant
            rows x `max_new_tokens` (Dr.GRPO).
        old_logprobs: What the ratio is taken against: `"trainer"` evaluates the policy once more before the update,
            and the gap to the sampler is logged; `"sampler"` saves that pass by using the log-probabilities the
            tokens were drawn with, the exact ones wherever one engine does both.
        importance_cap: Cap of truncated importance sampling for the sampler-trainer gap; None turns it off.
        max_grad_norm: Gradient norm that is clipped to.
        max_nonfinite_steps: Steps in a row whose gradients may be infinite or NaN, each model's counted apart. None
            of them is taken; the last one ends the run.
        max_exploding_steps: Steps in a row whose gradients may be more than 100 times as large as their median before,
            each model's counted apart; the last one ends the run. None only tells of them, for they are clipped.
    """

    learning_rate: float = 1e-6
    warmup_iterations: int = 10
    final_learning_rate_ratio: float = 1.0
    target_kl: float | None = None
    num_epochs: int = 1
    num_minibatches: int = 4
    micro_batch_size: int = 32
    micro_batch_tokens: int | None = None
    num_micro_batches_at_once: int = 1
    clip_low: float = 0.2
    clip_high: float = 0.2
    entropy_coef: float = 0.0
    kl_coef: float = 0.001
    kl_placement: Literal["reward", "loss"] = "reward"
    kl_estimator: Literal["k1", "k2", "k3"] | None = None
    aggregation: Literal["token_mean", "sequence_mean", "constant"] = "token_mean"
    old_logprobs: Literal["trainer", "sampler"] = "trainer"
    importance_cap: float | None = None
    max_grad_norm: float = 1.0
    max_nonfinite_steps: int = 5
    max_exploding_steps: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_above(self, 0, "learning_rate", "max_grad_norm", "clip_high", "importance_cap", "target_kl")
        require_between(self, 0, 1, "final_learning_rate_ratio", includes=(False, True))
        require_between(self, 0, 1, "clip_low", includes=(False, False))
        require_at_least(self, 1, "num_epochs", "num_minibatches", "micro_batch_size", "max_nonfinite_steps")
        require_at_least(self, 1, "micro_batch_tokens", "num_micro_batches_at_once", "max_exploding_steps")
        require_at_least(self, 0, "warmup_iterations", "kl_coef", "entropy_coef")
        require(
            self.importance_cap is None or self.old_logprobs == "trainer",
            "--ppo.importance-cap corrects the gap between sampler and trainer, which --ppo.old-logprobs sampler sets "
            "to 0. Use --ppo.old-logprobs trainer or --ppo.importance-cap None.",
        )
        require(
            self.target_kl is None or self.num_epochs * self.num_minibatches > 1,
            "With --ppo.num-epochs 1 and --ppo.num-minibatches 1 approx_kl is measured before the only step, so "
            f"--ppo.target-kl {self.target_kl} has nothing to go by. Take more steps an iteration.",
        )
        self._refuse_clips_that_never_act()
        self._refuse_inert_kl()

    def _refuse_clips_that_never_act(self) -> None:
        """Refuses clips that were changed: a default cannot be told from the same value written out."""
        require(
            not self.takes_one_step or (self.clip_low, self.clip_high) == (PPOConfig.clip_low, PPOConfig.clip_high),
            "With --ppo.num-epochs 1 and --ppo.num-minibatches 1 the ratio of the only step is 1, so --ppo.clip-low "
            f"{self.clip_low} and --ppo.clip-high {self.clip_high} never act. Take more steps an iteration or leave "
            "the clip at its defaults.",
        )

    def _refuse_inert_kl(self) -> None:
        require(
            self.kl_coef > 0 or (self.kl_placement == PPOConfig.kl_placement and self.kl_estimator is None),
            f"--ppo.kl-placement {self.kl_placement} and --ppo.kl-estimator {self.kl_estimator} say how a KL penalty "
            "is taken, and --ppo.kl-coef is 0. Raise it, or leave the two alone.",
        )
        require(
            self.kl_placement == "reward" or self.kl_formula != "k1",
            "--ppo.kl-placement loss with --ppo.kl-estimator k1 has expected gradient 0: the mean of the score over "
            "the policy's own samples. Use --ppo.kl-estimator k3 (GRPO's) or k2, or --ppo.kl-placement reward.",
        )

    @property
    def takes_one_step(self) -> bool:
        """Whether an iteration's only step is taken from where the ratio is 1."""
        return self.old_logprobs == "trainer" and self.num_epochs * self.num_minibatches == 1

    @property
    def kl_formula(self) -> KlEstimator:
        """The estimator of the KL penalty, with the default resolved."""
        return self.kl_estimator or ("k1" if self.kl_placement == "reward" else "k3")
