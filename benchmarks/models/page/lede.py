"""The first sentence of a board's page: which agent solves the most, and what that is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from benchmarks.models.measures.measures import Row
from benchmarks.models.measures.overall import OverallRow
from benchmarks.models.page.columns import written
from benchmarks.models.play.contestants import REFERENCES

_LAZY = "lazy"


def lede(
    table: Sequence[Row],
    models: Sequence[str],
    names: Mapping[str, str] | None = None,
    ranking: Sequence[OverallRow] = (),
) -> str:
    """Returns who solves the most, in a sentence; agents that are on every board are its measure.

    Means are taken over the same worlds only; where agents have played different ones, each world has its best. An
    agent that solves less than `lazy`, which does not look, is never called the best.

    Args:
        table: All rows.
        models: Agents other than the references.
        names: What the sentence calls agents, by label.
        ranking: The agents over all worlds; tells which of them cannot be distinguished from the best.
    """
    played: dict[str, dict[str, float]] = {}
    for row in table:
        if row.num_episodes:
            played.setdefault(row.agent, {})[row.world] = row.success
    models = [agent for agent in models if agent in played]
    if not models:
        return ""
    short = dict(names or {})
    worlds = list(dict.fromkeys(world for agent in models for world in played[agent]))
    if any(played[agent].keys() != set(worlds) for agent in models):
        return f"Most solved: {'; '.join(_best_in(world, played, models, short) for world in worlds)}."
    best = _highest({agent: sum(played[agent].values()) for agent in models})

    def mean(agent: str) -> float:
        return sum(played[agent][world] for world in worlds) / len(worlds)

    where = "of the levels" if len(worlds) == 1 else f"of the levels, on average of {len(worlds)} worlds"
    known = [name for name in REFERENCES if played.get(name, {}).keys() >= set(worlds)]
    told = [f"{name} {written(mean(name), 'rate')}" for name in known]
    measured = f"; {', '.join(told)}" if told else ""
    subject = _listed([short.get(agent, agent) for agent in best])
    solving = f"{subject} {'solves' if len(best) == 1 else 'solve'}"
    rate = written(mean(best[0]), "rate")
    if _LAZY in known and mean(best[0]) < mean(_LAZY):
        whole = f"None of {len(models)} agents reaches lazy: {solving}" if len(models) > 1 else solving
        return f"{whole} {rate} {where}{', less than lazy' if len(models) == 1 else ''}{measured}."
    among = f"Of {len(models)} agents " if len(models) > 1 else ""
    sentence = f"{among}{solving} {'the most: ' if among else ''}{rate} {where}{measured}."
    similar = [short.get(agent, agent) for agent in _similar(best, models, worlds, ranking)]
    return f"{sentence} The difference from {_listed(similar)} may be chance." if similar else sentence


def _similar(
    best: Sequence[str], models: Sequence[str], worlds: Sequence[str], ranking: Sequence[OverallRow]
) -> list[str]:
    """Returns the other agents that cannot be distinguished from a single best one."""
    found = [row for row in ranking if [row.agent] == list(best) and row.num_worlds == len(worlds)]
    return [agent for row in found for agent in row.indistinguishable_from if agent in models]


def _best_in(
    world: str, played: Mapping[str, Mapping[str, float]], models: Sequence[str], names: Mapping[str, str]
) -> str:
    best = _highest({agent: played[agent][world] for agent in models if world in played[agent]})
    rate, lazy = played[best[0]][world], played.get(_LAZY, {}).get(world, 0.0)
    if rate < lazy:
        return f"in {short_id(world)} no agent reaches lazy with {written(lazy, 'rate')}"
    return f"in {short_id(world)} {_listed([names.get(agent, agent) for agent in best])} with {written(rate, 'rate')}"


def _highest(success: Mapping[str, float]) -> list[str]:
    """Returns the agents that nobody is above."""
    return [agent for agent, rate in success.items() if math.isclose(rate, max(success.values()))]


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def short_id(world: str) -> str:
    """Returns a world's id of what a board calls the world, without what all ids begin with."""
    return world.partition(":")[0].removeprefix("VLM/")
