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
    played: dict[str, dict[str, dict[str, dict[Level, Record]]]] = {}
    for each in episodes:
        if not each["error"] and each["world"] in views:
            label, view = views[each["world"]]
            of_agent = played.setdefault(label, {}).setdefault(each["agent"], defaultdict(dict))
            of_agent[view][each["seed"], each["repeat"]] = each
    return _corrected([gap for label, agents in played.items() for gap in _gaps(label, agents)])


def _seen_label(world: Mapping[str, Any]) -> str:
    kwargs = {name: value for name, value in world["kwargs"].items() if name != "obs_mode"}
    kwargs = {name: tuple(value) if isinstance(value, list) else value for name, value in kwargs.items()}
    is_adapted = "adapted" in world  # whose TOML file need not be there
    return label_of(recorded_id(world["adapted"]) if is_adapted else registered_name(world["env_id"]), kwargs)


def _gaps(label: str, agents: Mapping[str, Mapping[str, Mapping[Level, Record]]]) -> list[PerceptionGap]:
    return [
        gap
        for agent, by_view in agents.items()
        for view in WITH_WORDS
        if (gap := _gap(label, agent, view, by_view.get(SEEN, {}), by_view.get(view, {}))) is not None
    ]


def _gap(
    label: str, agent: str, view: str, seen: Mapping[Level, Record], told: Mapping[Level, Record]
) -> PerceptionGap | None:
    levels = [each for each in seen if each in told and _start(seen[each]) == _start(told[each])]
    if not levels:
        return None
    clusters = {level: cluster_of(seen[level], told[level]) for level in levels}
    before, after = _solved(seen, levels), _solved(told, levels)
    outcomes = pair_outcomes(before, after, clusters)
    rewards = [[of[level]["total_reward"] for level in levels] for of in (seen, told)]
    grouped = [by_cluster(clusters.values(), of.values()).values() for of in (before, after)]
    rates = [repeated_interval([sum(each) for each in of], [len(each) for each in of]) for of in grouped]
    return PerceptionGap(
        agent=agent,
        world=label,
        view=view,
        num_levels=num_levels_of(seen[level] for level in levels),
        seen=(outcomes.num_both + outcomes.num_only_before) / len(levels),
        told=(outcomes.num_both + outcomes.num_only_after) / len(levels),
        interval=paired_rates_interval(outcomes, *rates),
        p_value=outcomes.p_value,
        outcomes=outcomes,
        reward=paired_bootstrap(*rewards, levels=[*clusters.values()]),
    )


def _start(episode: Record) -> Any:
    return episode["start_state_hash"]


def _solved(episodes: Mapping[Level, Record], levels: Sequence[Level]) -> dict[Level, bool]:
    return {level: bool(episodes[level]["success"]) for level in levels}


def _corrected(gaps: Sequence[PerceptionGap]) -> list[PerceptionGap]:
    successes, rewards = holm([gap.p_value for gap in gaps]), holm([gap.reward.p_value for gap in gaps])
    return [
        replace(gap, p_value=success, reward=gap.reward._replace(p_value=reward))
        for gap, success, reward in zip(gaps, successes, rewards, strict=True)
    ]


def gaps_text(gaps: Sequence[PerceptionGap]) -> str:
    """Returns gaps as a table of text."""
    return text_table([_row(gap) for gap in gaps])


def _row(gap: PerceptionGap) -> dict[str, str]:
    low, high = gap.interval
    return {
        "world": gap.world,
        "agent": gap.agent,
        "view": gap.view,
        "levels": str(gap.num_levels),
        "image": f"{gap.seen:.3f}",
        "view's": f"{gap.told:.3f}",
        "lost by seeing": f"{gap.gap:+.3f} ({low:+.3f} to {high:+.3f})",
        "p": f"{gap.p_value:.3g}",
        "return lost": f"{gap.reward.mean:+.2f}",
    }
