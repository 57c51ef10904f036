"""Collect: groups of sibling episodes on training levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.agent import Agent
from agents.rollout import rollout
from training.config import RunConfig, WorldSpec
from training.demonstrations import shares
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import TrajectoryGroup
from vlm_envs.vector import VectorWorld

_FIRST_SEED = 100_000_000
"""Training seeds below belong to the cold start, so that no level is shown to both."""


class Collector:
    """Holds the training worlds and plays groups of siblings in them.

    Args:
        config: The run.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        counts = shares([spec.weight for spec in config.worlds], config.num_groups)
        self._worlds: list[tuple[WorldSpec, VectorWorld, int]] = [
            (spec, spec.make_vector(count * config.group_size, split="train"), count)
            for spec, count in zip(config.worlds, counts, strict=True)
            if count
        ]

    def collect(self, agent: Agent, iteration: int) -> list[TrajectoryGroup]:
        """Plays one iteration's episodes; its seeds depend on the iteration only, so a resumed run sees the same.

        Args:
            agent: Who acts.
            iteration: Number of the iteration.

        Returns:
            `num_groups` groups of `group_size` siblings.
        """
        size = self._config.group_size
        groups: list[TrajectoryGroup] = []
        for spec, worlds, count in self._worlds:
            first = _FIRST_SEED + (self._config.seed * 1_000_003 + iteration * self._config.num_groups) % 800_000_000
            seeds = [seed for seed in split_seeds("train", count, start=first) for _ in range(size)]
            played = rollout(agent, worlds, seeds, env_ids=[spec.env_id] * len(seeds))
            groups += [
                TrajectoryGroup(trajectories=tuple(played[start : start + size]))
                for start in range(0, len(played), size)
            ]
        return groups

    def close(self) -> None:
        """Ends the worlds' workers."""
        for _, worlds, _ in self._worlds:
            worlds.close()


def representation_of(specs: Sequence[WorldSpec]) -> Mapping[str, str]:
    """Returns the representation each world of a mix is asked for."""
    return {spec.env_id: spec.kwargs.get("representation", "natural_language") for spec in specs}
