"""Plays episodes on given levels of one world, with a retry for lost workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from agents.agent import Agent
from agents.rollout import try_rollout
from training.config.world_spec import WorldSpec
from vlm_envs.trajectory import Trajectory, failure_of, is_lost


def play_each(
    agent: Agent,
    spec: WorldSpec,
    seeds: Sequence[int],
    *,
    split: str,
    max_parallel: int,
    levels: Sequence[str] | None = None,
    counts_optimal_actions: bool = False,
    on_lost: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory | None]:
    """Plays one episode per seed; an episode whose worker is lost or fails to start is retried once.

    A repeated seed is played repeatedly.

    Args:
        agent: The agent.
        spec: The world.
        seeds: Reset seeds.
        split: Split of the world's levels.
        max_parallel: Maximum number of concurrent episodes.
        levels: Level text of each episode; None to draw levels from the seeds.
        counts_optimal_actions: See `VectorWorld`; for episodes that are recorded.
        on_lost: Called with each episode that was started and lost.

    Returns:
        The episodes in the order of their seeds; None for one that was lost twice.
    """
    played: list[Trajectory | None] = [None] * len(seeds)
    for _ in range(2):
        missing = [index for index, episode in enumerate(played) if episode is None]
        parts = (missing[start : start + max_parallel] for start in range(0, len(missing), max_parallel))
        for size, of_one_size in itertools.groupby(parts, len):
            worlds = spec.try_vector(size, split=split)
            if worlds is None:
                continue
            worlds.counts_optimal_actions = counts_optimal_actions
            with worlds:
                for part in of_one_size:
                    asked = [seeds[index] for index in part]
                    given = None if levels is None else [levels[index] for index in part]
                    rolled = try_rollout(agent, worlds, asked, env_ids=[spec.env_id] * size, levels=given)
                    for index, episode in zip(part, rolled, strict=True):
                        played[index] = None if is_lost(episode) else episode
                        if episode is not None and is_lost(episode) and on_lost is not None:
                            on_lost(episode)
    return played


def why_lost(episodes: Sequence[Trajectory | None], *, of: int) -> str:
    """Returns the reason for losing all episodes, with their number and a suggestion.

    Args:
        episodes: The lost episodes; None for one that never started.
        of: Total number of episodes.
    """
    begun = [episode for episode in episodes if episode is not None]
    reason = failure_of(begun[-1]).rstrip(".") if begun else ""
    if len(begun) == len(episodes) and all(episode.turns[-1].stop_reason == "error" for episode in begun):
        return f"the responses of {len(begun)} of {of} episodes failed. The last reason: {reason}"
    return (
        f"the workers of {len(episodes)} of {of} episodes were lost, although they were restarted. The warnings above "
        f"say how.{reason and f' The last reason: {reason}.'} Check the worlds' engines, the machine's memory, and the "
        "machines of a Ray cluster"
    )
