"""Collect: groups of sibling episodes on training levels."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from agents.agent import Agent
from agents.rollout import is_lost, try_rollout
from training.config.run import RunConfig
from training.data.mix import MixedWorlds
from vlm_envs.errors import WorkerError
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Trajectory, TrajectoryGroup

_logger = logging.getLogger(__name__)

_FIRST_SEED = 100_000_000
"""Training seeds below belong to the cold start, so that no level is shown to both."""


class Collector:
    """Holds the training worlds and plays groups of siblings in them."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._worlds = MixedWorlds(config.worlds, config.num_groups, copies=config.group_size)
        self._num_lost_episodes = self._num_dropped_groups = 0

    def collect(self, agent: Agent, iteration: int, sampling_round: int = 0) -> list[TrajectoryGroup]:
        """Plays one iteration's episodes; seeds depend on iteration and round only, so a resumed run sees the same.

        Args:
            agent: Who acts.
            iteration: Number of the iteration, from 0.
            sampling_round: Which of its rounds, below `algorithm.max_sampling_rounds`; no two have a level in common.

        Returns:
            `num_groups` groups of `group_size` siblings, in the order of their worlds; at times one more or fewer where
            that is odd and iVGR's partners share it, and fewer where a world could not be started, not even in a worker
            started anew. Such a group is dropped whole, and `metrics` counts it.

        Raises:
            WorkerError: If every episode was lost.
        """
        size = self._config.group_size
        rounds_before = iteration * self._config.algorithm.max_sampling_rounds + sampling_round
        offset = self._config.seed * 1_000_003 + rounds_before * self._config.num_groups
        first = _FIRST_SEED + offset % 800_000_000
        groups: list[TrajectoryGroup] = []
        num_episodes = num_lost = 0
        if sampling_round == 0:
            self._num_lost_episodes = self._num_dropped_groups = 0
        for place in self._worlds.played(iteration):
            seeds = [seed for seed in split_seeds("train", place.num_groups, start=first) for _ in range(size)]
            played: Sequence[Trajectory | None] = [None] * len(seeds)
            try:
                worlds = self._worlds.vector(place)
            except WorkerError as error:
                _logger.warning("%s %d groups of %s are left out.", error, place.num_groups, place.name)
            else:
                played = try_rollout(agent, worlds, seeds, env_ids=[place.spec.env_id] * len(seeds))
            num_episodes += len(played)
            num_lost += sum(map(is_lost, played))
            for start in range(0, len(played), size):
                siblings = [each for each in played[start : start + size] if each is not None]
                if len(siblings) < size:
                    self._num_dropped_groups += 1
                else:
                    named = tuple(replace(each, world=place.name) for each in siblings)
                    groups.append(TrajectoryGroup(trajectories=named))
        self._num_lost_episodes += num_lost
        if num_lost == num_episodes or not groups:
            raise WorkerError(
                f"Nothing is left of iteration {iteration}: the workers of {num_lost} of {num_episodes} "
                "episodes were lost, although they were started anew. The warnings above say how. Look after the "
                "worlds' engines and the machine's memory, then go on with --resume."
            )
        return groups

    def metrics(self) -> dict[str, float]:
        """Returns how many episodes of the last iteration were lost with their workers, and groups dropped for it."""
        return {
            "lost_episodes": float(self._num_lost_episodes),
            "dropped_groups": float(self._num_dropped_groups),
        }

    def close(self) -> None:
        """Ends the worlds' workers."""
        self._worlds.close()
