"""Comparisons of agents over worlds: overall, by group of levels, and by prompt mode."""

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
    """One agent over all worlds that every contestant has played; worlds have equal weight.

    Attributes:
        agent: Its label on the board.
        num_worlds: Worlds averaged.
        success: Mean of its success rates in these worlds.
        low: Lower end of its 95% interval.
        high: Upper end.
        mean_rank: Mean rank by success rate among all agents listed, 1 for the best; ties share their mean rank.
        indistinguishable_from: Agents whose mean success does not differ from this agent's at 0.05, by a paired test on
            the levels both played. P-values are Holm-corrected over all pairs of contestants; pairs with a reference
            are a separate family.
        below_lazy: Whether `lazy` has a higher mean success in the worlds that both have played.
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
        """Whether it is one of the references that are on every board."""
        return self.agent in REFERENCES


def overall(episodes: Sequence[Record]) -> list[OverallRow]:
    """Returns a row per agent in descending order of success; empty if no world was played by all contestants.

    Compares the worlds that all contestants have played; references that lack one of them are left out. For the
    interval, worlds are independent unless they share content such as images.

    Args:
        episodes: From `Board.episodes`; those that ended with an error are ignored.

    Sources: the worlds' intervals are combined by Zou and Donner, Stat. Med. 27 (2008) 1693-1702; a single world keeps
        its own. Differences are tested by flipping the signs of whole clusters (`sign_flip_test`).
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
    """Returns the agents with the highest mean success in `worlds`, including ties."""
    means = {agent: fmean(rates[agent][world] for world in worlds) for agent in agents}
    return [agent for agent, mean in means.items() if math.isclose(mean, max(means.values()), abs_tol=1e-9)]


def is_below(reference: str, agent: str, worlds: Sequence[str], rates: Rates) -> bool:
    """Returns whether a reference has a higher mean success than an agent in the worlds that both have played."""
    mine, its = shared_means(reference, agent, worlds, rates)
    return mine < its and not math.isclose(mine, its, abs_tol=1e-9)


def shared_means(reference: str, agent: str, worlds: Sequence[str], rates: Rates) -> tuple[float, float]:
    """Returns the mean success of an agent and of a reference in the worlds that both have played.

    Both are 0 if there are none.
    """
    shared = [world for world in worlds if world in rates.get(reference, {})]
    mine, its = (fmean([rates[name][world] for world in shared] or [0.0]) for name in (agent, reference))
    return mine, its


def not_above(agent: str, worlds: Sequence[str], rates: Rates) -> str | None:
    """Returns the reference that keeps an agent from being named best; None if the agent may be named.

    The agent must solve something, at least as much as `lazy`, and more than `random`, in the worlds both have played.

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
    """Returns the confidence interval of an agent's mean success rate."""
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
    # Errors of worlds that share content are correlated, so they are added instead of combined as independent
    low, high = (sum(errors) if is_shared else math.hypot(*errors) for errors in (below, above))
    return Interval(max(0.0, mean - low / len(names)), min(1.0, mean + high / len(names)))


def _ranks(rates: Sequence[float]) -> list[float]:
    """Returns the rank of each rate, 1 for the highest; ties share their mean rank."""
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
    # Integer weights keep the test exact, but with many different world sizes they would be too large
    unit = least_common if least_common <= 16 * max(sizes) else 1
    for world, of_world in levels.items():
        weight = unit / len(of_world)
        for level in of_world:
            pair = first[world][level], second[world][level]
            # Content is the same in every world; levels without content belong to their world
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
        world: Label of the world.
        agent: Label of the agent.
        groups: Scores of the items by group, in the order of the groups; groups without items are left out.
        clusters: Clusters of the items by group; items of groups without clusters are independent.
        is_of_groups: Whether the overall score is the mean over groups; otherwise over all items.
        both_orders: Share of the items judged in both orders that were right in both; None without such items.
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
        """The benchmark's overall score."""
        return self.of_groups if self.is_of_groups else self.of_items


def grouped_rows(episodes: Sequence[Record], worlds: Sequence[Record]) -> list[GroupedRow]:
    """Returns a row for each agent in each response-judging world.

    Args:
        episodes: From `Board.episodes`; those that ended with an error are ignored.
        worlds: The worlds of `Board.record`.
    """
    judging = {entry["label"]: entry["kwargs"] for entry in worlds if entry["label"].startswith(_WORLD)}
    played: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for episode in episodes:
        if not episode["error"] and episode["world"] in judging:
            played[episode["world"], episode["agent"]].append(episode)
    twins = {label: _twin(label, judging) for label in judging}
    rows = (
        _row(world, agent, group, judging[world], played.get((twins[world] or "", agent), ()))
        for (world, agent), group in played.items()
    )
    return [row for row in rows if row.groups]


def grouped_text(rows: Sequence[GroupedRow]) -> str:
    """Returns the rows as text, one table per set of groups; empty without rows."""
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
        scored = [episode for episode in episodes if (episode.get("metrics") or {}).get(metric) is not None]
        if scored:
            groups[name] = [float(episode["metrics"][metric]) for episode in scored]
            clusters[name] = [cluster_of(episode) for episode in scored]
    right = {(episode["seed"], episode["repeat"]): bool(episode["success"]) for episode in others}
    both = [
        bool(episode["success"]) and right[episode["seed"], episode["repeat"]]
        for episode in episodes
        if (episode["seed"], episode["repeat"]) in right
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
            interval = repeated_interval(
                [sum(cluster) for cluster in by_content], [len(cluster) for cluster in by_content]
            )
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
"""Arguments of a world for each prompt mode, by name."""


def in_modes(worlds: Sequence[str], name: str) -> tuple[str, ...]:
    """Returns each world in each prompt mode.

    Args:
        worlds: World arguments as ID or ID:ARGUMENT=VALUE,....
        name: A key of `MODES`.

    Raises:
        ConfigError: If a world already sets its prompt mode.
    """
    for world in worlds:
        named = {"prompt_format", "views"} & WorldSpec.parse(world).kwargs.keys()
        require(
            not named,
            f"--world {world} sets {' and '.join(sorted(named))}, which --modes {name} varies over "
            f"{', '.join(MODES[name])}. Leave one of them out.",
        )
    return tuple(f"{world}{',' if ':' in world else ':'}{mode}" for world in worlds for mode in MODES[name].values())


def modes_text(episodes: Sequence[Record], worlds: Sequence[str], name: str, split: str) -> str:
    """Returns a table of success and box IoU by agent and prompt mode for each world.

    Args:
        episodes: Episodes of a board.
        worlds: World arguments as in `in_modes`.
        name: A key of `MODES`.
        split: The split of the levels.
    """
    found = {(row.world, row.agent): row for row in rows(episodes)}
    parts = []
    for world in worlds:
        labels = [WorldSpec.parse(argument, split).label for argument in in_modes([world], name)]
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
