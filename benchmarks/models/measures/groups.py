"""Accuracy of judging responses by group, as VL-RewardBench and ARMBench-VL report it.

| data | groups | in all |
|---|---|---|
| `dataset=vl_rewardbench` | hallucination, reasoning, general | of all items (Overall), and the mean of the groups |
| `dataset=armbench_vl`, `judged`, generated cases | tracks | the mean of the tracks (Avg.), and of all items |

Where the same items were judged in both orders (`reverse_order=True` in a second world), it is also told how many were
judged rightly in both: who goes by places is right in one of them.

Source: ARM-Thinker, table 2, whose row of ARM-Thinker-7B adds up so and in no other way (the tests have it);
VL-RewardBench's `cal.py` for its groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from benchmarks.models.text_table import text_table
from vlm_envs.content.judging.judging_cases import TRACKS
from vlm_envs.records.json_lines import Record
from vlm_envs.statistics.success_rates import by_cluster, cluster_of, repeated_interval

_SCORE = "score_"
_ORDER = "reverse_order"
_REWARDBENCH = "vl_rewardbench"
_REWARDBENCH_GROUPS = tuple(f"{_REWARDBENCH}_{name}" for name in ("hallucination", "reasoning", "general"))
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
    tables = (
        [_told(row) for row in sorted(rows, key=lambda row: (row.world, -row.overall)) if row.is_of_groups is kind]
        for kind in (False, True)
    )
    return "\n\n".join(text_table(table) for table in tables if table)


def _row(
    world: str, agent: str, episodes: Sequence[Record], kwargs: Mapping[str, Any], others: Sequence[Record]
) -> GroupedRow:
    is_rewardbench = kwargs.get("dataset") == _REWARDBENCH
    names = _REWARDBENCH_GROUPS if is_rewardbench else TRACKS
    scored = {name: [(each, score) for each in episodes for score in _scores(each, name)] for name in names}
    found = {name.removeprefix(f"{_REWARDBENCH}_"): each for name, each in scored.items() if each}
    return GroupedRow(
        world=world,
        agent=agent,
        groups={name: [score for _, score in each] for name, each in found.items()},
        clusters={name: [cluster_of(episode) for episode, _ in each] for name, each in found.items()},
        is_of_groups=not is_rewardbench,
        both_orders=_both_orders(episodes, others),
    )


def _scores(episode: Record, group: str) -> Iterator[float]:
    score = (episode.get("metrics") or {}).get(f"{_SCORE}{group}")
    if score is not None:
        yield float(score)


def _twin(label: str, worlds: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Returns the world that shows the same items in the opposite order."""
    own = dict(worlds[label])
    wanted = own | {_ORDER: not own.get(_ORDER, False)}
    return next((other for other, kwargs in worlds.items() if {_ORDER: False, **kwargs} == wanted), None)


def _both_orders(episodes: Sequence[Record], others: Sequence[Record]) -> float | None:
    """Returns the share of items judged in both orders that were judged rightly in both; an item is a seed."""
    right = {(each["seed"], each["repeat"]): bool(each["success"]) for each in others}
    both = [
        bool(each["success"]) and right[each["seed"], each["repeat"]]
        for each in episodes
        if (each["seed"], each["repeat"]) in right
    ]
    return fmean(both) if both else None


def _told(row: GroupedRow) -> dict[str, str]:
    names = TRACKS if row.is_of_groups else tuple(name.removeprefix(f"{_REWARDBENCH}_") for name in _REWARDBENCH_GROUPS)
    groups = {name: _with_interval(row, name) if name in row.groups else "" for name in names}
    means = {"of all items": f"{row.of_items:.3f}", "mean of groups": f"{row.of_groups:.3f}"}
    both = "" if row.both_orders is None else f"{row.both_orders:.3f}"
    told = {"world": row.world, "agent": row.agent, **groups, "overall": f"{row.overall:.3f}"}
    return told | means | {"right in both orders": both}


def _with_interval(row: GroupedRow, name: str) -> str:
    scores = row.groups[name]
    by_content = by_cluster(row.clusters.get(name) or range(len(scores)), scores).values()
    low, high = repeated_interval([sum(each) for each in by_content], [len(each) for each in by_content])
    return f"{fmean(scores):.3f} ({low:.3f} to {high:.3f}) of {len(scores)}"
