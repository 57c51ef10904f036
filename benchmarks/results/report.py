"""Results as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.markdown import TESTED, of_columns, of_rows, told_gaps
from benchmarks.results.result import Result, WorldResult
from vlm_envs.errors import ConfigError
from vlm_envs.statistics.bootstrap import by_level, paired_bootstrap, paired_seeds_bootstrap, seeds_interval
from vlm_envs.statistics.paired_tests import sign_flip_test
from vlm_envs.statistics.success_rates import Interval, repeated_interval

SEEDS = "seeds × levels"
EXPERT = "its expert"
GREY = "shown grey"
GREEDY = "decoded greedily: start, trained"
LOOKED = "tool used: start, trained"
HEADINGS = (
    "recipe",
    "lazy rival",
    "start",
    "trained (95 %)",
    "p",
    EXPERT,
    GREEDY,
    "true state given: start, trained",
    GREY,
    LOOKED,
    "minutes",
    "world",
    SEEDS,
)
"""What was found comes first: pages that are narrow cut off the rest."""


def load_results(folder: Path) -> list[Result]:
    """Returns the results in a folder, by recipe and seed.

    Raises:
        ConfigError: If one cannot be read.
    """
    return sorted(map(Result.load, folder.glob("*.json")), key=lambda result: (result.recipe, result.seed))


def by_recipe(results: Sequence[Result], *, mixes: bool = False) -> list[list[Result]]:
    """Returns the results of each recipe of one world, or of each mix, a run for each seed.

    Seeds that were trained otherwise, played other levels or at another temperature are beside each other and not
    together.

    Raises:
        ConfigError: If two are of one seed.
    """
    found: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        if is_mix(result) == mixes:
            trained = (result.recipe, result.setup or id(result), result.num_iterations, result.num_episodes)
            played = [(each.measure, each.levels, each.kwargs) for each in result.worlds]
            alike = found.setdefault((*trained, result.temperature, json.dumps(played, sort_keys=True)), [])
            if any(each.seed == result.seed for each in alike):
                raise ConfigError(f"Two results of {result.recipe} are of seed {result.seed}. Delete one of them.")
            alike.append(result)
    return list(found.values())


def interval_of(values: Sequence[float], world: WorldResult) -> Interval:
    """Returns the 95 % interval of a mean over a world's levels: Wilson's of successes, else of resampled levels."""
    if world.measure == "success":
        return repeated_interval(*by_level(values, world.levels))
    return seeds_interval([values], levels=world.levels)


def p_value(world: WorldResult) -> float:
    """Returns the two-sided p-value that training changed nothing, level by level."""
    if world.measure != "success":
        return paired_bootstrap(world.before, world.after, levels=world.levels).p_value
    changes, _ = by_level(np.subtract(world.after, world.before), world.levels)
    return sign_flip_test(changes.astype(int).tolist())


def is_mix(result: Result) -> bool:
    """Returns whether a run had several worlds."""
    return len(result.worlds) > 1


def told_p(p: float) -> str:
    """Returns a p-value as tables have it."""
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def lines(results: Sequence[Result]) -> list[str]:
    """Returns a table in Markdown, a line for each recipe of one world; mixes have a table of their own.

    What the expert solves whom the start has imitated, what the trained policies do if they are shown grey, and in how
    many episodes a tool did its work, stands there where anybody measured it. Of several seeds the interval is of other
    seeds and other levels, and so is the p-value; of one, of other levels.
    """
    recipes = by_recipe(results)
    found = [_row(name, seeds) for name, seeds in zip(titles(recipes), recipes, strict=True)]
    measured = {name: any(row[HEADINGS.index(name)] for row in found) for name in (EXPERT, GREY, GREEDY, LOOKED)}
    shown = [place for place, name in enumerate(HEADINGS) if measured.get(name, True)]
    rows: list[Sequence[str]] = [HEADINGS, ["---"] * len(HEADINGS), *found]
    return of_rows([[row[place] for place in shown] for row in rows])


def summary_lines(results: Sequence[Result]) -> list[str]:
    """Returns a table in Markdown with four columns and one row per world: means in percent.

    A world's row is that of its recipe, `<name>_tiny`; controls and variants have other names and are left out.
    """
    recipes = [seeds for seeds in by_recipe(results) if seeds[0].recipe.endswith("_tiny")]
    of_worlds = sorted(([each.worlds[0] for each in seeds] for seeds in recipes), key=lambda worlds: worlds[0].world)
    columns: dict[str, Sequence[str]] = {"world": [_name(worlds[0]) for worlds in of_worlds]}
    for name, heading in (("before", "start"), ("after", "trained"), ("lazy", "best blind script found by a search")):
        columns[heading] = [f"{np.mean([getattr(each, name) for each in worlds]):.0%}" for worlds in of_worlds]
    return of_columns(columns)


def _name(world: WorldResult) -> str:
    """Returns a world's name without namespace and version, and what was measured unless it is success."""
    name = world.world.rpartition("/")[2].partition("-")[0]
    return name if world.measure == "success" else f"{name} ({world.measure})"


def greedy_lines(results: Sequence[Result]) -> list[str]:
    """Returns a table in Markdown, of recipes whose start was played greedily; empty where none was.

    What was trained is held against the start that takes the most probable token at each place: as it draws, and
    greedily, too, where that was measured. The start is one policy, so that seeds are of what was trained alone.
    P-values of a column are corrected by Holm's method, for how many recipes it has.
    """
    recipes = [seeds for seeds in by_recipe(results) if all(each.worlds[0].greedy_before for each in seeds)]
    if not recipes:
        return []
    of_worlds = [[each.worlds[0] for each in seeds] for seeds in recipes]
    columns: dict[str, Sequence[str]] = {"recipe": titles(recipes)}
    for name, told in (("before", "start"), ("greedy_before", "start, greedy"), ("after", "trained")):
        columns[told] = [_mean_of([getattr(each, name) for each in worlds]) for worlds in of_worlds]
    columns[f"trained − start, greedy {TESTED}"] = _ahead_of_greedy_start(of_worlds, "after")
    if any(cells := _ahead_of_greedy_start(of_worlds, "greedy_after")):
        columns[f"both greedy {TESTED}"] = cells
    return of_columns(columns)


def expert_lines(results: Sequence[Result]) -> list[str]:
    """Returns a table in Markdown, of recipes whose start has imitated an expert that errs; empty where none has.

    What was trained is held against that expert, who draws anew for each seed when it errs. P-values are corrected by
    Holm's method, for how many recipes the table has.
    """
    recipes = [
        seeds for seeds in by_recipe(results) if all(min(each.worlds[0].expert or [1.0]) < 1.0 for each in seeds)
    ]
    if not recipes:
        return []
    of_worlds = [[each.worlds[0] for each in seeds] for seeds in recipes]
    columns: dict[str, Sequence[str]] = {"recipe": titles(recipes)}
    for name, told in (("expert", EXPERT), ("after", "trained")):
        columns[told] = [_mean_of([getattr(each, name) for each in worlds]) for worlds in of_worlds]
    gaps = [
        paired_seeds_bootstrap(
            [each.expert or [] for each in worlds], [each.after for each in worlds], levels=worlds[0].levels
        )
        for worlds in of_worlds
    ]
    columns[f"trained − its expert {TESTED}"] = told_gaps(gaps)
    return of_columns(columns)


def _ahead_of_greedy_start(of_worlds: Sequence[Sequence[WorldResult]], which: str) -> list[str]:
    """Returns by how much policies of some seeds are ahead of their greedy start; empty cells where nobody measured."""
    gaps = {}
    for place, worlds in enumerate(of_worlds):
        start, policy = ([getattr(each, name) for each in worlds] for name in ("greedy_before", which))
        if all(policy):
            gaps[place] = paired_seeds_bootstrap(start, policy, levels=worlds[0].levels)
    told = dict(zip(gaps, told_gaps([*gaps.values()]), strict=True))
    return [told.get(place, "") for place in range(len(of_worlds))]


def titles(recipes: Sequence[Sequence[Result]]) -> list[str]:
    """Returns what each recipe's seeds are called, where they are not at temperature 1, and if two are of one name."""
    names = [seeds[0].recipe for seeds in recipes]
    told = []
    for name, (result, *_) in zip(names, recipes, strict=True):
        title = f"`{name}`" if result.temperature == 1.0 else f"`{name}`, temperature {result.temperature:g}"
        told.append(title if names.count(name) == 1 else f"{title}, {result.num_iterations} iterations")
    return told


def told_seeds(worlds: Sequence[WorldResult]) -> str:
    """Returns of how many seeds what stands beside it is, and on how many levels each was measured."""
    return f"{len(worlds)} × {len(worlds[0].levels)}"


def _row(title: str, seeds: Sequence[Result]) -> list[str]:
    """Returns the cells of a recipe that is called so."""
    worlds = [each.worlds[0] for each in seeds]
    world = worlds[0]
    before, after, lazy = ([getattr(each, name) for each in worlds] for name in ("before", "after", "lazy"))
    low, high = interval_of_seeds(worlds)
    greedy, told, looked = (
        [_mean_of([getattr(each, f"{name}_{when}") for each in worlds]) for when in ("before", "after")]
        for name in ("greedy", "told", "looked")
    )
    greedily, given, used = (
        " → ".join(each or "…" for each in pair) if any(pair) else "" for pair in (greedy, told, looked)
    )
    expert, blind = (_mean_of([getattr(each, name) for each in worlds]) for name in ("expert", "blind"))
    return [
        title if world.measure == "success" else f"{title}, {world.measure}",
        f"{np.mean(lazy):.3f}",
        f"{np.mean(before):.3f}",
        f"**{np.mean(after):.3f}** ({low:.3f} to {high:.3f})",
        told_p(p_of_seeds(worlds)),
        expert,
        greedily,
        given,
        blind,
        used,
        f"{np.median([each.minutes for each in seeds]):.0f}",
        world.world,
        told_seeds(worlds),
    ]


def _mean_of(seeds: Sequence[Sequence[float] | None]) -> str:
    """Returns the mean over seeds and levels as tables have it; empty if any seed has none."""
    known = [each for each in seeds if each is not None]
    return f"{np.mean(known):.3f}" if len(known) == len(seeds) else ""


def interval_of_seeds(worlds: Sequence[WorldResult], which: str = "after") -> Interval:
    """Returns the 95 % interval of what the runs of some seeds came to in a world."""
    levels = [getattr(world, which) for world in worlds]
    return interval_of(levels[0], worlds[0]) if len(levels) == 1 else seeds_interval(levels, levels=worlds[0].levels)


def p_of_seeds(worlds: Sequence[WorldResult]) -> float:
    """Returns the two-sided p-value that training changed nothing in a world, of one seed or of all."""
    if len(worlds) == 1:
        return p_value(worlds[0])
    before, after = ([getattr(each, name) for each in worlds] for name in ("before", "after"))
    return paired_seeds_bootstrap(before, after, levels=worlds[0].levels).p_value
