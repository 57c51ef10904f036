"""Scored episodes as a batch that a run's settings can learn from."""

from __future__ import annotations

from collections.abc import Sequence

from agents.hf.chat import ChatEncoder
from training.batch import Batch, make_batch
from training.config.run import RunConfig
from training.rewards.score import ScoredTrajectory


def scored_batch(
    scored: Sequence[ScoredTrajectory], encoder: ChatEncoder, config: RunConfig, *, max_context_tokens: int
) -> Batch:
    """Returns whole groups, one behind another, as tensors; none is longer than the context they were played in."""
    return make_batch(
        [each.trajectory for each in scored],
        [each.turn_rewards for each in scored],
        encoder,
        group_index=[index // config.group_size for index in range(len(scored))],
        trainable=[each.trainable_turns for each in scored],
        final_observations=config.algorithm.needs_final_observations,
        max_response_tokens=config.sampling.max_new_tokens,
        max_context_tokens=max_context_tokens,
    )
