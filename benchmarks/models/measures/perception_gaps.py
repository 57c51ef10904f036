"""Perception or planning? Compares agents on the same levels in four views to measure the cost of perception.

    image               the image
    text                the true state in the world's `representation`, without an image
    image+text          both
    image+description   the image and a complete ground-truth description of it, labeled as true

An agent that plans well but perceives badly gains from text; an agent that plans badly does not. In grid worlds, the
`natural_language` representation describes relative positions, not cells; with `representation=structured`, the text
alone describes the full state.
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
"""The view to which all others are compared."""

WITH_WORDS = ("text", "image+text", "image+description")
"""The other views: values of a world's `obs_mode`."""

Level = tuple[int, int]
"""Seed and repeat."""


def view_of(world: Mapping[str, Any]) -> str:
    """Returns the view of a board's world from its record."""
    return str(world.get("kwargs", {}).get("obs_mode", SEEN))


@dataclass(frozen=True, kw_only=True)
class PerceptionGap:
    """One agent's difference between a view with text and the image alone, on the same levels.

    Attributes:
        agent: Label of the agent.
        world: Label of the world with the image alone.
        view: The view compared with the image.
        num_levels: Distinct levels played in both views.
        seen: Success rate with the image.
        told: Success rate in the other view.
        gap: `told - seen`: the loss due to perception.
        interval: Confidence interval of the gap.
        p_value: P-value that the gap is 0, paired by cluster (a level, or the levels that share an image or a document)
            and Holm-corrected over all gaps of the board.
        outcomes: Levels by their outcome with the image (before) and in the view (after).
        reward: Difference of the mean returns; its p-value is corrected in the same way.
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
        """The loss due to perception."""
        return self.told - self.seen


def split_views(spec: WorldSpec) -> tuple[list[WorldSpec], str]:
    """Returns a world in its views other than the image, and why some are missing; an empty text if none is.

    Raises:
        ConfigError: If the world sets a view, or has no text view.
    """
    if "obs_mode" in spec.kwargs:
        raise ConfigError(f"--world {spec.label}: --split-perception chooses obs_mode; leave it out.")
    with closing(make(spec.env_id, **spec.kwargs, split=spec.split, disable_env_checker=True)) as made:
        _, info = made.reset(seed=next(split_seeds(spec.split, 1)))
        world = cast("World[Any, Any]", made.unwrapped)
        has_words = bool(info["state_text"]) and not world.view.tells_answer
        is_there = {"text": has_words, "image+text": has_words, "image+description": bool(world.true_description)}
        why = "its text contains the right answer" if world.view.tells_answer else "it has no text for its image"
    missing = " and ".join(view for view, there in is_there.items() if not there)
    if not any(is_there.values()):
        raise ConfigError(f"--world {spec.label} has no view but its image, because {why}: leave it out.")
    views = [replace(spec, kwargs={**spec.kwargs, "obs_mode": view}) for view in WITH_WORDS if is_there[view]]
    return views, f"{spec.label} is not played as {missing}, because {why}." if missing else ""


def perception_gaps(episodes: Sequence[Record], worlds: Iterable[Record]) -> list[PerceptionGap]:
    """Returns the gap of every agent, world, and view whose levels were also played with the image alone.

    Args:
        episodes: From `Board.episodes`; those that ended with an error are ignored.
        worlds: The worlds of `Board.record`.

    Returns:
        The gaps, by world, then by agent, in order of first appearance. Two levels are the same if their seeds,
        repeats, and start hashes match.
    """
    views = {world["label"]: (_seen_label(world), view_of(world)) for world in worlds}
    played: dict[tuple[str, str], dict[str, dict[Level, Record]]] = {}
    for episode in episodes:
        if not episode["error"] and episode["world"] in views:
            label, view = views[episode["world"]]
            by_view = played.setdefault((label, episode["agent"]), defaultdict(dict))
            by_view[view][episode["seed"], episode["repeat"]] = episode
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
    is_adapted = "adapted" in world  # its TOML file may no longer exist
    return label_of(recorded_id(world["adapted"]) if is_adapted else registered_name(world["env_id"]), kwargs)


def paired_on(
    levels: Sequence[Level], first: Mapping[Level, Record], second: Mapping[Level, Record]
) -> tuple[PairedOutcomes, PairedDifference]:
    """Returns the successes and rewards of two sets of episodes on the same levels, paired by cluster."""
    clusters = {level: cluster_of(first[level], second[level]) for level in levels}
    before, after = ({level: bool(of[level]["success"]) for level in levels} for of in (first, second))
    rewards = [[of[level]["total_reward"] for level in levels] for of in (first, second)]
    return pair_outcomes(before, after, clusters), paired_bootstrap(*rewards, levels=[*clusters.values()])


def _gap(
    label: str, agent: str, view: str, seen: Mapping[Level, Record], told: Mapping[Level, Record]
) -> PerceptionGap | None:
    levels = [
        level for level in seen if level in told and seen[level]["start_state_hash"] == told[level]["start_state_hash"]
    ]
    if not levels:
        return None
    outcomes, reward = paired_on(levels, seen, told)
    clusters = [cluster_of(seen[level], told[level]) for level in levels]
    intervals = []
    for episodes in (seen, told):
        solved = by_cluster(clusters, [bool(episodes[level]["success"]) for level in levels]).values()
        intervals.append(repeated_interval([sum(cluster) for cluster in solved], [len(cluster) for cluster in solved]))
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
    """Returns gaps as a text table."""
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
    """Returns a value and its interval as text for tables."""
    low, high = interval
    return f"{value:{form}} ({low:{form}} to {high:{form}})"
