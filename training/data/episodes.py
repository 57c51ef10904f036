"""Episodes on given levels of one world, in spite of workers that are lost."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from agents.agent import Agent
from agents.rollout import is_lost, try_rollout
from training.config.worlds import WorldSpec
from vlm_envs.trajectory import Trajectory


def play_each(
    agent: Agent,
    spec: WorldSpec,
    seeds: Sequence[int],
    *,
    split: str,
    max_parallel: int,
    levels: Sequence[str] | None = None,
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
            with worlds:
                for part in of_one_size:
                    asked = [seeds[index] for index in part]
                    given = None if levels is None else [levels[index] for index in part]
                    rolled = try_rollout(agent, worlds, asked, env_ids=[spec.env_id] * size, levels=given)
                    for index, each in zip(part, rolled, strict=True):
                        played[index] = None if is_lost(each) else each
    return played
