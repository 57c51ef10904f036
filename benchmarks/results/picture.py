"""Results as pictures: a panel a recipe, or a world of a mix."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.pictures import interval_point, legend_below
from benchmarks.results.report import by_recipe, interval_of_seeds, titles
from benchmarks.results.result import Result, WorldResult
from vlm_envs.validation import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "success": "#2b7a4b",
    "similarity": "#8a7a2b",
    "observation": "#2f6db5",
    "prediction": "#8a5fb0",
    "thought": "#2a9d9d",
    "tool_used": "#b0487a",
}
TOLD = "solved, true state given"
EXPERT = "expert it imitated"
LABELS = {
    "success": "solved",
    "similarity": "similarity",
    "observation": "observations right",
    "prediction": "predictions right",
    "thought": "thoughts of what is seen right",
    "tool_used": "tool used",
}


def draw(results: Sequence[Result], path: Path) -> None:
    """Writes a picture with a panel a recipe: what it solved, how right it saw and foresaw, if tools were used.

    Mixes are left out: what all their worlds come to together says little where shares change.
    """
    recipes = by_recipe(results)
    named = zip(titles(recipes), recipes, strict=True)
    _draw_panels([_of_recipe(title.replace("`", ""), seeds) for title, seeds in named], path)


def draw_mixes(results: Sequence[Result], path: Path) -> None:
    """Writes a picture with such a panel for each world of each mix.

    Raises:
        ConfigError: If there is no mix.
    """
    mixes = by_recipe(results, mixes=True)
    require(bool(mixes), f"There is no mix to draw in {path}: all results are of runs in one world.")
    _draw_panels([panel for seeds in mixes for panel in _of_mix(seeds)], path)


@dataclass(frozen=True, kw_only=True)
class _Panel:
    """What is drawn of one world: a curve of each seed, and what they came to together."""

    title: str
    curves: list[list[dict[str, float]]]
    worlds: list[WorldResult]
    num_iterations: int


def _of_recipe(title: str, seeds: Sequence[Result]) -> _Panel:
    return _Panel(
        title=title,
        curves=[each.curve for each in seeds],
        worlds=[each.worlds[0] for each in seeds],
        num_iterations=seeds[0].num_iterations,
    )


def _of_mix(seeds: Sequence[Result]) -> list[_Panel]:
    return [
        _Panel(
            title=f"{seeds[0].recipe}: {worlds[0].world}",
            curves=[each.curve for each in worlds],
            worlds=list(worlds),
            num_iterations=seeds[0].num_iterations,
        )
        for worlds in zip(*(each.worlds for each in seeds), strict=True)
    ]


def _draw_panels(panels: Sequence[_Panel], path: Path) -> None:
    from matplotlib.figure import Figure  # half a second, for which a wrong option must not wait

    columns = min(3, len(panels))
    height = -(-len(panels) // columns)
    figure = Figure(figsize=(3.9 * columns, 2.7 * height), layout="constrained")
    places = list(figure.subplots(height, columns, squeeze=False, sharey=True).flat)
    for place, panel in zip(places, panels, strict=False):
        _draw_panel(place, panel)
    for place in places[len(panels) :]:
        place.remove()
    for place in places[: len(panels) : columns]:
        place.set_ylabel("share of levels, or similarity")
    legend_below(figure, figure.axes, columns=4)
    figure.savefig(path, dpi=110)


def _draw_panel(place: Axes, panel: _Panel) -> None:
    for curve, (name, colour) in itertools.product(panel.curves, COLOURS.items()):
        shown = [(point["iteration"], point[name]) for point in curve if name in point]
        if shown:
            style = (0, (4, 2)) if name == "prediction" else "-"  # which may lie on what is seen, all along
            width = 1.3 if len(panel.curves) == 1 else 0.8
            place.plot(*zip(*shown, strict=True), color=colour, linewidth=width, linestyle=style, label=LABELS[name])
    measure = panel.worlds[0].measure
    for iteration, which in ((0, "before"), (panel.num_iterations, "after")):
        mean = float(np.mean([getattr(world, which) for world in panel.worlds]))
        interval = interval_of_seeds(panel.worlds, which)
        label = f"{LABELS[measure]}, test levels (95 %)"
        interval_point(place, iteration, mean, interval, colour=COLOURS[measure], label=label)
    horizontal = (
        ("#8a8a8a", "--", "lazy rival", "lazy"),
        ("#3d3d3d", "-.", EXPERT, "expert"),
        ("#c0702a", ":", TOLD, "told_after"),
    )
    for colour, style, label, which in horizontal:
        levels = [getattr(world, which) for world in panel.worlds]
        if None not in levels:
            place.axhline(float(np.mean(levels)), color=colour, linestyle=style, linewidth=1.2, label=label)
    place.set_title(panel.title, loc="left", fontsize=10)
    place.set(xlabel="iteration", ylim=(0, 1.02))
    place.grid(alpha=0.25)
    place.spines[["top", "right"]].set_visible(False)
