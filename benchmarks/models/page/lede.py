"""The first sentence of a board's page: which agent solves the most, and what that is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from benchmarks.models.measures.measures import Row
from benchmarks.models.measures.overall import LAZY, OverallRow, Rates, best_of, not_above, shared_means
from benchmarks.models.page.columns import written
from benchmarks.models.play.contestants import REFERENCES


def lede(
    table: Sequence[Row],
    models: Sequence[str],
    names: Mapping[str, str] | None = None,
    ranking: Sequence[OverallRow] = (),
) -> str:
    """Returns who solves the most, in a sentence; agents that are on every board are its measure.

    Means are taken over the same worlds only; where agents have played different ones, each world has its best. An
    agent is called the best only if `not_above` allows it.

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
    best = best_of(models, worlds, played)
    praised = [agent for agent in best if not_above(agent, worlds, played) is None]
    if not praised:
        return _without_praise(best, models, worlds, played, short)
    among = f"Of {len(models)} agents " if len(models) > 1 else ""
    solving, rate = _solving(praised, worlds, played, short)
    sentence = f"{among}{solving} {'the most: ' if among else ''}{rate}{_measured(worlds, played)}."
    similar = [short.get(agent, agent) for agent in _similar(praised, models, worlds, ranking)]
    return f"{sentence} The difference from {_listed(similar)} may be chance." if similar else sentence


def _without_praise(
    best: Sequence[str], models: Sequence[str], worlds: Sequence[str], played: Rates, names: Mapping[str, str]
) -> str:
    """Returns the sentence if the agents that solve the most solve nothing, or too little compared with a reference."""
    reference = not_above(best[0], worlds, played)
    if not reference:
        return "No agent solves any level."
    solving, rate = _solving(best, worlds, played, names)
    less = "less than lazy" if reference == LAZY else "no more than random"
    shared = [world for world in worlds if world in played[reference]]
    if shared != worlds:
        mine, its = (written(mean, "rate") for mean in shared_means(reference, best[0], worlds, played))
        where = _listed([short_id(world) for world in shared])
        return f"{solving} {rate}, but {less} in {where}: {mine} against {its}."
    if len(models) == 1:
        return f"{solving} {rate}, {less}{_measured(worlds, played)}."
    none = f"None of {len(models)} agents {'reaches lazy' if reference == LAZY else 'solves more than random'}"
    return f"{none}: {solving} {rate}{_measured(worlds, played)}."


def _solving(agents: Sequence[str], worlds: Sequence[str], played: Rates, names: Mapping[str, str]) -> tuple[str, str]:
    """Returns agents with their verb, and how much they solve."""
    subject = _listed([names.get(agent, agent) for agent in agents])
    where = "of the levels" if len(worlds) == 1 else f"of the levels, on average of {len(worlds)} worlds"
    return f"{subject} {'solves' if len(agents) == 1 else 'solve'}", f"{_mean(agents[0], worlds, played)} {where}"


def _measured(worlds: Sequence[str], played: Rates) -> str:
    """Returns what the references solve, of those that have played all worlds."""
    complete = [name for name in REFERENCES if played.get(name, {}).keys() >= set(worlds)]
    rates = [f"{name} {_mean(name, worlds, played)}" for name in complete]
    return f"; {', '.join(rates)}" if rates else ""


def _mean(agent: str, worlds: Sequence[str], played: Rates) -> str:
    return written(fmean(played[agent][world] for world in worlds), "rate")


def _similar(
    best: Sequence[str], models: Sequence[str], worlds: Sequence[str], ranking: Sequence[OverallRow]
) -> list[str]:
    """Returns the other agents that cannot be distinguished from a single best one."""
    found = [row for row in ranking if [row.agent] == list(best) and row.num_worlds == len(worlds)]
    return [agent for row in found for agent in row.indistinguishable_from if agent in models]


def _best_in(world: str, played: Rates, models: Sequence[str], names: Mapping[str, str]) -> str:
    best = best_of([agent for agent in models if world in played[agent]], [world], played)
    praised = [agent for agent in best if not_above(agent, [world], played) is None]
    if praised:
        subject = _listed([names.get(agent, agent) for agent in praised])
        return f"in {short_id(world)} {subject} with {_mean(best[0], [world], played)}"
    reference = not_above(best[0], [world], played)
    if not reference:
        return f"in {short_id(world)} no agent solves any level"
    fails = "reaches lazy" if reference == LAZY else "solves more than random"
    return f"in {short_id(world)} no agent {fails} with {_mean(reference, [world], played)}"


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def short_id(world: str) -> str:
    """Returns a world's id of what a board calls the world, without what all ids begin with."""
    return world.partition(":")[0].removeprefix("VLM/")
