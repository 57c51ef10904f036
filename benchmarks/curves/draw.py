"""The picture of a run's course: a column a stage, what it solved above, what it was paid or lost below."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.curves.curve import Kind, RunCurve, Span
from vlm_envs.statistics.success_rates import wilson_interval

COLOURS = ("#2b7a4b", "#2f6db5", "#c0702a", "#8a5fb0", "#8a7a2b", "#b0405a")
"""Of worlds, in the order they come up; after the last the first comes again."""

_GREY = "#555555"
_INCHES_OF_A_NAME = 3.6
_APART = 0.012
"""Between the points of two worlds, as a part of a stage's iterations."""
_MARKS = {"val": "s", "test": "o"}
_LEVELS = {"val": "validation levels (95 %)", "test": "test levels (95 %)"}
_KINDS: dict[Kind, str] = {
    "curation": "curation",
    "imitation": "cold start",
    "sft": "fine-tuning",
    "rl": "reinforcement learning",
}


def draw(curve: RunCurve, path: Path) -> None:
    """Writes the picture of a run.

    Solved are episodes of training (lines) and levels of evaluations (points, with Wilson's 95 % intervals); a stage
    that solves nothing by itself has its loss alone. Curations, which have no curve, are told in a line.
    """
    from matplotlib.figure import Figure  # half a second, for which a wrong option must not wait

    spans = [span for span in curve.spans if span.points or span.evaluations]
    worlds = _worlds(spans)
    colours = {world: COLOURS[number % len(COLOURS)] for number, world in enumerate(worlds)}
    figure = Figure(figsize=(1.2 + 3.8 * len(spans), 4.8), layout="constrained")
    panels = figure.subplots(2, len(spans), squeeze=False, sharex="col")
    for column, span in enumerate(spans):
        above, below = panels[0][column], panels[1][column]
        _draw_solved(above, span, colours)
        below.xaxis.get_major_locator().set_params(integer=True)
        _draw_paid(below, span)
        unit = "iteration" if span.kind == "rl" else "step"
        below.set_xlabel(unit)
        above.set_title(f"{span.stage}: {_KINDS[span.kind]}", loc="left", fontsize=10)
    for panel in panels.flat:
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    notes = [f"{span.stage}: {span.note}" for span in curve.spans if span.note]
    figure.suptitle("\n".join([curve.name, *notes]), x=0.01, ha="left", fontsize=10)
    _name(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _worlds(spans: Sequence[Span]) -> list[str]:
    """Returns what runs call their worlds, in the order they come up."""
    evaluated = [each.world for span in spans for each in span.evaluations]
    trained = [key.partition("/")[2] for span in spans for point in span.points for key in point if "success/" in key]
    return [*dict.fromkeys([*evaluated, *trained])]


def _draw_solved(panel: Any, span: Span, colours: dict[str, str]) -> None:
    of_worlds = sorted({key for point in span.points for key in point if key.startswith("success/")})
    only = next(iter(colours), "") if len(colours) == 1 else ""
    for key in of_worlds or ["success"]:
        world = key.partition("/")[2]
        colour = colours.get(world or only, _GREY)
        _line(panel, span, key, color=colour, label=f"solved in training{f', {world}' if world else ''}")
    for each in span.evaluations:
        low, high = wilson_interval(each.num_successes, each.num_episodes)
        rate = each.num_successes / max(1, each.num_episodes)
        colour = colours[each.world]
        place = [*colours].index(each.world) - (len(colours) - 1) / 2  # side by side, where several worlds are played
        panel.errorbar(
            [each.iteration + _APART * place * max(1, span.num_iterations)],
            [rate],
            yerr=[[max(0.0, rate - low)], [max(0.0, high - rate)]],
            fmt=_MARKS.get(each.split, "o"),
            color=colour,
            markerfacecolor="white" if each.split == "val" else colour,
            capsize=2,
            linewidth=1,
            label=f"{_LEVELS.get(each.split, each.split)}{'' if only else f', {each.world}'}",
        )
    panel.set_ylim(-0.02, 1.02)
    panel.set_ylabel("solved")
    if not panel.has_data():
        panel.text(0.5, 0.5, "not played", color=_GREY, ha="center", va="center", transform=panel.transAxes)


def _draw_paid(panel: Any, span: Span) -> None:
    if any("return" in point for point in span.points):
        _line(panel, span, "return", color=_GREY, label="return in training, judges' rewards included")
        panel.set_ylabel("return")
        return
    _line(panel, span, "loss", color=_GREY, label="loss")
    _line(panel, span, "eval_loss", color=_GREY, linestyle="--", marker="s", markersize=3, label="loss, rows held out")
    panel.set_ylabel("loss")


def _line(panel: Any, span: Span, key: str, **style: Any) -> None:
    shown = [(point["iteration"], point[key]) for point in span.points if key in point]
    if shown:
        style = {"linewidth": 1.3, **({"marker": "."} if len(shown) == 1 else {}), **style}
        panel.plot(*zip(*shown, strict=True), **style)


def _name(figure: Any) -> None:
    """Writes what lines and points are below the picture, each once."""
    named = [panel.get_legend_handles_labels() for panel in figure.axes]
    handles = {label: handle for panel in named for handle, label in zip(*panel, strict=True)}
    columns = max(1, int(figure.get_figwidth() / _INCHES_OF_A_NAME))
    figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=columns, frameon=False, fontsize=8)
