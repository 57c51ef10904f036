"""Agents compared over worlds: overall, in groups of levels, and by mode."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from benchmarks.models.board.board_spec import REFERENCES, WorldSpec
from benchmarks.models.measures.measures import corrected, rows, success_text
from benchmarks.models.measures.perception_gaps import with_interval
from vlm_envs.content.judging.judging_cases import TRACKS
from vlm_envs.records.json_lines import Record
from vlm_envs.statistics.paired_tests import sign_flip_test
from vlm_envs.statistics.success_rates import (
    Interval,
    by_cluster,
    cluster_of,
    content_of,
    level_of,
    repeated_interval,
    share_interval,
)
from vlm_envs.terminal_tables import text_table
from vlm_envs.validation import require

SIGNIFICANT = 0.05
"""Corrected p-value below which two agents are distinguished."""

LAZY, RANDOM = "lazy", "random"

Rates = Mapping[str, Mapping[str, float]]
"""Success rates by agent and world."""

Level = tuple[int, int]
"""Seed and repeat."""

Played = dict[str, dict[str, dict[Level, Record]]]
"""Episodes by agent, world, and level."""


@dataclass(frozen=True, kw_only=True)
class OverallRow:
    """One agent over all worlds that every contestant has played; each world has the same weight.

    Attributes:
        agent: Its label on the board.
        num_worlds: Worlds averaged.
        success: Mean of its success rates in these worlds.
        low: Lower end of its 95% interval.
        high: Upper end.
        mean_rank: Mean rank by success rate among all agents listed, 1 for the best; ties share their mean rank.
        indistinguishable_from: Agents whose mean success does not differ from its own at 0.05, by a paired test on the
            levels both played, Holm-corrected over all pairs of contestants or, for pairs with a reference, over those.
        below_lazy: Whether `lazy` has a higher mean success in the worlds that it has played.
    """

    agent: str
    num_worlds: int
    success: float
    low: float
    high: float
    mean_rank: float
    indistinguishable_from: tuple[str, ...] = ()
    below_lazy: bool = False

    @property
    def is_reference(self) -> bool:
        """Whether it is one of the baselines that are on every board."""
        return self.agent in REFERENCES


def overall(episodes: Sequence[Record]) -> list[OverallRow]:
    """Returns a row per agent, the most successful first; empty if no world was played by all contestants.

    The worlds are those that all contestants have played. References that lack one of them are left out. In the
    interval, worlds count as independent unless they share content such as images.

    Args:
        episodes: As `Board.episodes` returns them; those that ended with an error count for nothing.

    Sources: the interval combines those of the worlds by Zou and Donner, Stat. Med. 27 (2008) 1693-1702; with one world
        it is that world's. Differences are tested by flipping signs of whole clusters (`sign_flip_test`).
    """
    played: Played = defaultdict(lambda: defaultdict(dict))
    for episode in episodes:
        if not episode["error"]:
            played[episode["agent"]][episode["world"]][episode["seed"], episode["repeat"]] = episode
    agents, worlds = _compared(played)
    if not worlds:
        return []
    rates_of = {
        agent: {world: _rate(levels) for world, levels in of_agent.items()} for agent, of_agent in played.items()
    }
    rates = {agent: [rates_of[agent][world] for world in worlds] for agent in agents}
    means = {agent: fmean(rates[agent]) for agent in agents}
    ranks = [_ranks([rates[agent][index] for agent in agents]) for index in range(len(worlds))]
    similar = _indistinguishable(played, agents, worlds)
    rows = [
        OverallRow(
            agent=agent,
            num_worlds=len(worlds),
            success=means[agent],
            low=(interval := _interval(played[agent], worlds)).low,
            high=interval.high,
            mean_rank=fmean(of_world[position] for of_world in ranks),
            indistinguishable_from=tuple(other for other in agents if frozenset((agent, other)) in similar),
            below_lazy=is_below(LAZY, agent, worlds, rates_of),
        )
        for position, agent in enumerate(agents)
    ]
    return sorted(rows, key=lambda row: (-row.success, row.mean_rank, row.agent))


def best_of(agents: Sequence[str], worlds: Sequence[str], rates: Rates) -> list[str]:
    """Returns the agents with the highest mean success in some worlds, ties included."""
    means = {agent: fmean(rates[agent][world] for world in worlds) for agent in agents}
    return [agent for agent, mean in means.items() if math.isclose(mean, max(means.values()), abs_tol=1e-9)]


def is_below(reference: str, agent: str, worlds: Sequence[str], rates: Rates) -> bool:
    """Returns whether a reference has a higher mean success than an agent in those worlds that it has played."""
    mine, its = shared_means(reference, agent, worlds, rates)
    return mine < its and not math.isclose(mine, its, abs_tol=1e-9)


def shared_means(reference: str, agent: str, worlds: Sequence[str], rates: Rates) -> tuple[float, float]:
    """Returns the mean success of an agent and of a reference in those worlds that the reference has played.

    Both are 0 if there are none.
    """
    shared = [world for world in worlds if world in rates.get(reference, {})]
    mine, its = (fmean([rates[name][world] for world in shared] or [0.0]) for name in (agent, reference))
    return mine, its


def not_above(agent: str, worlds: Sequence[str], rates: Rates) -> str | None:
    """Returns the reference because of which an agent is not named as best; None if it may be.

    It must solve something, no less than `lazy`, and more than `random`, in the worlds that these have played.

    Returns:
        `"lazy"`, `"random"`, `""` if the agent solves nothing, or None.
    """
    if not any(rates[agent][world] for world in worlds):
        return ""
    for reference in (LAZY, RANDOM):
        mine, its = shared_means(reference, agent, worlds, rates)
        is_equal = math.isclose(mine, its, abs_tol=1e-9)
        has_played = any(world in rates.get(reference, {}) for world in worlds)
        if (mine < its and not is_equal) or (is_equal and has_played and reference == RANDOM):
            return reference
    return None


def _compared(played: Played) -> tuple[list[str], list[str]]:
    """Returns the agents to compare and the worlds that all contestants have played, in order of first appearance."""
    contestants = [agent for agent in played if agent not in REFERENCES] or list(played)
    first = played[contestants[0]] if contestants else {}
    worlds = [world for world in first if all(world in played[agent] for agent in contestants)]
    return [agent for agent in played if all(world in played[agent] for world in worlds)], worlds


def _rate(episodes: Mapping[Level, Record]) -> float:
    return fmean(bool(episode["success"]) for episode in episodes.values())


def _interval(worlds: Mapping[str, Mapping[Level, Record]], names: Sequence[str]) -> Interval:
    """Returns the interval of the mean of an agent's success rates."""
    below, above, seen, is_shared = [], [], set[str](), False
    for name in names:
        episodes = list(worlds[name].values())
        low, high = share_interval(episodes, [bool(episode["success"]) for episode in episodes])
        rate = _rate(worlds[name])
        below.append(rate - low)
        above.append(high - rate)
        content = set(filter(None, map(content_of, episodes)))
        is_shared, seen = is_shared or bool(content & seen), seen | content
    mean = fmean(_rate(worlds[name]) for name in names)
    # Errors of worlds with the same content may be equal; then they add up as they are
    low, high = (sum(errors) if is_shared else math.hypot(*errors) for errors in (below, above))
    return Interval(max(0.0, mean - low / len(names)), min(1.0, mean + high / len(names)))


def _ranks(rates: Sequence[float]) -> list[float]:
    """Returns the rank of each rate, 1 for the highest; equal rates share the mean of their ranks."""
    return [sum(other > rate for other in rates) + (sum(other == rate for other in rates) + 1) / 2 for rate in rates]


def _indistinguishable(played: Played, agents: Sequence[str], worlds: Sequence[str]) -> set[frozenset[str]]:
    """Returns the pairs of agents whose mean success rates do not differ significantly."""
    pairs = list(itertools.combinations(agents, 2))
    p_values = corrected(pairs, [_p_value(played[first], played[second], worlds) for first, second in pairs])
    return {frozenset(pair) for pair, p_value in zip(pairs, p_values, strict=True) if p_value >= SIGNIFICANT}


def _p_value(
    first: Mapping[str, Mapping[Level, Record]],
    second: Mapping[str, Mapping[Level, Record]],
    worlds: Sequence[str],
) -> float:
    """Returns the p-value that two agents have the same mean success rate; 1 if they share no level in some world."""
    differences: dict[Hashable, float] = defaultdict(float)
    levels = {world: [level for level in first[world] if level in second[world]] for world in worlds}
    sizes = [len(of_world) for of_world in levels.values()]
    if not all(sizes):
        return 1.0
    least_common = math.lcm(*sizes)
    # Whole weights keep the test exact; with worlds of many different sizes they would be too large
    unit = least_common if least_common <= 16 * max(sizes) else 1
    for world, of_world in levels.items():
        weight = unit / len(of_world)
        for level in of_world:
            pair = first[world][level], second[world][level]
            # Content is the same in every world, but levels count as their world's own
            key = content_of(*pair) or (world, level_of(*pair))
            gain = int(bool(second[world][level]["success"])) - int(bool(first[world][level]["success"]))
            differences[key] += weight * gain
    return sign_flip_test(list(differences.values()))


_ORDER = "reverse_order"
_TRACKS = {f"score_{name}": name for name in TRACKS}
_REWARDBENCH_GROUPS = {f"score_vl_rewardbench_{name}": name for name in ("hallucination", "reasoning", "general")}
"""Name of each group by the metric of its items."""
_WORLD = "VLM/RewardJudging"


@dataclass(frozen=True, kw_only=True)
class GroupedRow:
    """One agent's accuracy in one world, by group.

    Attributes:
        world: What the board calls the world.
        agent: What it calls the agent.
        groups: Scores of the items of each group, in the order of the groups; those without items are left out.
        clusters: Of each group the clusters of its items; without them, items count as independent.
        is_of_groups: Whether the score in all is the mean of the groups; else that of all items.
        both_orders: Share of the items that were judged in both orders, and rightly in both; None where none were.
    """

    world: str
    agent: str
    groups: Mapping[str, Sequence[float]]
    is_of_groups: bool
    both_orders: float | None = None
    clusters: Mapping[str, Sequence[Hashable]] = field(default_factory=dict)

    @property
    def of_items(self) -> float:
        """Mean over all items."""
        return fmean(score for scores in self.groups.values() for score in scores)

    @property
    def of_groups(self) -> float:
        """Mean of the groups' means."""
        return fmean(fmean(scores) for scores in self.groups.values())

    @property
    def overall(self) -> float:
        """What the benchmark calls the score in all."""
        return self.of_groups if self.is_of_groups else self.of_items


def grouped_rows(episodes: Sequence[Record], worlds: Sequence[Record]) -> list[GroupedRow]:
    """Returns a row for each agent in each world that judges responses.

    Args:
        episodes: As `Board.episodes` returns them; those that ended with an error count in nothing.
        worlds: The worlds of `Board.record`.
    """
    judging = {each["label"]: each["kwargs"] for each in worlds if each["label"].startswith(_WORLD)}
    played: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for each in episodes:
        if not each["error"] and each["world"] in judging:
            played[each["world"], each["agent"]].append(each)
    twins = {label: _twin(label, judging) for label in judging}
    rows = (
        _row(world, agent, each, judging[world], played.get((twins[world] or "", agent), ()))
        for (world, agent), each in played.items()
    )
    return [row for row in rows if row.groups]


def grouped_text(rows: Sequence[GroupedRow]) -> str:
    """Returns the rows as tables, one for each kind of groups; nothing without rows."""
    ordered = sorted(rows, key=lambda row: (row.world, -row.overall))
    tables = (text_table([_cells(row) for row in ordered if row.is_of_groups is kind]) for kind in (False, True))
    return "\n\n".join(filter(None, tables))


def _row(
    world: str, agent: str, episodes: Sequence[Record], kwargs: Mapping[str, Any], others: Sequence[Record]
) -> GroupedRow:
    is_rewardbench = kwargs.get("dataset") == "vl_rewardbench"
    groups: dict[str, list[float]] = {}
    clusters: dict[str, list[Hashable]] = {}
    for metric, name in (_REWARDBENCH_GROUPS if is_rewardbench else _TRACKS).items():
        scored = [each for each in episodes if (each.get("metrics") or {}).get(metric) is not None]
        if scored:
            groups[name] = [float(each["metrics"][metric]) for each in scored]
            clusters[name] = [cluster_of(each) for each in scored]
    right = {(each["seed"], each["repeat"]): bool(each["success"]) for each in others}
    both = [
        bool(each["success"]) and right[each["seed"], each["repeat"]]
        for each in episodes
        if (each["seed"], each["repeat"]) in right
    ]
    return GroupedRow(
        world=world,
        agent=agent,
        groups=groups,
        clusters=clusters,
        is_of_groups=not is_rewardbench,
        both_orders=fmean(both) if both else None,
    )


def _twin(label: str, worlds: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Returns the world that shows the same items in the opposite order."""
    own = {_ORDER: False, **worlds[label]}
    wanted = own | {_ORDER: not own[_ORDER]}
    return next((other for other, kwargs in worlds.items() if {_ORDER: False, **kwargs} == wanted), None)


def _cells(row: GroupedRow) -> dict[str, str]:
    groups = {}
    for name in (_TRACKS if row.is_of_groups else _REWARDBENCH_GROUPS).values():
        groups[name] = ""
        if scores := row.groups.get(name):
            by_content = by_cluster(row.clusters.get(name) or range(len(scores)), scores).values()
            interval = repeated_interval([sum(each) for each in by_content], [len(each) for each in by_content])
            groups[name] = f"{with_interval(fmean(scores), interval)} of {len(scores)}"
    return {
        "world": row.world,
        "agent": row.agent,
        **groups,
        "overall": f"{row.overall:.3f}",
        "of all items": f"{row.of_items:.3f}",
        "mean of groups": f"{row.of_groups:.3f}",
        "right in both orders": "" if row.both_orders is None else f"{row.both_orders:.3f}",
    }


MODES: Mapping[str, Mapping[str, str]] = {
    "ivgr": {
        "grounded": "prompt_format=ivgr_grounded",
        "textual": "prompt_format=ivgr_textual",
        "views none": "prompt_format=ivgr_views,views='none'",
        "views crops": "prompt_format=ivgr_views,views=crops",
        "views union": "prompt_format=ivgr_views,views=union",
        "views both": "prompt_format=ivgr_views,views=both",
    }
}
"""Arguments of a world in each way of asking, by name."""


def in_modes(worlds: Sequence[str], name: str) -> tuple[str, ...]:
    """Returns each world in each way of asking.

    Args:
        worlds: As ID or ID:ARGUMENT=VALUE,....
        name: A key of `MODES`.

    Raises:
        ConfigError: If a world says itself how it is asked.
    """
    for world in worlds:
        named = {"prompt_format", "views"} & WorldSpec.parse(world).kwargs.keys()
        require(
            not named,
            f"--world {world} has a {' and '.join(sorted(named))} of its own, and --modes {name} asks it in "
            f"{', '.join(MODES[name])}. Leave one of them out.",
        )
    return tuple(f"{world}{',' if ':' in world else ':'}{mode}" for world in worlds for mode in MODES[name].values())


def modes_text(episodes: Sequence[Record], worlds: Sequence[str], name: str, split: str) -> str:
    """Returns a table of success and box IoU by agent and way of asking, for each world.

    Args:
        episodes: Of a board.
        worlds: As `in_modes` takes them.
        name: A key of `MODES`.
        split: Whose levels were played.
    """
    found = {(row.world, row.agent): row for row in rows(episodes)}
    parts = []
    for world in worlds:
        labels = [WorldSpec.parse(each, split).label for each in in_modes([world], name)]
        table = []
        for agent in dict.fromkeys(agent for _, agent in found):
            for mode, label in zip(MODES[name], labels, strict=True):
                if row := found.get((label, agent)):
                    table.append(
                        {
                            "agent": agent,
                            "mode": mode,
                            "success": success_text(row),
                            "episodes": str(row.num_episodes),
                            "box_iou": f"{row.judged['box_iou']:.3f}" if "box_iou" in row.judged else "",
                            "out of format": "" if row.invalid_rate is None else f"{row.invalid_rate:.3f}",
                        }
                    )
        parts.append(f"{world}\n{text_table(table)}")
    return "\n\n".join(parts)
