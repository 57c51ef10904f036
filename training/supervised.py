"""Cold start: supervised learning on oracle episodes, so that reinforcement learning has something to improve."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from agents.hf.chat import ChatEncoder
from training.batch import make_batch
from training.config import ColdStartConfig, WorldSpec
from training.demonstrations import demonstrations
from training.losses import aggregate, loss_normalizer
from training.policy import token_logprobs


def cold_start(
    model: Any,
    encoder: ChatEncoder,
    specs: tuple[WorldSpec, ...],
    config: ColdStartConfig,
    *,
    on_step: Callable[[int, dict[str, float]], None],
) -> None:
    """Trains a model in place to imitate the oracle.

    Args:
        model: The policy.
        encoder: Its chat format.
        specs: Worlds to learn.
        config: Steps, rates, the teacher's mistakes.
        on_step: Called after each step with its number and metrics.
    """
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=config.weight_decay
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate_factor(step, config))
    batches = demonstrations(
        specs,
        encoder,
        batch_size=config.batch_size,
        mistake_rate=config.mistake_rate,
        careless_rate=config.careless_rate,
    )
    model.train()
    for step in range(config.num_steps):
        trajectories = next(batches)
        if step < config.num_first_turn_steps:
            trajectories = [replace(trajectory, turns=trajectory.turns[:1]) for trajectory in trajectories]
        batch = make_batch(trajectories, [[0.0] * len(t.turns) for t in trajectories], encoder)
        mask_BT = batch.response_mask_BT
        logprobs_BT, _ = token_logprobs(model, batch, temperature=1.0, suppressed_ids=[])
        loss = aggregate(
            -logprobs_BT,
            mask_BT.to(logprobs_BT.device),
            aggregation="token_mean",
            normalizer=loss_normalizer(mask_BT, aggregation="token_mean"),
        )
        optimizer.zero_grad()
        loss.backward()
        grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
        optimizer.step()
        schedule.step()
        on_step(step, {"loss": float(loss.detach()), "grad_norm": float(grad_norm)})
    model.eval()


def learning_rate_factor(step: int, config: ColdStartConfig) -> float:
    """Returns linear warm-up followed by a cosine to a tenth of the peak."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, config.num_steps - config.warmup_steps)
    return 0.1 + 0.45 * (1.0 + math.cos(math.pi * progress))
