"""What a board would take, from a pilot of a few episodes: time, tokens, dollars, and how sure its numbers would be."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.models.board.board import Board
from benchmarks.models.measures.measures import spent
from vlm_envs.records.json_lines import Record
from vlm_envs.statistics.success_rates import by_cluster, cluster_of, level_of, share_interval, wilson_interval

_SEARCHES_ONCE = "lazy"
"""Label of the agent that searches for its responses before its first episode."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """One agent in one world, on so many levels, each played once.

    Attributes:
        agent: What the board calls it; "all agents" for their sum.
        world: What the board calls it; "all worlds" for their sum.
        num_pilot: Episodes that this is told from.
        num_levels: Levels.
        seconds: How long it takes at the pilot's pace; of all agents, side by side.
        tokens: Tokens sent and received; None where nobody counts them.
        usd: What they cost; None where that is not known, or nothing costs anything.
        is_price_unknown: Whether it is the former.
        half_width: Half the width of the success rate's interval, at most: at that rate of those which the pilot leaves
            open at which it is widest. None for sums.
    """

    agent: str
    world: str
    num_pilot: int
    num_levels: int
    seconds: float
    tokens: float | None
    usd: float | None
    is_price_unknown: bool
    half_width: float | None


def forecast(board: Board, levels: Sequence[int]) -> list[Forecast]:
    """Returns what each agent in each world would take, and all of them together, for each number of levels."""
    with_price = {each["label"] for each in board.record["agents"] if "provider" in each.get("identity", {})}
    pilots: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for line in board.lines():
        pilots[line["agent"], line["world"]].append(line)
    found = []
    for num_levels in levels:
        parts = [
            _part(agent, world, lines, num_levels, costs=agent in with_price)
            for (agent, world), lines in pilots.items()
            if any(not line["error"] for line in lines)
        ]
        found += [*parts, _sum(parts, num_levels)] if parts else []
    return found


def _part(agent: str, world: str, lines: Sequence[Record], num_levels: int, *, costs: bool) -> Forecast:
    played = [line for line in lines if not line["error"]]
    # What failures took is part of what an episode takes
    usd, tokens = spent("usd", lines), spent("tokens", lines)
    taken = [line.get("wall_s") or 0.0 for line in lines]
    seconds = sum(taken) / len(played) * num_levels
    if agent == _SEARCHES_ONCE and len(played) > 1:  # the search is part of its first episode, and counts once
        seconds = max(taken) + (sum(taken) - max(taken)) / (len(played) - 1) * (num_levels - 1)
    return Forecast(
        agent=agent,
        world=world,
        num_pilot=len(played),
        num_levels=num_levels,
        seconds=seconds,
        tokens=None if tokens is None else tokens / len(played) * num_levels,
        usd=None if usd is None else usd / len(played) * num_levels,
        is_price_unknown=costs and usd is None,
        half_width=_half_width(played, num_levels),
    )


def _sum(parts: Sequence[Forecast], num_levels: int) -> Forecast:
    seconds: dict[str, float] = defaultdict(float)
    for part in parts:
        seconds[part.agent] += part.seconds
    tokens = [part.tokens for part in parts if part.tokens is not None]
    usd = [part.usd for part in parts if part.usd is not None]
    return Forecast(
        agent="all agents",
        world="all worlds",
        num_pilot=sum(part.num_pilot for part in parts),
        num_levels=num_levels,
        seconds=max(seconds.values()),
        tokens=sum(tokens) if tokens else None,
        usd=sum(usd) if usd else None,
        is_price_unknown=any(part.is_price_unknown for part in parts),
        half_width=None,
    )


def _half_width(pilot: Sequence[Record], num_levels: int) -> float:
    low, high = share_interval(pilot, [bool(line["success"]) for line in pilot])
    rate = min(max(0.5, low), high)
    seeds_of = by_cluster(map(level_of, pilot), [line["seed"] for line in pilot]).values()
    num_seeds = [len(set(seeds)) for seeds in seeds_of]
    levels_of = by_cluster(map(cluster_of, pilot), map(level_of, pilot)).values()
    sizes = [len(set(levels)) for levels in levels_of]
    # Probability that two seeds give the same level; with more seeds, more of them do
    pairs = math.comb(sum(num_seeds), 2)
    shared = sum(math.comb(num, 2) for num in num_seeds) / pairs if pairs else 0.0
    num_distinct = num_levels / (1 + (num_levels - 1) * shared)
    # At worst, levels about the same image agree, and count as the number of their clusters
    num_clusters = int(num_distinct * sum(sizes) / sum(size**2 for size in sizes))
    if num_clusters < 2:
        return 0.5
    low, high = wilson_interval(round(rate * num_clusters), num_clusters)
    return (high - low) / 2
