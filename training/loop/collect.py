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

    def collect(self, agent: Agent, iteration: int) -> list[TrajectoryGroup]:
        """Plays one iteration's episodes; its seeds depend on the iteration only, so a resumed run sees the same.

        Returns:
            `num_groups` groups of `group_size` siblings, in the order of their worlds; at times one more or fewer where
            that is odd and iVGR's partners share it, and fewer where a world could not be started, not even in a worker
            started anew. Such a group is dropped whole, and `metrics` counts it.

        Raises:
            WorkerError: If every episode was lost.
        """
        size = self._config.group_size
        groups: list[TrajectoryGroup] = []
        num_episodes = self._num_lost_episodes = self._num_dropped_groups = 0
        for place in self._worlds.played(iteration):
            first = _FIRST_SEED + (self._config.seed * 1_000_003 + iteration * self._config.num_groups) % 800_000_000
            seeds = [seed for seed in split_seeds("train", place.num_groups, start=first) for _ in range(size)]
            played: Sequence[Trajectory | None] = [None] * len(seeds)
            try:
                worlds = self._worlds.vector(place)
            except WorkerError as error:
                _logger.warning("%s %d groups of %s are left out.", error, place.num_groups, place.name)
            else:
                played = try_rollout(agent, worlds, seeds, env_ids=[place.spec.env_id] * len(seeds))
            num_episodes += len(played)
            self._num_lost_episodes += sum(map(is_lost, played))
            for start in range(0, len(played), size):
                siblings = [each for each in played[start : start + size] if each is not None]
                if len(siblings) < size:
                    self._num_dropped_groups += 1
                else:
                    named = tuple(replace(each, world=place.name) for each in siblings)
                    groups.append(TrajectoryGroup(trajectories=named))
        if self._num_lost_episodes == num_episodes or not groups:
            raise WorkerError(
                f"Nothing is left of iteration {iteration}: the workers of {self._num_lost_episodes} of {num_episodes} "
                "episodes were lost, although they were started anew. The warnings above say how. Look after the "
                "worlds' engines and the machine's memory, then go on with --resume."
            )
        return groups

    def metrics(self) -> dict[str, float]:
        """Returns how many episodes of the last collection were lost with their workers, and groups dropped for it."""
        return {
            "lost_episodes": float(self._num_lost_episodes),
            "dropped_groups": float(self._num_dropped_groups),
        }

    def close(self) -> None:
        """Ends the worlds' workers."""
        self._worlds.close()
