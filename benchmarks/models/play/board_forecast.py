"""Forecasts time, tokens, cost, and precision of a board from a pilot of a few episodes."""

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
    """The forecast for one agent in one world, with each level played once.

    Attributes:
        agent: Label of the agent; "all agents" for the sum.
        world: Label of the world; "all worlds" for the sum.
        num_pilot: Pilot episodes the forecast is based on.
        num_levels: Number of levels.
        seconds: Duration at the pilot's pace; for all agents, when run concurrently.
        tokens: Tokens sent and received; None if not counted.
        usd: Cost of the tokens; None if unknown or free.
        is_price_unknown: Whether `usd` is None because a price is unknown.
        half_width: Upper bound on the half-width of the success rate's confidence interval: its value at the rate
            within the pilot's interval that maximizes it. None for sums.
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
    """Returns the forecast for each agent in each world, and their sum, for each number of levels."""
    with_price = {entry["label"] for entry in board.record["agents"] if "provider" in entry.get("identity", {})}
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
    # An episode's cost includes that of failed attempts
    usd, tokens = spent("usd", lines), spent("tokens", lines)
    taken = [line.get("wall_s") or 0.0 for line in lines]
    seconds = sum(taken) / len(played) * num_levels
    if agent == _SEARCHES_ONCE and len(played) > 1:  # its one search is part of its first episode
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
    # At worst, levels about the same image have equal outcomes, so that only clusters count
    num_clusters = int(num_distinct * sum(sizes) / sum(size**2 for size in sizes))
    if num_clusters < 2:
        return 0.5
    low, high = wilson_interval(round(rate * num_clusters), num_clusters)
    return (high - low) / 2
