"""Results as a table and as a picture."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.results.result import Result, WorldResult
from vlm_envs.errors import ConfigError
from vlm_envs.statistics.bootstrap import by_level, paired_bootstrap, paired_seeds_bootstrap, seeds_interval
from vlm_envs.statistics.pairs import sign_flip_test
from vlm_envs.statistics.rates import Interval, repeated_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREY = "shown grey"
LOOKED = "tool used: start, trained"
HEADINGS = (
    "recipe",
    "world",
    "seeds",
    "lazy rival",
    GREY,
    "start",
    "trained (95 %)",
    "p",
    "true state given: start, trained",
    LOOKED,
    "minutes",
)
COLOURS = {
    "success": "#2b7a4b",
    "similarity": "#8a7a2b",
    "observation": "#2f6db5",
    "prediction": "#8a5fb0",
    "thought": "#2a9d9d",
    "tool_used": "#b0487a",
}
TOLD = "solved, true state given"
LABELS = {
    "success": "solved",
    "similarity": "similarity",
    "observation": "observations right",
    "prediction": "predictions right",
    "thought": "thoughts of what is seen right",
    "tool_used": "tool used",
}


def load_results(folder: Path) -> list[Result]:
    """Returns the results in a folder, by recipe and seed.

    Raises:
        ConfigError: If one cannot be read.
    """
    return sorted(map(Result.load, folder.glob("*.json")), key=lambda result: (result.recipe, result.seed))


def by_recipe(results: Sequence[Result]) -> list[list[Result]]:
    """Returns the results of each recipe, a run for each seed; mixes, which have a table of their own, are left out.

    Seeds that were trained otherwise, played other levels or at another temperature are beside each other and not
    together.

    Raises:
        ConfigError: If two are of one seed.
    """
    found: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        if not is_mix(result):
            (world,) = result.worlds
            trained = (result.recipe, result.setup or id(result), result.num_iterations, result.num_episodes)
            played = (result.temperature, world.measure, tuple(world.levels), json.dumps(world.kwargs, sort_keys=True))
            alike = found.setdefault((*trained, *played), [])
            if any(each.seed == result.seed for each in alike):
                raise ConfigError(f"Two results of {result.recipe} are of seed {result.seed}. Delete one of them.")
            alike.append(result)
    return list(found.values())


def interval_of(values: Sequence[float], world: WorldResult) -> Interval:
    """Returns the 95 % interval of a mean over a world's levels: Wilson's of successes, else of resampled levels."""
    if world.measure == "success":
        return repeated_interval(*by_level(values, world.levels))
    return paired_bootstrap(np.zeros(len(values)), values, levels=world.levels).interval


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

    What the trained policies solve if they are shown grey, and in how many episodes a tool did its work, stands there
    where anybody measured it. Of several seeds the interval is of other seeds and other levels, and so is the p-value;
    of one, of other levels.
    """
    found = [*map(_row, by_recipe(results))]
    measured = {name: any(row[HEADINGS.index(name)] for row in found) for name in (GREY, LOOKED)}
    shown = [place for place, name in enumerate(HEADINGS) if measured.get(name, True)]
    rows: list[Sequence[str]] = [HEADINGS, ["---"] * len(HEADINGS), *found]
    return [f"| {' | '.join(row[place] for place in shown)} |" for row in rows]


def _row(seeds: Sequence[Result]) -> list[str]:
    result, worlds = seeds[0], [each.worlds[0] for each in seeds]
    world = worlds[0]
    before, after, lazy = ([getattr(each, name) for each in worlds] for name in ("before", "after", "lazy"))
    low, high = _interval_of_seeds(worlds)
    told, looked = (
        [[getattr(each, f"{name}_{when}") for each in worlds] for when in ("before", "after")]
        for name in ("told", "looked")
    )
    measure = "" if world.measure == "success" else f" ({world.measure})"
    return [
        f"`{result.recipe}`" + ("" if result.temperature == 1.0 else f", temperature {result.temperature:g}"),
        f"{world.world}{measure}",
        str(len(seeds)),
        f"{np.mean(lazy):.3f}",
        "" if any(each.blind is None for each in worlds) else f"{np.mean([each.blind for each in worlds]):.3f}",
        f"{np.mean(before):.3f}",
        f"**{np.mean(after):.3f}** ({low:.3f} to {high:.3f})",
        told_p(
            p_value(world) if len(seeds) == 1 else paired_seeds_bootstrap(before, after, levels=world.levels).p_value
        ),
        *(" → ".join(f"{np.mean(each):.3f}" for each in pair if None not in each) for pair in (told, looked)),
        f"{np.mean([each.minutes for each in seeds]):.0f}",
    ]


def _interval_of_seeds(worlds: Sequence[WorldResult], which: str = "after") -> Interval:
    """Returns the 95 % interval of what the runs of some seeds came to."""
    levels = [getattr(world, which) for world in worlds]
    return interval_of(levels[0], worlds[0]) if len(levels) == 1 else seeds_interval(levels, levels=worlds[0].levels)


def draw(results: Sequence[Result], path: Path) -> None:
    """Writes a picture with a panel a recipe: what it solved, how right it saw and foresaw, if tools were used.

    Mixes are left out: what all their worlds come to together says little where shares change.
    """
    from matplotlib.figure import Figure  # half a second, for which a wrong option must not wait

    recipes = by_recipe(results)
    columns = min(3, len(recipes))
    height = -(-len(recipes) // columns)
    figure = Figure(figsize=(3.9 * columns, 2.7 * height), layout="constrained")
    panels = list(figure.subplots(height, columns, squeeze=False, sharey=True).flat)
    for panel, seeds in zip(panels, recipes, strict=False):
        _draw_panel(panel, seeds)
    for panel in panels[len(recipes) :]:
        panel.remove()
    for panel in panels[: len(recipes) : columns]:
        panel.set_ylabel("share of levels, or similarity")
    named = [panel.get_legend_handles_labels() for panel in figure.axes]
    handles = {label: handle for panel in named for handle, label in zip(*panel, strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)


def _draw_panel(panel: Axes, seeds: Sequence[Result]) -> None:
    """Draws the seeds of a recipe: a curve each, and what they came to together."""
    for result, (name, colour) in itertools.product(seeds, COLOURS.items()):
        shown = [(point["iteration"], point[name]) for point in result.curve if name in point]
        if shown:
            style = (0, (4, 2)) if name == "prediction" else "-"  # which may lie on what is seen, all along
            width = 1.3 if len(seeds) == 1 else 0.8
            panel.plot(*zip(*shown, strict=True), color=colour, linewidth=width, linestyle=style, label=LABELS[name])
    worlds = [each.worlds[0] for each in seeds]
    measure = worlds[0].measure
    for iteration, which in ((0, "before"), (seeds[0].num_iterations, "after")):
        mean = float(np.mean([getattr(world, which) for world in worlds]))
        low, high = _interval_of_seeds(worlds, which)
        panel.errorbar(
            iteration, mean, [[mean - low], [high - mean]], color=COLOURS[measure], fmt="o", markersize=4, capsize=2,
            label=f"{LABELS[measure]}, test levels (95 %)",
        )  # fmt: skip
    horizontal = (("#8a8a8a", "--", "lazy rival", "lazy"), ("#c0702a", ":", TOLD, "told_after"))
    for colour, style, label, which in horizontal:
        levels = [getattr(world, which) for world in worlds]
        if None not in levels:
            panel.axhline(float(np.mean(levels)), color=colour, linestyle=style, linewidth=1.2, label=label)
    panel.set_title(seeds[0].recipe, loc="left", fontsize=10)
    panel.set(xlabel="iteration", ylim=(0, 1.02))
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
