"""Episodes on given levels of one world, in spite of workers that are lost."""

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
    """Plays one episode per seed; one that is lost with its worker, or whose worker does not come up, once more.

    A seed that occurs more than once is played as often.

    Args:
        agent: Who plays.
        spec: The world.
        seeds: Reset seeds.
        split: Whose levels the world is made with.
        max_parallel: Most episodes that are played side by side.
        levels: Level text of each episode; None where seeds draw the levels.
        counts_optimal_actions: As in `VectorWorld`; for episodes that are recorded.
        on_lost: Called with each episode that was begun and lost.

    Returns:
        The episodes in the order of their seeds; None for one that was lost again.
    """
    played: list[Trajectory | None] = [None] * len(seeds)
    for _ in range(2):
        missing = [index for index, each in enumerate(played) if each is None]
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
                    for index, each in zip(part, rolled, strict=True):
                        played[index] = None if is_lost(each) else each
                        if each is not None and is_lost(each) and on_lost is not None:
                            on_lost(each)
    return played


def why_lost(episodes: Sequence[Trajectory | None], *, of: int) -> str:
    """Returns what is said where nothing is left: of how many episodes what was lost, and what to look after.

    Args:
        episodes: Those that were lost; None for one that was never begun.
        of: How many episodes there were.
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
