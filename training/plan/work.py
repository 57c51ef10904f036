"""How much a run computes: tokens, pictures and operations of an iteration, and how fast they have to be."""

from __future__ import annotations

from dataclasses import dataclass

from training.config.run import RunConfig
from training.plan.config import PlanConfig
from training.plan.rows import RowShape
from training.plan.shapes import ModelShape

FORWARD, BACKWARD = 2, 4
"""Operations per weight and token, multiplications and additions (Kaplan et al. 2020, table 1)."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What an iteration takes at most, on all GPUs together.

    Attributes:
        num_episodes: Episodes learnt from.
        sampled_tokens: Tokens drawn, where every response is as long as it may be.
        trained_tokens: Tokens of rows that go through the policy with a backward pass, prompts included.
        num_images: Pictures shown.
        training_flops: Operations of the update, and of the passes before it.
        training_s: Seconds they take at the utilization that is expected; an estimate.
        iteration_s: Seconds an iteration may take.
        needed_tokens_per_s: Sampled tokens a second that are needed then; None where the update alone takes longer.
    """

    num_episodes: int
    sampled_tokens: int
    trained_tokens: int
    num_images: int
    training_flops: float
    training_s: float
    iteration_s: float
    needed_tokens_per_s: float | None


def work_of(config: RunConfig, plan: PlanConfig, row: RowShape, policy: ModelShape, critic: ModelShape | None) -> Work:
    """Returns what an iteration of a run takes."""
    num_episodes = config.num_groups * config.group_size
    num_played = num_episodes * config.algorithm.max_sampling_rounds
    sampled = num_played * row.num_turns * row.num_response_tokens
    flops = num_episodes * _update_flops(config, row, policy, has_critic=critic is not None)
    training_s = flops / (plan.num_gpus * plan.gpu_tflops * 1e12 * plan.utilization)
    iteration_s = plan.hours * 3600 / max(1, config.num_iterations)
    left_s = iteration_s - training_s
    return Work(
        num_episodes=num_episodes,
        sampled_tokens=sampled,
        trained_tokens=num_episodes * row.num_tokens * config.ppo.num_epochs,
        num_images=num_played * row.num_images,
        training_flops=flops,
        training_s=training_s,
        iteration_s=iteration_s,
        needed_tokens_per_s=sampled / left_s if left_s > 0 else None,
    )


def _update_flops(config: RunConfig, row: RowShape, policy: ModelShape, *, has_critic: bool) -> float:
    """Returns the operations of one row in the passes before the update and in the update."""
    one_pass = _forward_flops(row, policy)
    ppo, critic = config.ppo, config.algorithm.critic_config
    num_before = (ppo.old_logprobs == "trainer") + config.has_reference + has_critic
    num_trained = ppo.num_epochs + (critic.num_epochs if critic is not None else 0)
    trained = FORWARD + BACKWARD + FORWARD * config.memory.gradient_checkpointing
    return one_pass * (num_before + num_trained * trained / FORWARD)


def _forward_flops(row: RowShape, model: ModelShape) -> float:
    """Returns the operations of one row's forward pass: every token through the language model, responses to the head.

    What attention takes between tokens is left out, as is usual below some ten thousand tokens.
    """
    num_head = model.num_head or model.num_embeddings
    language = row.num_tokens * model.num_language + row.num_turns * row.num_response_tokens * num_head
    return float(FORWARD * (language + row.num_patches * model.num_vision))
