"""A mix beside its specialists: what one policy came to in several worlds, and those that had one each, by level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.markdown import of_rows
from benchmarks.results.report import SEEDS, by_recipe, interval_of_seeds, is_mix, p_of_seeds, told_p, told_seeds
from benchmarks.results.result import Result, WorldResult
from vlm_envs.statistics.bootstrap import PairedDifference, seeds_difference
from vlm_envs.statistics.paired_tests import holm

HEADINGS = (
    "mix",
    "world",
    SEEDS,
    "lazy rival",
    "start → trained (95 %)",
    "p (Holm's)",
    "episodes",
    "specialist",
    "its start → trained",
    "episodes",
    "starts, mix less specialist (95 %)",
    "trained, mix less specialist (95 %), p (Holm's)",
)
NO_RESULT, OTHER_ARGUMENTS, OTHER_LEVELS = "no result", "other arguments", "other levels"
PAY = ("format_reward", "answer_reward", "similarity_weight")
"""Arguments of worlds that say what is paid, and change no level."""


def specialists_of(world: WorldResult, results: Sequence[Result]) -> tuple[list[list[Result]], str]:
    """Returns the runs of one world that stand beside a mix's, and why they cannot be compared level by level.

    Args:
        world: Of a mix.
        results: Where they are looked for.

    Returns:
        The seeds of each recipe that played the same levels, or else of each with the same arguments, or else one run
        with others; none where nobody ran in this world alone. The most seeds come first, then the longest. And
        what differs, `"other levels"` or `"other arguments"`; empty if nothing.
    """
    alone = [each for each in results if not is_mix(each) and each.worlds[0].env_id == world.env_id]
    alone.sort(key=lambda each: -each.num_episodes)
    alike = [each for each in alone if _is_asked_the_same(world, each.worlds[0])]
    if not alike:
        return by_recipe(alone[:1]), OTHER_ARGUMENTS
    paired = [each for each in alike if each.worlds[0].levels == world.levels]
    recipes = by_recipe(paired or alike)
    return sorted(recipes, key=lambda seeds: -len(seeds)), "" if paired else OTHER_LEVELS


def difference(
    worlds: Sequence[WorldResult], specialists: Sequence[WorldResult], which: str = "after"
) -> PairedDifference:
    """Returns what seeds of the mix came to in a world less what seeds of its specialist did, on the same levels.

    Args:
        worlds: Of the mix, one a seed.
        specialists: One a seed, of which there may be other numbers.
        which: `"after"`, or `"before"` of what their starts come to.
    """
    alone_SN, mixed_TN = ([getattr(each, which) for each in seeds] for seeds in (specialists, worlds))
    return seeds_difference(alone_SN, mixed_TN, levels=worlds[0].levels)


def mix_lines(results: Sequence[Result]) -> list[str]:
    """Returns a table in Markdown, a line for each world of each mix; nothing where there is none.

    Where several recipes have trained in a world alone, such as one with the mix's share of it, each has a line. A mix
    is as many tests as it has worlds, and as many as it is held against specialists, and p-values are corrected for
    that: those of training, and those of what the mix is ahead or behind by. Of several seeds intervals and p-values
    are of other seeds and other levels; of one, of other levels.
    """
    rows = [row for seeds in by_recipe(results, mixes=True) for row in _rows(seeds, results)]
    return of_rows([HEADINGS, ["---"] * len(HEADINGS), *rows]) if rows else []


def _rows(seeds: Sequence[Result], results: Sequence[Result]) -> list[list[str]]:
    of_worlds = [*zip(*(each.worlds for each in seeds), strict=True)]
    p_gains = holm([p_of_seeds(worlds) for worlds in of_worlds])
    rows, gaps = list[list[str]](), dict[int, PairedDifference]()  # the latter by row
    for worlds, p_gain in zip(of_worlds, p_gains, strict=True):
        beside, differing = specialists_of(worlds[0], results)
        own = _own(worlds, p_gain)
        for specialist in beside or [[]]:
            gap_of_starts = differing
            if specialist and not differing:
                alone = [each.worlds[0] for each in specialist]
                gap_of_starts = str(difference(worlds, alone, "before"))
                gaps[len(rows)] = difference(worlds, alone)
            rows.append([f"`{seeds[0].recipe}`", *own, *_alone(specialist), gap_of_starts if specialist else "", ""])
            own = [own[0], *[""] * (len(own) - 1)]  # said once
    for place, p in zip(gaps, holm([gap.p_value for gap in gaps.values()]), strict=True):
        rows[place][-1] = f"{gaps[place]}, {told_p(p)}"
    return rows


def _own(worlds: Sequence[WorldResult], p: float) -> list[str]:
    """Returns the cells about what a mix's seeds came to in a world."""
    world, (low, high) = worlds[0], interval_of_seeds(worlds)
    lazy, before, after = (np.mean([getattr(each, name) for each in worlds]) for name in ("lazy", "before", "after"))
    measure = "" if world.measure == "success" else f" ({world.measure})"
    return [
        f"{world.world}{measure}",
        told_seeds(worlds),
        f"{lazy:.3f}",
        f"{before:.3f} → **{after:.3f}** ({low:.3f} to {high:.3f})",
        told_p(p),
        _told_count([each.num_episodes for each in worlds]),
    ]


def _alone(specialist: Sequence[Result]) -> list[str]:
    """Returns the cells about what the seeds of a world's specialist came to."""
    if not specialist:
        return [NO_RESULT, "", ""]
    alone = [seed.worlds[0] for seed in specialist]
    before, after = (float(np.mean([getattr(each, name) for each in alone])) for name in ("before", "after"))
    seeds = f" ({len(alone)} seeds)" if len(alone) > 1 else ""
    episodes = _told_count([seed.num_episodes for seed in specialist])
    return [f"`{specialist[0].recipe}`", f"{before:.3f} → {after:.3f}{seeds}", episodes]


def _is_asked_the_same(one: WorldResult, other: WorldResult) -> bool:
    """Returns whether both have the same questions, measured alike; what is paid changes none."""
    ours, theirs = ({**each.kwargs, **dict.fromkeys(PAY)} for each in (one, other))
    return ours == theirs and one.measure == other.measure


def _told_count(numbers: Sequence[int | None]) -> str:
    """Returns the mean of the seeds that know."""
    known = [number for number in numbers if number is not None]
    return f"{round(np.mean(known)):,}" if known else ""
