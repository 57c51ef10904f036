"""Settings of the update: PPO, AdamW, LoRA, memory, and the steps of supervised learning."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from training.algorithms.algorithm import Algorithm
from training.algorithms.shipped import name_of
from training.config.saved_config import unchecked
from vlm_envs.validation import field_name, require, require_above, require_at_least, require_between, require_choice

if TYPE_CHECKING:
    from training.algorithms.losses import KlEstimator

ExemptWeights = Literal["norms", "biases", "embeddings"]


PAPER_BETAS = (0.9, 0.999)
"""Betas of the presets with a paper's constants: the default of verl, Easy-R1, TRL, and transformers' `Trainer`."""


@dataclass(frozen=True, kw_only=True)
class AdamWConfig:
    """AdamW; a configuration of training inherits these fields.

    Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2.

    Attributes:
        betas: Decay rates per step of AdamW's means of gradients and of their squares. The second averages over about
            `1 / (1 - beta)` steps: 20 by default, 1,000 at 0.999, the default of torch, verl, and TRL.
        eps: Added to the root of the mean square, which steps are divided by.
        weight_decay: AdamW's weight decay: a step shrinks weights by this times the learning rate.
        decay_exempt: Weights that do not decay: `norms` (layers whose class name contains "norm"), `biases`,
            `embeddings` (also of the output layer, where the two are tied). None by default, as in verl.
    """

    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decay_exempt: tuple[ExemptWeights, ...] = ()

    def __post_init__(self) -> None:
        are_two = isinstance(self.betas, tuple) and len(self.betas) == 2
        require(
            are_two and all(0 <= beta < 1 for beta in self.betas),
            f"{field_name(self, 'betas')} must be two numbers from 0 to below 1, such as (0.9, 0.95); got "
            f"{self.betas}.",
        )
        require_above(self, 0, "eps")
        require_at_least(self, 0, "weight_decay")
        exempt = field_name(self, "decay_exempt")
        for kind in self.decay_exempt:
            require_choice(exempt, kind, get_args(ExemptWeights))
            require(self.decay_exempt.count(kind) == 1, f"{exempt} names {kind!r} twice. Name it once.")

    @property
    def adamw(self) -> AdamWConfig:
        """These fields alone."""
        return AdamWConfig(**{field.name: getattr(self, field.name) for field in fields(AdamWConfig)})


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
            `training.update.learner`. None leaves the rate to its schedule.
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
            `training.algorithms.losses`. None is k1 in the reward and k3 in the loss. k1 in the loss has
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


def decided_update(algorithm: Algorithm, ppo: PPOConfig) -> PPOConfig:
    """Returns the update's settings with those in place that the algorithm decides itself."""
    return unchecked(ppo, **algorithm.update_settings)


def update_contradictions(algorithm: Algorithm, ppo: PPOConfig) -> Iterator[str]:
    """Yields how an algorithm and the update contradict each other."""
    name = f"--algorithm {name_of(algorithm)}"
    if algorithm.max_sampling_rounds > 1 and type(algorithm).useful_rows is Algorithm.useful_rows:
        yield (
            f"{name} plays up to {algorithm.max_sampling_rounds} rounds for useful groups, and to it all are: write "
            "its useful_rows, or set its max_sampling_rounds to 1."
        )
    if algorithm.needs_several_steps and decided_update(algorithm, ppo).takes_one_step:
        yield (
            f"{name} changes how ratios are taken, and with --ppo.num-epochs 1 and --ppo.num-minibatches 1 the ratio "
            "of the only step is 1. Take more steps per iteration."
        )


def require_rows_that_fit(
    *, num_groups: int, group_size: int, num_minibatches: int, critic_num_minibatches: int
) -> None:
    """Refuses numbers of minibatches that an iteration's rows cannot be divided into.

    The policy's are of one size, by which its learning rate goes; the critic's may differ by a row, but none is empty.
    Without a critic there is 1, which any rows fill.

    Raises:
        ConfigError: With the options involved.
    """
    rows = num_groups * group_size
    require(
        rows % num_minibatches == 0,
        f"The {rows} rows of an iteration, --num-groups {num_groups} times --group-size {group_size}, do not divide "
        f"evenly into --ppo.num-minibatches {num_minibatches}.",
    )
    require(
        critic_num_minibatches <= rows,
        f"The {rows} rows of an iteration, --num-groups {num_groups} times --group-size {group_size}, are fewer than "
        f"--algorithm.critic.num-minibatches {critic_num_minibatches}.",
    )


@dataclass(frozen=True, kw_only=True)
class MemoryConfig:
    """Memory of the update.

    Attributes:
        gradient_checkpointing: Keep of each layer only what goes into it, and compute the rest anew in the backward
            pass: far less memory for a third more work. Of policy and critic alike, in the update alone.
        freeze_vision_tower: Leave out of training what pictures go through before the language model, its projector
            too. Each picture is then shown to the tower once per batch, and policy, reference and critic share what it
            says, as they do the tower. As verl's setting of this name.
        attention: How transformers computes attention; None leaves the choice to it. `"flash_attention_2"` needs the
            package flash-attn, a GPU and `--dtype bfloat16`.
        packing: Whether the rows of a micro-batch go through a model as a single one without padding, none of which
            sees another; not of families whose pictures are seen in both directions (Gemma 3). `"auto"` does where
            flash attention computes only what each row sees; other kinds compute what no row may see, too, and are
            slower so.
        prefix_sharing: Whether what rows of a micro-batch begin with goes through a model once, pictures and all, and
            padding not at all: siblings share their prompt, and as much of their answers as they have in common.
            `"auto"` does where attention is torch's own (`sdpa`), without sliding windows, and no packing is asked for.
        offload_reference: Keep the reference in the host's memory, but while it says what it would have said.
        offload_optimizer: Keep the optimisers' moments and float32 masters there, but while their model is updated.
    """

    gradient_checkpointing: bool = False
    freeze_vision_tower: bool = False
    attention: Literal["eager", "sdpa", "flash_attention_2"] | None = None
    packing: Literal["auto", "on", "off"] = "auto"
    prefix_sharing: Literal["auto", "on", "off"] = "auto"
    offload_reference: bool = False
    offload_optimizer: bool = False


LARGE_MODEL: dict[str, Any] = {"memory": MemoryConfig(gradient_checkpointing=True), "dtype": "bfloat16"}
"""Settings of runs of models with billions of weights."""


@dataclass(frozen=True, kw_only=True)
class LoRAConfig:
    """LoRA adapters (peft) in the language model of policy and critic; all other weights are frozen, and held once.

    The reference is the policy with its adapters off. `latest/model` has them merged into its weights.

    Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021), section 4.1.

    Attributes:
        rank: Of each weight's change; None trains the weights themselves. A learning rate about ten times as high as
            without is usual.
        alpha: The change is scaled by `alpha / rank`.
        target_modules: Linear layers that get adapters, by the last part of their names (`q_proj v_proj`); empty for
            all of the language model.
    """

    rank: int | None = None
    alpha: float = 32.0
    target_modules: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_at_least(self, 1, "rank")
        require_above(self, 0, "alpha")


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
