"""Settings of the update: PPO, AdamW, LoRA, memory, and supervised steps."""

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
"""Betas of presets with a paper's constants, the default of verl, Easy-R1, TRL, and transformers' `Trainer`."""


@dataclass(frozen=True, kw_only=True)
class AdamWConfig:
    """AdamW; training configurations inherit these fields.

    Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2.

    Attributes:
        betas: Decay rates of AdamW's running means of gradients and squared gradients. The second averages over about
            `1 / (1 - beta)` steps: 20 by default, 1,000 at 0.999, the default of torch, verl, and TRL.
        eps: Added to the root of the mean square in the denominator of a step.
        weight_decay: A step shrinks weights by this times the learning rate.
        decay_exempt: Weights without decay: `norms` (layers whose class name contains "norm"), `biases`,
            `embeddings` (including a tied output layer). None by default, as in verl.
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
        """Only these fields."""
        return AdamWConfig(**{field.name: getattr(self, field.name) for field in fields(AdamWConfig)})


@dataclass(frozen=True, kw_only=True)
class PPOConfig(AdamWConfig):
    """Settings of the update. AdamW's settings apply to the policy and the critic.

    Attributes:
        learning_rate: Learning rate of the policy (AdamW).
        warmup_iterations: Iterations over which the policy's rate rises linearly to its peak, once it is trained.
            AdamW's first steps have full size in the direction of the sign of the first gradients, while advantages
            are noisiest. Ten are used in verl's recipe of DAPO; verl's own default is 0.
        final_learning_rate_ratio: Final learning rates as a share of their peaks, reached linearly over the run.
        target_kl: Target for how far an iteration moves the policy, in nats per token (`approx_kl`): the rate is raised
            after iterations below half of it and lowered after iterations above twice of it; see
            `training.update.learner`. None keeps the schedule.
        num_epochs: The policy's passes over an iteration's batch.
        num_minibatches: Optimizer steps per pass.
        micro_batch_size: Rows per forward pass; gradients accumulate, so results do not depend on it.
        micro_batch_tokens: Tokens per forward pass, including padding, instead of a number of rows, as memory depends
            on tokens. Without prefix sharing, at most a tenth is padding. A longer row goes alone.
        num_micro_batches_at_once: Maximum number of concurrent micro-batches on a CPU, each with its share of torch's
            threads and its own memory: with a small model, two threads process more this way. It is 1 on GPUs, in
            several processes, and if torch has one thread.
        clip_low: Ratio clip below 1.
        clip_high: Ratio clip above 1.
        entropy_coef: Weight of the entropy bonus.
        kl_coef: Weight of the KL penalty against the frozen reference; 0 omits the reference altogether.
        kl_placement: Placement of the penalty: in the `"reward"` of each token (VAGEN), or in the `"loss"`, with its
            own gradient (GRPO; Argos, equation 11).
        kl_estimator: Estimator of the penalty from a sampled token; see `kl_penalty` in
            `training.algorithms.losses`. None is k1 in the reward and k3 in the loss. k1 in the loss has
            expected gradient 0 and is an error.
        aggregation: How token losses are averaged over an optimizer step: per token, per row, or by the constant
            rows x `max_new_tokens` (Dr.GRPO).
        old_logprobs: Denominator of the ratio: `"trainer"` evaluates the policy again before the update and logs the
            gap to the sampler; `"sampler"` saves that pass by using the log-probabilities of sampling, which are
            exact if one engine does both.
        importance_cap: Cap of truncated importance sampling for the sampler-trainer gap; None turns it off.
        max_grad_norm: Gradient norm for clipping.
        max_nonfinite_steps: Consecutive steps with infinite or NaN gradients, counted per model, after which the run
            ends. None of these steps is applied.
        max_exploding_steps: Consecutive steps with gradients more than 100 times their previous median, counted per
            model, after which the run ends. None only reports them, as they are clipped.
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
            f"--ppo.target-kl {self.target_kl} has nothing to measure. Take more steps per iteration.",
        )
        require(
            self.kl_placement == "reward" or self.kl_formula != "k1",
            "--ppo.kl-placement loss with --ppo.kl-estimator k1 has expected gradient 0: the mean of the score over "
            "the policy's own samples. Use --ppo.kl-estimator k3 (GRPO's) or k2, or --ppo.kl-placement reward.",
        )

    @property
    def takes_one_step(self) -> bool:
        """Whether an iteration has a single step, which starts at ratio 1."""
        return self.old_logprobs == "trainer" and self.num_epochs * self.num_minibatches == 1

    @property
    def kl_formula(self) -> KlEstimator:
        """The estimator of the KL penalty, with the default resolved."""
        return self.kl_estimator or ("k1" if self.kl_placement == "reward" else "k3")


def decided_update(algorithm: Algorithm, ppo: PPOConfig) -> PPOConfig:
    """Returns the update's settings with those that the algorithm overrides applied."""
    return unchecked(ppo, **algorithm.update_settings)


def update_contradictions(algorithm: Algorithm, ppo: PPOConfig) -> Iterator[str]:
    """Yields messages about contradictions between an algorithm and the update."""
    name = f"--algorithm {name_of(algorithm)}"
    if algorithm.max_sampling_rounds > 1 and type(algorithm).useful_rows is Algorithm.useful_rows:
        yield (
            f"{name} plays up to {algorithm.max_sampling_rounds} rounds for useful groups, but considers all of them "
            "useful: override its useful_rows, or set its max_sampling_rounds to 1."
        )
    if algorithm.needs_several_steps and decided_update(algorithm, ppo).takes_one_step:
        yield (
            f"{name} changes how ratios are computed, but with --ppo.num-epochs 1 and --ppo.num-minibatches 1 the "
            "ratio of the only step is 1. Take more steps per iteration."
        )


def require_rows_that_fit(
    *, num_groups: int, group_size: int, num_minibatches: int, critic_num_minibatches: int
) -> None:
    """Raises if an iteration's rows cannot be divided into the minibatches.

    The policy's minibatches must have equal sizes, as its learning rate depends on them; the critic's may differ by one
    row but must not be empty. Without a critic, the number is 1, which always fits.

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
    """Memory settings of the update.

    Attributes:
        gradient_checkpointing: Keep only the inputs of each layer and recompute the rest in the backward pass: far less
            memory for a third more work. Applies to policy and critic, in the update only.
        freeze_vision_tower: Exclude the vision tower and its projector from training. Each image is then encoded once
            per batch, and policy, reference, and critic share the tower and its features. Same as verl's setting of
            this name.
        attention: Attention implementation of transformers; None leaves the choice to it. `"flash_attention_2"` needs
            the package flash-attn, a GPU, and `--dtype bfloat16`.
        packing: Whether the rows of a micro-batch are packed into a single one without padding, with attention only
            within rows; not for families with bidirectional attention on images (Gemma 3). `"auto"` packs with flash
            attention, which skips masked blocks; other implementations also compute these and are slower when packed.
        prefix_sharing: Whether shared prefixes of a micro-batch's rows, including images, are computed once and padding
            not at all: a group shares its prompt and the common parts of its responses. `"auto"` does so with torch's
            own attention (`sdpa`) without sliding windows, unless packing is requested.
        offload_reference: Keep the reference in the host's memory except while it is evaluated.
        offload_optimizer: Keep the optimizers' moments and float32 masters there except while their model is updated.
    """

    gradient_checkpointing: bool = False
    freeze_vision_tower: bool = False
    attention: Literal["eager", "sdpa", "flash_attention_2"] | None = None
    packing: Literal["auto", "on", "off"] = "auto"
    prefix_sharing: Literal["auto", "on", "off"] = "auto"
    offload_reference: bool = False
    offload_optimizer: bool = False


LARGE_MODEL: dict[str, Any] = {"memory": MemoryConfig(gradient_checkpointing=True), "dtype": "bfloat16"}
"""Settings for models with billions of weights."""


@dataclass(frozen=True, kw_only=True)
class LoRAConfig:
    """LoRA adapters (peft) in the language model of policy and critic; other weights are frozen and shared.

    The reference is the policy with its adapters off. `latest/model` has them merged into its weights.

    Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021), section 4.1.

    Attributes:
        rank: Rank of each weight's change; None trains the weights themselves. A learning rate about ten times as high
            as without adapters is usual.
        alpha: The change is scaled by `alpha / rank`.
        target_modules: Linear layers with adapters, by the last part of their names (`q_proj v_proj`); empty for
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
    """Settings of the optimizer steps of supervised learning.

    Attributes:
        num_steps: Total optimizer steps.
        learning_rate: Peak of a cosine schedule with warm-up.
        warmup_steps: Steps of linear warm-up.
        restart_at: Step, from 0, at which the data change and the schedule starts; before it, the rate stays at
            its peak after a separate warm-up.
        final_learning_rate_ratio: Final rate as a share of its peak.
        adamw: AdamW's settings.
        max_grad_norm: Gradient norm for clipping.
        max_nonfinite_steps: Consecutive steps with infinite or NaN gradients after which the training ends.
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
        """Returns the learning rate of a step, from 0: a linear warm-up, then a cosine, which starts at the restart."""
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
        """Returns whether a checkpoint is due after `num_done` steps, which includes the last one."""
        return self.checkpoint_every > 0 and (num_done % self.checkpoint_every == 0 or num_done == self.num_steps)
