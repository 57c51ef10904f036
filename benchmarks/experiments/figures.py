"""Figures of experiments: learning curves of recipes beside their baselines, and of one run stage by stage."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments.experiment import Experiment
from benchmarks.experiments.records import Kind, Record, Span
from benchmarks.experiments.tables import by_variant, seeds_rate_interval, variant_titles
from vlm_envs.statistics.success_rates import wilson_interval
from vlm_envs.validation import require

ENDINGS = (".png", ".svg", ".pdf", ".jpg", ".jpeg")
WORLD_COLORS = ("#2b7a4b", "#2f6db5", "#c0702a", "#8a5fb0", "#8a7a2b", "#b0405a")
_GREY = "#555555"
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
"""Between the points of two worlds, as a share of a stage's iterations."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a panel, or across all of it if it has one height.

    Attributes:
        points: x and y of each point; None for a horizontal line.
        style: For matplotlib, with its color and label.
        height: Of a horizontal line.
    """

    style: dict[str, Any]
    points: list[tuple[float, float]] | None = None
    height: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Point:
    """A mean with its 95 % interval."""

    x: float
    mean: float
    low: float
    high: float
    style: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One pair of axes."""

    title: str = ""
    x_label: str = ""
    y_label: str = ""
    y_limits: tuple[float, float] | None = None
    lines: list[Line] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)


def draw_experiment(experiment: Experiment, records: Sequence[Record], path: Path) -> list[Path]:
    """Draws an experiment's records, and returns the files written.

    Args:
        experiment: With baselines, all variants are panels of one figure; without, each record is a figure of its own.
        records: The records.
        path: The figure's file, or the folder of `<variant>.png`.

    Raises:
        ConfigError: If there are no curves, or no file can be written there.
    """
    require(experiment.claim is None, f"{experiment.name} records no learning curves. Show its table: --table.")
    if experiment.has_baselines:
        require(path.parent.is_dir(), f"There is no folder for {path}.")
        require(not path.is_dir(), f"{path} is a folder. Name a file in it, such as {path / 'results.png'}.")
        require(path.suffix.lower() in ENDINGS, f"{path} must end in one of {', '.join(ENDINGS)}.")
        variants = by_variant(records)
        panels = [_variant_panel(*each) for each in zip(variant_titles(variants), variants, strict=True)]
        columns = min(3, len(panels))
        rows = [panels[first : first + columns] for first in range(0, len(panels), columns)]
        draw(rows, path, size=(3.9 * columns, 2.7 * len(rows)), share_y=True)
        return [path]
    require(not path.suffix, f"{path} is a file, and each variant has its own. Name their folder.")
    path.mkdir(parents=True, exist_ok=True)
    paths = [path / f"{record.variant}.png" for record in records]
    for record, each in zip(records, paths, strict=True):
        draw_run(record, each)
    return paths


def draw_run(record: Record, path: Path) -> None:
    """Draws one run with a column per stage: success above; returns, or losses where nothing is returned, below."""
    spans = [span for span in record.spans if span.points or span.evaluations]
    evaluated = [each.world for span in spans for each in span.evaluations]
    trained = [
        name.partition("/")[2] for span in spans for point in span.points for name in point if "success/" in name
    ]
    worlds = dict.fromkeys([*evaluated, *trained])
    colors = {world: WORLD_COLORS[number % len(WORLD_COLORS)] for number, world in enumerate(worlds)}
    rows = [[_solved_panel(span, colors) for span in spans], [_return_panel(span) for span in spans]]
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
    """Writes a figure of panels, whose legend below names each line and point once."""
    from matplotlib.figure import Figure  # takes half a second, which wrong options need not wait for

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(rows), len(rows[0]), squeeze=False, sharey=share_y, sharex=False if share_y else "col")
    for place, panel in itertools.zip_longest(axes.flat, itertools.chain(*rows)):
        if panel is None:
            place.remove()
        else:
            _draw_panel(place, panel)
    for place in axes[:, 1:].flat if share_y else ():
        place.set_ylabel("")
    figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    named = [place.get_legend_handles_labels() for place in figure.axes]
    handles = {label: handle for of_place in named for handle, label in zip(*of_place, strict=True)}
    columns = max(1, int(size[0] / 3))
    figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=columns, frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def _draw_panel(place: Any, panel: Panel) -> None:
    for line in panel.lines:
        if line.points is None:
            place.axhline(line.height, linewidth=1.2, **line.style)
        elif line.points:
            single = {"marker": "."} if len(line.points) == 1 else {}
            place.plot(*zip(*line.points, strict=True), **{"linewidth": 1.3, **single, **line.style})
    for point in panel.points:
        # An end of an interval may be the mean but for rounding
        reach = [[max(0.0, point.mean - point.low)], [max(0.0, point.high - point.mean)]]
        place.errorbar([point.x], [point.mean], yerr=reach, capsize=2, linewidth=1, markersize=4, **point.style)
    if not place.has_data():
        place.text(0.5, 0.5, "not played", color=_GREY, ha="center", va="center", transform=place.transAxes)
    place.set_title(panel.title, loc="left", fontsize=10)
    place.set(xlabel=panel.x_label, ylabel=panel.y_label, ylim=panel.y_limits)
    place.xaxis.get_major_locator().set_params(integer=True)
    place.grid(alpha=0.25)
    place.spines[["top", "right"]].set_visible(False)


def _variant_panel(title: str, seeds: Sequence[Record]) -> Panel:
    """Returns a panel of a variant: each seed's curves, and the test levels of all seeds before and after training."""
    worlds = [each.worlds[0] for each in seeds]
    panel = Panel(
        title=title.replace("`", ""),
        x_label="iteration",
        y_label="share of levels, or similarity",
        y_limits=(0, 1.02),
    )
    for record, (name, (color, label)) in itertools.product(seeds, _METRICS.items()):
        if name == "success" != worlds[0].measure:
            continue
        points = [point for span in record.spans for point in span.points]
        # Dashed, because predictions may coincide with observations throughout
        dashes: Any = (0, (4, 2)) if name == "prediction" else "-"
        style: dict[str, Any] = {"color": color, "label": label, "linestyle": dashes}
        if len(seeds) > 1:
            style["linewidth"] = 0.8
        panel.lines.append(Line(points=_curve(points, name), style=style))
    color, label = _METRICS[worlds[0].measure]
    for iteration, name in ((0, "before"), (seeds[0].num_iterations, "after")):
        mean, (low, high) = float(np.mean([getattr(each, name) for each in worlds])), seeds_rate_interval(worlds, name)
        style = {"fmt": "o", "color": color, "label": f"{label}, test levels (95 %)"}
        panel.points.append(Point(x=iteration, mean=mean, low=low, high=high, style=style))
    for name, (color, line_style, label) in _BASELINES.items():
        outcomes = [getattr(each, name) for each in worlds]
        if None not in outcomes:
            style = {"color": color, "linestyle": line_style, "label": label}
            panel.lines.append(Line(height=float(np.mean(outcomes)), style=style))
    return panel


def _solved_panel(span: Span, colors: dict[str, str]) -> Panel:
    panel = Panel(title=f"{span.stage}: {_KINDS[span.kind]}", y_label="solved", y_limits=(-0.02, 1.02))
    only = next(iter(colors)) if len(colors) == 1 else ""
    of_worlds = sorted({name for point in span.points for name in point if name.startswith("success/")})
    for name in of_worlds or ["success"]:
        world = name.partition("/")[2]
        style = {"color": colors.get(world or only, _GREY), "label": _labelled("solved in training", world)}
        panel.lines.append(Line(points=_curve(span.points, name), style=style))
    for each in span.evaluations:
        low, high = wilson_interval(each.num_successes, each.num_episodes)
        mark, label = _SPLITS[each.split]
        color = colors[each.world]
        offset = _OFFSET * ([*colors].index(each.world) - (len(colors) - 1) / 2)  # side by side, one for each world
        style = {"fmt": mark, "color": color, "markerfacecolor": "white" if each.split == "val" else color}
        style["label"] = _labelled(label, "" if only else each.world)
        x, mean = each.iteration + offset * max(1, span.num_iterations), each.num_successes / max(1, each.num_episodes)
        panel.points.append(Point(x=x, mean=mean, low=low, high=high, style=style))
    return panel


def _return_panel(span: Span) -> Panel:
    x_label = "iteration" if span.kind == "rl" else "step"
    if any("return" in point for point in span.points):
        style = {"color": _GREY, "label": "return in training, judges' rewards included"}
        return Panel(x_label=x_label, y_label="return", lines=[Line(points=_curve(span.points, "return"), style=style)])
    held_out = {"color": _GREY, "linestyle": "--", "marker": "s", "markersize": 3, "label": "loss, rows held out"}
    lines = [
        Line(points=_curve(span.points, "loss"), style={"color": _GREY, "label": "loss"}),
        Line(points=_curve(span.points, "eval_loss"), style=held_out),
    ]
    return Panel(x_label=x_label, y_label="loss", lines=lines)


def _labelled(label: str, world: str) -> str:
    return f"{label}, {world}" if world else label


def _curve(points: Sequence[dict[str, float]], name: str) -> list[tuple[float, float]]:
    return [(point["iteration"], point[name]) for point in points if name in point]
