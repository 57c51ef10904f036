"""Batches and configurations for tests of the trainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from agents.hf.hf_agent import HFAgent
from agents.hf.sampling_config import SamplingConfig
from tests.unit.episodes import LAKE, SHORT, play
from tests.unit.models import with_ending
from training.algorithms.algorithm import Algorithm, CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.gae import GAE
from training.algorithms.shipped import SHIPPED
from training.batch import Batch, make_batch
from training.config.judge_config import JudgeConfig
from training.config.run_config import RunConfig
from training.config.update_config import PPOConfig
from training.config.world_spec import WorldSpec

NO_JUDGE = JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0)
WORLD = WorldSpec(env_id=LAKE, kwargs={**SHORT, "max_turns": 2})


def run_config(**changes: Any) -> RunConfig:
    """Returns a run of one world without judges; nested parts are replaced as a whole."""
    fields: dict[str, Any] = {
        "name": "test",
        "worlds": (WORLD,),
        "num_groups": 2,
        "group_size": 2,
        "judge": NO_JUDGE,
        "sampling": SamplingConfig(max_new_tokens=6),
        "algorithm": BilevelGAE(critic=CriticConfig(learning_rate=1e-3)),
        "ppo": PPOConfig(num_minibatches=1, warmup_iterations=0, learning_rate=1e-3),
    }
    return RunConfig(**{**fields, **changes})


def played_batch(
    model: Any, encoder: Any, *, num_rows: int = 8, max_turns: Sequence[int] = (2, 3), **kwargs: Any
) -> Batch:
    """Returns a batch of sampled episodes of many lengths, with pictures; rewards are as written out here."""
    agent = HFAgent(
        model=with_ending(model, encoder), encoder=encoder, sampling=SamplingConfig(max_new_tokens=6), seed=1
    )
    trajectories = play(agent, range(num_rows), max_turns=max_turns, **kwargs)
    rewards = [[row + 0.5 * turn for turn in range(len(t.turns))] for row, t in enumerate(trajectories)]
    groups = [row // 2 for row in range(num_rows)]
    return make_batch(trajectories, rewards, encoder, group_index=groups, final_observations=True)


def text_batch(turn_index: Sequence[Sequence[int]], turn_rewards: Sequence[Sequence[float]], **changes: Any) -> Batch:
    """Returns a batch without pictures from the turn of each token."""
    turn_index_BT = torch.tensor(turn_index)
    num_rows = len(turn_index)
    fields: dict[str, Any] = {
        "input_ids_BT": torch.zeros_like(turn_index_BT),
        "attention_mask_BT": torch.ones_like(turn_index_BT),
        "turn_index_BT": turn_index_BT,
        "sampler_logprobs_BT": torch.zeros(turn_index_BT.shape),
        "turn_rewards_BK": torch.tensor(turn_rewards),
        "trainable_BK": torch.ones(num_rows, len(turn_rewards[0]), dtype=torch.bool),
        "state_index_BK": torch.full((num_rows, len(turn_rewards[0])), -1),
        "terminated_B": torch.ones(num_rows, dtype=torch.bool),
        "has_final_B": torch.zeros(num_rows, dtype=torch.bool),
        "group_index_B": torch.zeros(num_rows, dtype=torch.long),
        "trainable_B": torch.ones(num_rows, dtype=torch.bool),
        "images": (),
        "row_image_offsets": (0,) * (num_rows + 1),
        "image_token_id": 9,
        "suppressed_ids": (),
        "max_response_tokens": 8,
    }
    return Batch(**{**fields, **changes})


def algorithm(name: str = "bilevel_gae", **settings: Any) -> Algorithm:
    """Returns a shipped algorithm that does not whiten unless it is told to."""
    kind = SHIPPED[name]
    return kind(**(({"whiten": False} if issubclass(kind, GAE) else {}) | settings))
