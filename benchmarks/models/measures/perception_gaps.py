"""Perception or planning? The same levels in four views, and what an agent loses by having to see.

    image               the picture
    text                the true state in words of the world's `representation`, no picture
    image+text          both
    image+description   the picture, and all that a perfect eye sees in it, said to be true

Whoever plans well and sees badly gains from words, whoever plans badly does not. Words of grid worlds in
`natural_language` say where things are of each other and not in which cell; with `representation=structured` the text
alone tells everything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, cast

from benchmarks.models.board.board_spec import WorldSpec, label_of
from vlm_envs.adapter.stored import recorded_id
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import Record
from vlm_envs.registration import make, registered_name
from vlm_envs.splits import split_seeds
from vlm_envs.statistics.bootstrap import PairedDifference, paired_bootstrap
from vlm_envs.statistics.paired_tests import PairedOutcomes, holm, pair_outcomes
from vlm_envs.statistics.success_rates import (
    Interval,
    by_cluster,
    cluster_of,
    num_levels_of,
    paired_rates_interval,
    repeated_interval,
)
from vlm_envs.terminal_tables import text_table
from vlm_envs.world import World

SEEN = "image"
"""The view that all others are compared with."""

WITH_WORDS = ("text", "image+text", "image+description")
"""The other views: values of a world's `obs_mode`."""

Level = tuple[int, int]
"""Seed and repeat."""


def view_of(world: Mapping[str, Any]) -> str:
    """Returns how a world of a board is seen, from its record."""
    return str(world.get("kwargs", {}).get("obs_mode", SEEN))


@dataclass(frozen=True, kw_only=True)
class PerceptionGap:
    """What words change for one agent: a view against the picture alone, on the same levels.

    Attributes:
        agent: What the board calls it.
        world: What the board calls the world that shows its picture.
        view: What is compared with the picture.
        num_levels: Distinct levels played in both.
        seen: Success rate with the picture.
        told: Success rate in the view.
        gap: Second less first: what the agent loses by having to see.
        interval: Of the gap.
        p_value: That it is 0, paired by cluster (a level, or the levels that share an image or a document);
            Holm-corrected over all gaps of the board.
        outcomes: Levels solved in which of them, before the picture, after the view.
        reward: The same of the mean return, its p-value corrected likewise.
    """

    agent: str
    world: str
    view: str
    num_levels: int
    seen: float
    told: float
    interval: Interval
    p_value: float
    outcomes: PairedOutcomes
    reward: PairedDifference

    @property
    def gap(self) -> float:
        """What the agent loses by having to see."""
        return self.told - self.seen


def split_views(spec: WorldSpec) -> tuple[list[WorldSpec], str]:
    """Returns a world in its views other than the picture, and why some are missing; empty if none is.

    Raises:
        ConfigError: If it names a view itself, or has no words that could take the place of its picture.
    """
    if "obs_mode" in spec.kwargs:
        raise ConfigError(f"--world {spec.label}: --split-perception chooses obs_mode; leave it out.")
    with closing(make(spec.env_id, **spec.kwargs, split=spec.split, disable_env_checker=True)) as made:
        _, info = made.reset(seed=next(split_seeds(spec.split, 1)))
        world = cast("World[Any, Any]", made.unwrapped)
        has_words = bool(info["state_text"]) and not world.view.tells_answer
        is_there = {"text": has_words, "image+text": has_words, "image+description": bool(world.true_description)}
        why = "its words tell the right answer" if world.view.tells_answer else "nobody wrote it down"
    missing = " and ".join(view for view, there in is_there.items() if not there)
    if not any(is_there.values()):
        raise ConfigError(f"--world {spec.label} has no view but its picture, as {why}: leave it out.")
    views = [replace(spec, kwargs={**spec.kwargs, "obs_mode": view}) for view in WITH_WORDS if is_there[view]]
    return views, f"{spec.label} is not played as {missing}, as {why}." if missing else ""


def perception_gaps(episodes: Sequence[Record], worlds: Iterable[Record]) -> list[PerceptionGap]:
    """Returns the gap of every agent, world and view, where the same levels were played with the picture alone.

    Args:
        episodes: As `Board.episodes` returns them; those with an error count for nothing.
        worlds: The worlds of `Board.record`.

    Returns:
        The gaps, by world, then by agent, in the order in which they first appear. Levels are the same where their
        seed, their repeat and the hash of their start are.
    """
    views = {world["label"]: (_seen_label(world), view_of(world)) for world in worlds}
    played: dict[tuple[str, str], dict[str, dict[Level, Record]]] = {}
    for each in episodes:
        if not each["error"] and each["world"] in views:
            label, view = views[each["world"]]
            by_view = played.setdefault((label, each["agent"]), defaultdict(dict))
            by_view[view][each["seed"], each["repeat"]] = each
    order = list(dict.fromkeys(label for label, _ in played))
    found = [
        gap
        for (label, agent), by_view in sorted(played.items(), key=lambda item: order.index(item[0][0]))
        for view in WITH_WORDS
        if (gap := _gap(label, agent, view, by_view[SEEN], by_view[view])) is not None
    ]
    successes, rewards = holm([gap.p_value for gap in found]), holm([gap.reward.p_value for gap in found])
    return [
        replace(gap, p_value=success, reward=gap.reward._replace(p_value=reward))
        for gap, success, reward in zip(found, successes, rewards, strict=True)
    ]


def _seen_label(world: Mapping[str, Any]) -> str:
    kwargs = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in world["kwargs"].items()
        if name != "obs_mode"
    }
    is_adapted = "adapted" in world  # whose TOML file need not be there
    return label_of(recorded_id(world["adapted"]) if is_adapted else registered_name(world["env_id"]), kwargs)


def paired_on(
    levels: Sequence[Level], first: Mapping[Level, Record], second: Mapping[Level, Record]
) -> tuple[PairedOutcomes, PairedDifference]:
    """Returns successes and rewards of the same levels in two sets of episodes, by cluster."""
    clusters = {level: cluster_of(first[level], second[level]) for level in levels}
    before, after = ({level: bool(of[level]["success"]) for level in levels} for of in (first, second))
    rewards = [[of[level]["total_reward"] for level in levels] for of in (first, second)]
    return pair_outcomes(before, after, clusters), paired_bootstrap(*rewards, levels=[*clusters.values()])


def _gap(
    label: str, agent: str, view: str, seen: Mapping[Level, Record], told: Mapping[Level, Record]
) -> PerceptionGap | None:
    levels = [
        each for each in seen if each in told and seen[each]["start_state_hash"] == told[each]["start_state_hash"]
    ]
    if not levels:
        return None
    outcomes, reward = paired_on(levels, seen, told)
    clusters = [cluster_of(seen[level], told[level]) for level in levels]
    intervals = []
    for episodes in (seen, told):
        solved = by_cluster(clusters, [bool(episodes[level]["success"]) for level in levels]).values()
        intervals.append(repeated_interval([sum(each) for each in solved], [len(each) for each in solved]))
    return PerceptionGap(
        agent=agent,
        world=label,
        view=view,
        num_levels=num_levels_of(seen[level] for level in levels),
        seen=(outcomes.num_both + outcomes.num_only_before) / len(levels),
        told=(outcomes.num_both + outcomes.num_only_after) / len(levels),
        interval=paired_rates_interval(outcomes, *intervals),
        p_value=outcomes.p_value,
        outcomes=outcomes,
        reward=reward,
    )


def gaps_text(gaps: Sequence[PerceptionGap]) -> str:
    """Returns gaps as a table of text."""
    return text_table(
        [
            {
                "world": gap.world,
                "agent": gap.agent,
                "view": gap.view,
                "levels": str(gap.num_levels),
                "image": f"{gap.seen:.3f}",
                "view's": f"{gap.told:.3f}",
                "lost by seeing": with_interval(gap.gap, gap.interval, "+.3f"),
                "p": f"{gap.p_value:.3g}",
                "return lost": f"{gap.reward.mean:+.2f}",
            }
            for gap in gaps
        ]
    )


def with_interval(value: float, interval: tuple[float, float], form: str = ".3f") -> str:
    """Returns a value with its interval as tables of text have it."""
    low, high = interval
    return f"{value:{form}} ({low:{form}} to {high:{form}})"
