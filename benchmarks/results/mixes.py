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
NO_RESULT, OTHER_LEVELS = "no result", "other arguments"
PAY = ("format_reward", "answer_reward", "similarity_weight")
"""Arguments of worlds that say what is paid, and change no level."""


def specialists_of(world: WorldResult, results: Sequence[Result]) -> tuple[list[Result], bool]:
    """Returns the runs of one world that had this one, all seeds of it, and whether they are the same in all arguments.

    Args:
        world: Of a mix.
        results: Where they are looked for.

    Returns:
        Those with the same arguments if there are any, else one with others; none where nobody ran in this world alone.
    """
    alone = [result for result in results if not is_mix(result) and result.worlds[0].env_id == world.env_id]
    alike = [result for result in alone if _plays_the_same(world, result.worlds[0])]
    return (alike, True) if alike else (alone[:1], False)


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
    specialists, is_same = specialists_of(world, results)
    if not specialists:
        return [NO_RESULT, "", ""]
    alone = [specialist.worlds[0] for specialist in specialists]
    before, after = (float(np.mean([getattr(each, name) for each in alone])) for name in ("before", "after"))
    seeds = f" ({len(alone)} seeds)" if len(alone) > 1 else ""
    cells = [f"{before:.3f} → {after:.3f}{seeds}", _told_count(specialists[0].num_episodes)]
    if not is_same:
        return [*cells, OTHER_LEVELS]
    less = difference(world, alone)
    low, high = less.interval
    return [*cells, f"{less.mean:+.3f} ({low:+.3f} to {high:+.3f}), {told_p(less.p_value)}"]


def _plays_the_same(one: WorldResult, other: WorldResult) -> bool:
    """Returns whether both played the same levels; what is paid changes none."""
    ours, theirs = ({**each.kwargs, **dict.fromkeys(PAY)} for each in (one, other))
    return ours == theirs and one.measure == other.measure and one.levels == other.levels


def _told_count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
