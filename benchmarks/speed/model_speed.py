"""Rollout speed of the shipped tiny model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import torch

from agents.hf.hf_agent import load_checkpoint
from agents.registry import make_agent
from agents.rollout import rollout
from benchmarks.speed.speed_benchmarks import Row, median_times_s
from training.checkpoints.checkpoint_files import model_directory
from training.loop.rollout_agents import AGENTS
from training.recipes.tiny import frozenlake_tiny
from vlm_envs import make
from vlm_envs.splits import split_seeds
from vlm_envs.vector.vector_world import VectorWorld

DELAYS_MS = (0, 50)
"""Delays that are added to a world's response time."""


def rollout_turns_per_s(*, quick: bool) -> list[Row]:
    """Measures rollouts of the shipped tiny model, in groups of four, in worlds that answer immediately or after 50 ms.

    Slow worlds run in separate threads, like remote ones. The peer is the synchronous rollout on the same levels; as
    each side samples independently, its rate is based on its own turns.
    """
    num_groups, num_repeats = (2, 1) if quick else (32, 5)
    config = frozenlake_tiny()
    assert config.model is not None, "the recipe starts from what it ships"
    spec = config.worlds[0]
    seeds = [seed for seed in split_seeds("train", num_groups) for _ in range(config.group_size)]
    rows = []
    for delay_ms in DELAYS_MS:
        makers = [partial(_late, delay_ms / 1000, spec.env_id, dict(spec.kwargs))] * len(seeds)
        workers: dict[str, Any] = {"workers": "thread", "num_workers": len(seeds)} if delay_ms else {}
        num_turns: dict[str, list[int]] = {"async": [], "barrier": []}
        with VectorWorld(makers, **workers) as worlds:
            plays = []
            for kind, counts in num_turns.items():
                model, encoder = load_checkpoint(model_directory(config.model), dtype=torch.float32)
                name = AGENTS["transformers", kind]
                agent = make_agent(name, model=model, encoder=encoder, sampling=config.sampling)

                def play(agent: Any = agent, counts: list[int] = counts) -> None:
                    episodes = rollout(agent, worlds, seeds, env_ids=[spec.env_id] * len(seeds))
                    counts.append(sum(len(episode.turns) for episode in episodes))

                plays.append(play)
            times_s = median_times_s(plays, num_repeats)
        ours, in_step = (
            sum(counts) / len(counts) / time_s for counts, time_s in zip(num_turns.values(), times_s, strict=True)
        )
        title = f"{len(seeds)} episodes, worlds that answer in {delay_ms} ms"
        rows.append(Row(title, ours, "turns/s", "in step", in_step))
    return rows


def _late(delay_s: float, env_id: str, kwargs: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Returns a world with an artificial delay."""
    world = make(env_id, split="train", **kwargs)
    step = world.unwrapped.step

    def late(action: str) -> Any:
        time.sleep(delay_s)
        return step(action)

    if delay_s:
        world.unwrapped.step = late  # type: ignore[method-assign]
    return world
