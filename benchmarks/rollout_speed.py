"""How much is won where no episode waits for another: rollouts of the same weights, in step and not."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from agents.agent import Agent
from agents.hf.hf_agent import load_checkpoint
from agents.registry import make_agent
from agents.rollout import rollout
from benchmarks.measure import Row, median_times_s
from training.checkpoints.checkpoint_files import model_directory
from training.config.run_config import RunConfig
from training.loop.rollout_agents import AGENTS
from training.recipes.tiny import frozenlake_tiny
from vlm_envs import make
from vlm_envs.splits import split_seeds
from vlm_envs.vector.vector_world import VectorWorld

DELAYS_MS = (0, 50)
"""How long a world takes to answer, beside what it computes."""


def turns_per_s(*, quick: bool) -> list[Row]:
    """Measures rollouts of the shipped tiny model, groups of four in worlds that answer at once or after 50 ms.

    Slow worlds have a thread each, as if they were elsewhere. The peer is the rollout that is in step, on the same
    levels; each side draws on its own, and its own turns count.
    """
    num_groups, num_repeats = (2, 1) if quick else (32, 5)
    config = frozenlake_tiny()
    spec = config.worlds[0]
    seeds = [seed for seed in split_seeds("train", num_groups) for _ in range(config.group_size)]
    rows = []
    for delay_ms in DELAYS_MS:
        makers = [partial(_late, delay_ms / 1000, spec.env_id, dict(spec.kwargs))] * len(seeds)
        workers: dict[str, Any] = {"workers": "thread", "num_workers": len(seeds)} if delay_ms else {}
        with VectorWorld(makers, **workers) as worlds:
            in_step, waiting_for_none = (
                _Played(_agent(config, AGENTS["transformers", kind]), worlds, seeds) for kind in ("barrier", "async")
            )
            barrier_s, async_s = median_times_s([in_step, waiting_for_none], num_repeats)
        rows.append(
            Row(
                name=f"{len(seeds)} episodes, worlds that answer in {delay_ms} ms",
                median=waiting_for_none.num_turns / async_s,
                unit="turns/s",
                compared_with="in step",
                reference=in_step.num_turns / barrier_s,
            )
        )
    return rows


def _agent(config: RunConfig, name: str) -> Agent:
    """Returns an agent with the recipe's weights."""
    assert config.model is not None, "the recipe starts from what it ships"
    model, encoder = load_checkpoint(model_directory(config.model), dtype=torch.float32)
    return make_agent(name, model=model, encoder=encoder, sampling=config.sampling)


def _late(delay_s: float, env_id: str, kwargs: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Returns a world that answers late."""
    world = make(env_id, split="train", **kwargs)
    step = world.unwrapped.step

    def late(action: str) -> Any:
        time.sleep(delay_s)
        return step(action)

    if delay_s:
        world.unwrapped.step = late  # type: ignore[method-assign]
    return world


class _Played:
    """Rollouts of one agent."""

    def __init__(self, agent: Agent, worlds: VectorWorld, seeds: Sequence[int]) -> None:
        self._agent, self._worlds, self._seeds = agent, worlds, seeds
        self._num_turns: list[int] = []

    def __call__(self) -> None:
        episodes = rollout(self._agent, self._worlds, self._seeds, env_ids=["VLM/FrozenLake-v0"] * len(self._seeds))
        self._num_turns.append(sum(len(episode.turns) for episode in episodes))

    @property
    def num_turns(self) -> float:
        """Mean over the rollouts."""
        return float(np.mean(self._num_turns))
