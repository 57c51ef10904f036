"""Short episodes for tests of agents and training."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from agents.agent import Agent
from agents.rollout import rollout
from vlm_envs import make
from vlm_envs.trajectory import Trajectory
from vlm_envs.vector.vector_world import VectorWorld

LAKE = "VLM/FrozenLake-v0"
SHORT = {"prompt_format": "no_think", "representation": "structured", "prompt_example": False}


def play(
    agent: Agent, seeds: Sequence[int] = range(4), *, env_id: str = LAKE, max_turns: Sequence[int] = (2,), **kwargs: Any
) -> list[Trajectory]:
    """Returns one episode per seed; world i may take `max_turns[i % len(max_turns)]` turns."""
    easy = {"max_solution_length": 9} if env_id == LAKE else {}
    makers = [
        partial(make, env_id, **{**SHORT, **easy, **kwargs}, max_turns=max_turns[i % len(max_turns)])
        for i in range(len(seeds))
    ]
    with VectorWorld(makers) as worlds:
        return rollout(agent, worlds, list(seeds), env_ids=[env_id] * len(seeds))
