"""Who acts in a run: an agent with the policy's weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.agent import LearningAgent
from agents.hf.chat import ChatEncoder
from agents.registry import make_learning_agent
from training.config.run import RunConfig

AGENTS = {"barrier": "hf", "async": "agents.hf.continuous_agent:ContinuousHFAgent"}
"""By the kind of rollout."""


def acting_agent(config: RunConfig, model: Any, encoder: ChatEncoder, *, seed: int, rank: int) -> LearningAgent:
    """Returns an agent that acts with a model, and in no process as in another.

    Args:
        config: The run.
        model: The policy, or another one.
        encoder: Its chat format.
        seed: The same in all processes.
        rank: Which process it is.
    """
    seed = seed if rank == 0 else int(np.random.default_rng([seed, rank]).integers(2**62))
    return make_learning_agent(
        AGENTS[config.rollout], model=model, encoder=encoder, sampling=config.sampling, seed=seed
    )
