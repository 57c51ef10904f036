"""A mix beside its specialists: what one policy came to in several worlds, and those that had one each, by level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.results.report import interval_of, is_mix, p_value, told_p
from benchmarks.results.result import Result, WorldResult
from vlm_envs.statistics.bootstrap import PairedDifference, paired_seeds_bootstrap
from vlm_envs.statistics.pairs import holm

HEADINGS = (
    "mix",
    "world",
    "lazy rival",
    "start → trained (95 %)",
    "p (Holm's)",
    "episodes",
    "specialist: start → trained",
    "episodes",
    "trained, mix less specialist (95 %), p",
)
NO_RESULT, OTHER_ARGUMENTS, OTHER_LEVELS = "no result", "other arguments", "other levels"
PAY = ("format_reward", "answer_reward", "similarity_weight")
"""Arguments of worlds that say what is paid, and change no level."""


def specialists_of(world: WorldResult, results: Sequence[Result]) -> tuple[list[Result], str]:
    """Returns the runs of one world that stand beside a mix's, and why they cannot be compared level by level.

    Args:
        world: Of a mix.
        results: Where they are looked for.

    Returns:
        All seeds that played the same levels, or else all with the same arguments, or else one with others; none where
        nobody ran in this world alone. And what differs, `"other levels"` or `"other arguments"`; empty if nothing.
    """
    alone = [each for each in results if not is_mix(each) and each.worlds[0].env_id == world.env_id]
    alike = [each for each in alone if _is_asked_the_same(world, each.worlds[0])]
    if not alike:
        return alone[:1], OTHER_ARGUMENTS
    paired = [each for each in alike if each.worlds[0].levels == world.levels]
    return (paired, "") if paired else (alike, OTHER_LEVELS)


def difference(world: WorldResult, specialists: Sequence[WorldResult]) -> PairedDifference:
    """Returns what the mix came to less what seeds of the specialist did, on the same levels."""
    alone_SN = [specialist.after for specialist in specialists]
    return paired_seeds_bootstrap(alone_SN, [world.after] * len(alone_SN), levels=world.levels)


def mix_lines(results: Sequence[Result]) -> list[str]:
    """Returns a table in Markdown, a line for each world of each mix; nothing where there is none.

    A mix is as many tests as it has worlds, and the p-values of training are corrected for that.
    """
    rows = [
        _row(result, world, p, results)
        for result in results
        if is_mix(result)
        for world, p in zip(result.worlds, holm([p_value(each) for each in result.worlds]), strict=True)
    ]
    return [f"| {' | '.join(row)} |" for row in [HEADINGS, ["---"] * len(HEADINGS), *rows]] if rows else []


def _row(result: Result, world: WorldResult, p: float, results: Sequence[Result]) -> list[str]:
    low, high = interval_of(world.after, world)
    measure = "" if world.measure == "success" else f" ({world.measure})"
    return [
        f"`{result.recipe}`",
        f"{world.world}{measure}",
        f"{np.mean(world.lazy):.3f}",
        f"{np.mean(world.before):.3f} → **{np.mean(world.after):.3f}** ({low:.3f} to {high:.3f})",
        told_p(p),
        _told_count(world.num_episodes),
        *_beside(world, results),
    ]


def _beside(world: WorldResult, results: Sequence[Result]) -> list[str]:
    """Returns the cells about a world's specialist."""
    specialists, differing = specialists_of(world, results)
    if not specialists:
        return [NO_RESULT, "", ""]
    alone = [specialist.worlds[0] for specialist in specialists]
    before, after = (float(np.mean([getattr(each, name) for each in alone])) for name in ("before", "after"))
    seeds = f" ({len(alone)} seeds)" if len(alone) > 1 else ""
    cells = [f"{before:.3f} → {after:.3f}{seeds}", _told_count(specialists[0].num_episodes)]
    if differing:
        return [*cells, differing]
    less = difference(world, alone)
    low, high = less.interval
    return [*cells, f"{less.mean:+.3f} ({low:+.3f} to {high:+.3f}), {told_p(less.p_value)}"]


def _is_asked_the_same(one: WorldResult, other: WorldResult) -> bool:
    """Returns whether both have the same questions, measured alike; what is paid changes none."""
    ours, theirs = ({**each.kwargs, **dict.fromkeys(PAY)} for each in (one, other))
    return ours == theirs and one.measure == other.measure


def _told_count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
