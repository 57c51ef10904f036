"""Which episodes depend on each other: repeats of one level, and those about the same image or document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from vlm_envs.records.json_lines import Record
from vlm_envs.statistics.rates import Interval, repeated_interval

ValueT = TypeVar("ValueT")


def cluster_of(*episodes: Record) -> Hashable:
    """Returns the cluster of episodes on one level: the recorded one, or else their seed.

    Boards made before clusters were recorded have seeds only.
    """
    cluster: Hashable = next((line["cluster"] for line in episodes if line.get("cluster")), episodes[0]["seed"])
    return cluster


def by_cluster(clusters: Iterable[Hashable], values: Iterable[ValueT]) -> dict[Hashable, list[ValueT]]:
    """Groups values by cluster, in order of first appearance."""
    found: dict[Hashable, list[ValueT]] = defaultdict(list)
    for cluster, value in zip(clusters, values, strict=True):
        found[cluster].append(value)
    return dict(found)


def share_interval(episodes: Sequence[Record], values: Sequence[float]) -> Interval:
    """Returns the 95% interval of a share.

    Args:
        episodes: The episodes it is taken over.
        values: One per episode, from 0 to 1.
    """
    grouped = by_cluster(map(cluster_of, episodes), values).values()
    return repeated_interval([sum(cluster) for cluster in grouped], [len(cluster) for cluster in grouped])
