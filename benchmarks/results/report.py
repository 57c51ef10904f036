"""Results as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.results.result import Result, WorldResult
from vlm_envs.records.comparisons import paired_bootstrap
from vlm_envs.records.statistics import Interval, pair_outcomes, wilson_interval

HEADINGS = (
    "recipe",
    "world",
    "lazy rival",
    "start",
    "trained (95 %)",
    "p",
    "true state given: start, trained",
    "minutes",
)
COLOURS = {"success": "#2b7a4b", "similarity": "#8a7a2b", "observation": "#2f6db5", "prediction": "#8a5fb0"}
TOLD = "solved, true state given"
LABELS = {
    "success": "solved",
    "similarity": "similarity",
    "observation": "observations right",
    "prediction": "predictions right",
}


def load_results(folder: Path) -> list[Result]:
    """Returns the results in a folder, by name."""
    return [Result.load(path) for path in sorted(folder.glob("*.json"))]


def interval_of(values: Sequence[float], measure: str) -> Interval:
    """Returns the 95 % interval of a mean over levels: Wilson's of successes, else of resampled levels."""
    if measure == "success":
        return wilson_interval(round(sum(values)), len(values))
    return paired_bootstrap(np.zeros(len(values)), values).interval


def p_value(world: WorldResult) -> float:
    """Returns the two-sided p-value that training changed nothing, level by level."""
    if world.measure != "success":
        return paired_bootstrap(world.before, world.after).p_value
    before, after = ([each == 1.0 for each in of] for of in (world.before, world.after))
    return pair_outcomes(dict(enumerate(before)), dict(enumerate(after))).p_value


def is_mix(result: Result) -> bool:
    """Returns whether a run had several worlds."""
    return len(result.worlds) > 1


def told_p(p: float) -> str:
    """Returns a p-value as tables have it."""
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def lines(results: Sequence[Result]) -> list[str]:
    """Returns a table in Markdown, a line for each run of one world; mixes have a table of their own."""
    rows: list[Sequence[str]] = [HEADINGS, ["---"] * len(HEADINGS)]
    rows += [_row(result, *result.worlds) for result in results if not is_mix(result)]
    return [f"| {' | '.join(row)} |" for row in rows]


def _row(result: Result, world: WorldResult) -> list[str]:
    low, high = interval_of(world.after, world.measure)
    told = [of for of in (world.told_before, world.told_after) if of is not None]
    measure = "" if world.measure == "success" else f" ({world.measure})"
    return [
        f"`{result.recipe}`" + ("" if result.temperature == 1.0 else f", temperature {result.temperature:g}"),
        f"{world.world}{measure}",
        f"{np.mean(world.lazy):.3f}",
        f"{np.mean(world.before):.3f}",
        f"**{np.mean(world.after):.3f}** ({low:.3f} to {high:.3f})",
        told_p(p_value(world)),
        " → ".join(f"{np.mean(each):.3f}" for each in told),
        f"{result.minutes:.0f}",
    ]


def draw(results: Sequence[Result], path: Path) -> None:
    """Writes a picture with a panel a run: what it solved, and how right it saw and foresaw, over training.

    Mixes are left out: what all their worlds come to together says little where shares change.
    """
    from matplotlib.figure import Figure  # half a second, for which a wrong option must not wait

    results = [result for result in results if not is_mix(result)]
    columns = min(3, len(results))
    height = -(-len(results) // columns)
    figure = Figure(figsize=(3.9 * columns, 2.7 * height), layout="constrained")
    panels = list(figure.subplots(height, columns, squeeze=False, sharey=True).flat)
    for panel, result in zip(panels, results, strict=False):
        for name, colour in COLOURS.items():
            shown = [(point["iteration"], point[name]) for point in result.curve if name in point]
            if shown:
                style = (0, (4, 2)) if name == "prediction" else "-"  # which may lie on what is seen, all along
                panel.plot(*zip(*shown, strict=True), color=colour, linewidth=1.3, linestyle=style, label=LABELS[name])
        for world in result.worlds:
            for iteration, values in ((0, world.before), (result.num_iterations, world.after)):
                mean, (low, high) = float(np.mean(values)), interval_of(values, world.measure)
                panel.errorbar(
                    iteration, mean, [[mean - low], [high - mean]], color=COLOURS[world.measure], fmt="o", markersize=4,
                    capsize=2, label=f"{LABELS[world.measure]}, test levels (95 %)",
                )  # fmt: skip
            horizontal = (("#8a8a8a", "--", "lazy rival", world.lazy), ("#c0702a", ":", TOLD, world.told_after))
            for colour, style, label, levels in horizontal:
                if levels is not None:
                    panel.axhline(float(np.mean(levels)), color=colour, linestyle=style, linewidth=1.2, label=label)
        panel.set_title(result.recipe, loc="left", fontsize=10)
        panel.set(xlabel="iteration", ylim=(0, 1.02))
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[len(results) :]:
        panel.remove()
    for panel in panels[: len(results) : columns]:
        panel.set_ylabel("share of levels, or similarity")
    named = [panel.get_legend_handles_labels() for panel in figure.axes]
    handles = {label: handle for panel in named for handle, label in zip(*panel, strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)
