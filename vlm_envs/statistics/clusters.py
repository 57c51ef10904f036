"""Which episodes depend on each other: those on one level, and those about the same image or document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from vlm_envs.statistics.rates import Interval, repeated_interval, wilson_interval

ValueT = TypeVar("ValueT")

Episode = Mapping[str, Any]
"""A recorded episode: its `seed` and, where recorded, its `start_state_hash` and `cluster`."""


def content_of(*episodes: Episode) -> str:
    """Returns the recorded id of content that episodes on one level share with others; empty if there is none."""
    return next((str(episode["cluster"]) for episode in episodes if episode.get("cluster")), "")


def level_of(*episodes: Episode) -> Hashable:
    """Returns the level that episodes were played on: its start state's hash, or the seed if none was recorded.

    Several seeds can give the same level.
    """
    hashes = (str(episode["start_state_hash"]) for episode in episodes if episode.get("start_state_hash"))
    return next(hashes, None) or int(episodes[0]["seed"])


def cluster_of(*episodes: Episode) -> Hashable:
    """Returns the cluster of episodes on one level: their content, or else the level itself."""
    return content_of(*episodes) or level_of(*episodes)


def by_cluster(clusters: Iterable[Hashable], values: Iterable[ValueT]) -> dict[Hashable, list[ValueT]]:
    """Groups values by cluster, in order of first appearance."""
    found: dict[Hashable, list[ValueT]] = defaultdict(list)
    for cluster, value in zip(clusters, values, strict=True):
        found[cluster].append(value)
    return dict(found)


def num_levels_of(episodes: Iterable[Episode]) -> int:
    """Returns the number of distinct levels."""
    return len(set(map(level_of, episodes)))


def share_interval(episodes: Sequence[Episode], values: Sequence[float]) -> Interval:
    """Returns the 95% interval of a share, over clusters.

    Args:
        episodes: The episodes it is taken over.
        values: One per episode, from 0 to 1.
    """
    grouped = by_cluster(map(cluster_of, episodes), values).values()
    return repeated_interval([sum(cluster) for cluster in grouped], [len(cluster) for cluster in grouped])


def evaluated_rate(episodes: Sequence[Episode], solved: Sequence[bool]) -> dict[str, Any]:
    """Returns the counts of an evaluation and its success rate's interval, as they are recorded.

    Args:
        episodes: At least one.
        solved: One per episode.

    Returns:
        `num_episodes`, `num_levels` (distinct ones), `num_successes`, and the ends of the success rate's 95% interval,
        `success_low` and `success_high`: Wilson's if every episode is a cluster of its own, else over clusters.
    """
    num_episodes, num_successes = len(episodes), sum(solved)
    is_clustered = len(set(map(cluster_of, episodes))) < num_episodes
    low, high = share_interval(episodes, solved) if is_clustered else wilson_interval(num_successes, num_episodes)
    return {
        "num_episodes": num_episodes,
        "num_levels": num_levels_of(episodes),
        "num_successes": num_successes,
        "success_low": low,
        "success_high": high,
    }


def counted_episodes(num_episodes: int, num_levels: int, levels: str = "levels") -> str:
    """Returns how many episodes were played on how many levels: `"64 levels"`, or `"64 episodes on 30 levels"`."""
    return (
        f"{num_episodes} {levels}"
        if num_levels == num_episodes
        else f"{num_episodes} episodes on {num_levels} {levels}"
    )
