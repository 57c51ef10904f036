"""Figures of experiments: learning curves of recipes with their baselines, and of single runs by stage."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments.experiment import Experiment
from benchmarks.experiments.records import Kind, Record, Span
from benchmarks.experiments.tables import by_variant, seeds_rate_interval, variant_titles
from vlm_envs.statistics.success_rates import Interval, wilson_interval
from vlm_envs.validation import require

ENDINGS = (".png", ".svg", ".pdf", ".jpg", ".jpeg")
WORLD_COLORS = ("#2b7a4b", "#2f6db5", "#c0702a", "#8a5fb0", "#8a7a2b", "#b0405a")
_GRAY = "#555555"
_METRICS = {
    "success": ("#2b7a4b", "solved"),
    "similarity": ("#8a7a2b", "similarity"),
    "observation": ("#2f6db5", "observations right"),
    "prediction": ("#8a5fb0", "predictions right"),
    "thought": ("#2a9d9d", "thoughts of what is seen right"),
    "tool_used": ("#b0487a", "tool used"),
}
"""Color and label of each metric of a curve."""
_BASELINES = {
    "lazy": ("#8a8a8a", "--", "lazy rival"),
    "expert": ("#3d3d3d", "-.", "expert it imitated"),
    "told_after": ("#c0702a", ":", "solved, true state given"),
}
_KINDS: dict[Kind, str] = {
    "curation": "curation",
    "imitation": "cold start",
    "sft": "fine-tuning",
    "rl": "reinforcement learning",
}
_SPLITS = {"val": ("s", "validation levels (95 %)"), "test": ("o", "test levels (95 %)")}
_OFFSET = 0.012
"""Offset between the points of two worlds, as a share of a stage's iterations."""


Panel = Callable[[Any], None]
"""Draws into one matplotlib `Axes`."""


def draw_experiment(experiment: Experiment, records: Sequence[Record], path: Path) -> list[Path]:
    """Draws an experiment's records and returns the written files.

    Args:
        experiment: With baselines, each variant is a panel of one figure; without, each record is a separate figure.
        records: The records.
        path: The figure's file, or the folder of `<variant>.png`.

    Raises:
        ConfigError: If there are no curves, or the file cannot be written.
    """
    require(experiment.claim is None, f"{experiment.name} records no learning curves. Show its table: --table.")
    if experiment.has_baselines:
        require(path.parent.is_dir(), f"The folder of {path} does not exist.")
        require(not path.is_dir(), f"{path} is a folder. Name a file in it, such as {path / 'results.png'}.")
        require(path.suffix.lower() in ENDINGS, f"{path} must end in one of {', '.join(ENDINGS)}.")
        variants = by_variant(records)
        panels = [partial(_variant_panel, *variant) for variant in zip(variant_titles(variants), variants, strict=True)]
        columns = min(3, len(panels))
        rows = [panels[first : first + columns] for first in range(0, len(panels), columns)]
        draw(rows, path, size=(3.9 * columns, 2.7 * len(rows)), share_y=True)
        return [path]
    require(not path.suffix, f"{path} is a file, but each variant has its own. Name their folder.")
    path.mkdir(parents=True, exist_ok=True)
    figure_paths = [path / f"{record.variant}.png" for record in records]
    for record, figure_path in zip(records, figure_paths, strict=True):
        draw_run(record, figure_path)
    return figure_paths


def draw_run(record: Record, path: Path) -> None:
    """Draws one run with a column per stage: success in the top row, returns or losses in the bottom row."""
    spans = [span for span in record.spans if span.points or span.evaluations]
    evaluated = [evaluation.world for span in spans for evaluation in span.evaluations]
    trained = [
        name.partition("/")[2] for span in spans for point in span.points for name in point if "success/" in name
    ]
    worlds = dict.fromkeys([*evaluated, *trained])
    colors = {world: WORLD_COLORS[number % len(WORLD_COLORS)] for number, world in enumerate(worlds)}
    rows: list[list[Panel]] = [
        [partial(_solved_panel, span, colors) for span in spans],
        [partial(_return_panel, span) for span in spans],
    ]
    notes = [f"{span.stage}: {span.note}" for span in record.spans if span.note]
    draw(rows, path, size=(1.2 + 3.8 * len(spans), 4.8), title="\n".join([record.variant, *notes]))


def draw(
    rows: Sequence[Sequence[Panel]],
    path: Path,
    *,
    size: tuple[float, float],
    title: str = "",
    share_y: bool = False,
) -> None:
    """Writes a figure of panels with one shared legend below."""
    from matplotlib.figure import Figure  # slow to import, so that usage errors stay fast

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(rows), len(rows[0]), squeeze=False, sharey=share_y, sharex=False if share_y else "col")
    for axis, panel in itertools.zip_longest(axes.flat, itertools.chain(*rows)):
        if panel is None:
            axis.remove()
        else:
            panel(axis)
    for axis in axes[:, 1:].flat if share_y else ():
        axis.set_ylabel("")
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    named = [axis.get_legend_handles_labels() for axis in figure.axes]
    handles = {label: handle for of_axis in named for handle, label in zip(*of_axis, strict=True)}
    columns = max(1, int(size[0] / 3))
    figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=columns, frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def _line(axis: Any, points: Sequence[dict[str, float]], name: str, **style: Any) -> None:
    """Draws a metric of a curve if it is present."""
    xy = [(point["iteration"], point[name]) for point in points if name in point]
    if xy:
        single = {"marker": "."} if len(xy) == 1 else {}
        axis.plot(*zip(*xy, strict=True), **{"linewidth": 1.3, **single, **style})


def _point(axis: Any, x: float, mean: float, interval: Interval, **style: Any) -> None:
    """Draws a mean with its 95% interval."""
    # Rounding may put the mean slightly outside an interval that ends there
    reach = [[max(0.0, mean - interval.low)], [max(0.0, interval.high - mean)]]
    axis.errorbar([x], [mean], yerr=reach, capsize=2, linewidth=1, markersize=4, **style)


def _finish(axis: Any, title: str = "", **settings: Any) -> None:
    if not axis.has_data():
        axis.text(0.5, 0.5, "not played", color=_GRAY, ha="center", va="center", transform=axis.transAxes)
    axis.set_title(title, loc="left", fontsize=10)
    axis.set(**settings)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def _variant_panel(title: str, seeds: Sequence[Record], axis: Any) -> None:
    """Draws a variant: each seed's curves, and the test results of all seeds before and after training."""
    worlds = [record.worlds[0] for record in seeds]
    for record, (name, (color, label)) in itertools.product(seeds, _METRICS.items()):
        if name == "success" != worlds[0].measure:
            continue
        points = [point for span in record.spans for point in span.points]
        # Dashed, because predictions may coincide with observations
        dashes: Any = (0, (4, 2)) if name == "prediction" else "-"
        width = {"linewidth": 0.8} if len(seeds) > 1 else {}
        _line(axis, points, name, color=color, label=label, linestyle=dashes, **width)
    for name, (color, line_style, label) in _BASELINES.items():
        outcomes = [getattr(world, name) for world in worlds]
        if None not in outcomes:
            axis.axhline(float(np.mean(outcomes)), linewidth=1.2, color=color, linestyle=line_style, label=label)
    color, label = _METRICS[worlds[0].measure]
    for iteration, name in ((0, "before"), (seeds[0].num_iterations, "after")):
        mean, interval = float(np.mean([getattr(world, name) for world in worlds])), seeds_rate_interval(worlds, name)
        _point(axis, iteration, mean, interval, fmt="o", color=color, label=f"{label}, test levels (95 %)")
    axes = {"xlabel": "iteration", "ylabel": "share of levels, or similarity", "ylim": (0, 1.02)}
    _finish(axis, title.replace("`", ""), **axes)


def _solved_panel(span: Span, colors: dict[str, str], axis: Any) -> None:
    only = next(iter(colors)) if len(colors) == 1 else ""
    of_worlds = sorted({name for point in span.points for name in point if name.startswith("success/")})
    for name in of_worlds or ["success"]:
        world = name.partition("/")[2]
        label = _labeled("solved in training", world)
        _line(axis, span.points, name, color=colors.get(world or only, _GRAY), label=label)
    for evaluation in span.evaluations:
        mark, label = _SPLITS[evaluation.split]
        color = colors[evaluation.world]
        offset = _OFFSET * ([*colors].index(evaluation.world) - (len(colors) - 1) / 2)  # worlds side by side
        _point(
            axis,
            evaluation.iteration + offset * max(1, span.num_iterations),
            evaluation.num_successes / max(1, evaluation.num_episodes),
            wilson_interval(evaluation.num_successes, evaluation.num_episodes),
            fmt=mark,
            color=color,
            markerfacecolor="white" if evaluation.split == "val" else color,
            label=_labeled(label, "" if only else evaluation.world),
        )
    _finish(axis, f"{span.stage}: {_KINDS[span.kind]}", ylabel="solved", ylim=(-0.02, 1.02))


def _return_panel(span: Span, axis: Any) -> None:
    is_returned = any("return" in point for point in span.points)
    if is_returned:
        _line(axis, span.points, "return", color=_GRAY, label="return in training, judges' rewards included")
    else:
        _line(axis, span.points, "loss", color=_GRAY, label="loss")
        held_out: dict[str, Any] = {"linestyle": "--", "marker": "s", "markersize": 3, "label": "loss, rows held out"}
        _line(axis, span.points, "eval_loss", color=_GRAY, **held_out)
    x_label = "iteration" if span.kind == "rl" else "step"
    _finish(axis, xlabel=x_label, ylabel="return" if is_returned else "loss")


def _labeled(label: str, world: str) -> str:
    return f"{label}, {world}" if world else label
