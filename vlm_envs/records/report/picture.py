"""The same panels as one PNG, for places that show no HTML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vlm_envs.records.report.axes import (
    SMOOTH_FROM_NUM_POINTS,
    iteration_ticks,
    shared_x_range,
    smooth,
    tick_labels,
    ticks,
    y_range,
)
from vlm_envs.records.report.panels import COLD_START, Panel, PanelGroup

_INK, _MUTED, _RULE, _ACCENT, _POINT = "#1d1c1a", "#77726a", "#e6e2da", "#2b5f8f", "#b3541e"
_NUM_COLUMNS = 3


def save_curves(groups: Sequence[PanelGroup], path: Path, *, title: str) -> None:
    """Draws every panel into one picture.

    Args:
        groups: The panels.
        path: The PNG file to write.
        title: Stands above the panels.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # half a second, for which a wrong path must not wait
    from matplotlib.figure import Figure

    # No pyplot: its current figure is global state, which a trainer may use at the same time
    placed = [
        (f"{group.title} · {panel.title}", panel, shared_x_range(groups, group))
        for group in groups
        for panel in group.panels
    ]
    num_rows = max(1, -(-len(placed) // _NUM_COLUMNS))
    width, height = 11.0, 0.6 + 2.1 * num_rows  # inches
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    figure.suptitle(_plain(title), fontsize=13, color=_INK, x=0.01, y=1 - 0.15 / height, ha="left", va="top")
    # Margins in inches and not matplotlib's solved layout, which takes as long as all the drawing
    margins = {"left": 0.6 / width, "right": 1 - 0.15 / width, "bottom": 0.45 / height, "top": 1 - 0.8 / height}
    grid = figure.subplots(
        num_rows, _NUM_COLUMNS, squeeze=False, gridspec_kw=margins | {"wspace": 0.24, "hspace": 0.55}
    )
    for index, axes in enumerate(grid.flat):
        if index < len(placed):
            _draw(axes, *placed[index])
        else:
            axes.set_axis_off()
    figure.savefig(path, dpi=110)


def _draw(axes: Any, title: str, panel: Panel, x_span: tuple[float, float]) -> None:
    for curve in panel.curves:
        marks = [index for index, y in enumerate(curve.ys) if y is not None and _is_alone(curve.ys, index)]
        axes.plot([curve.xs[i] for i in marks], [curve.ys[i] for i in marks], "o", color=_ACCENT, markersize=4)
        ys = [float("nan") if y is None else y for y in curve.ys]
        if len(ys) < SMOOTH_FROM_NUM_POINTS:
            axes.plot(curve.xs, ys, color=_ACCENT, linewidth=1.6, label=_plain(curve.name))
        else:
            means = [float("nan") if y is None else y for y in smooth(curve.ys)]
            axes.plot(curve.xs, ys, color=_ACCENT, linewidth=0.8, alpha=0.35)
            axes.plot(curve.xs, means, color=_ACCENT, linewidth=1.6, label=_plain(curve.name))
    for index, measured in enumerate(panel.estimates):
        below = [y - low for y, low in zip(measured.ys, measured.lows, strict=True)]
        above = [high - y for y, high in zip(measured.ys, measured.highs, strict=True)]
        shape = dict(fmt="o", markersize=4, linewidth=1.2, color=_POINT, alpha=1.0 if index == 0 else 0.5)
        axes.errorbar(measured.xs, measured.ys, yerr=[below, above], label=_plain(measured.name), **shape)
    if panel.estimates:
        axes.legend(frameon=False, fontsize=7)
    margin = 0.03 * (x_span[1] - x_span[0])
    axes.set(xlim=(x_span[0] - margin, x_span[1] + margin), ylim=y_range(panel))
    axes.set_title(_plain(title), fontsize=9, loc="left", color=_INK)
    axes.tick_params(labelsize=7, colors=_MUTED, length=0)
    values = ticks(*y_range(panel))
    axes.set_yticks(values, tick_labels(values, panel.scale))
    iterations = iteration_ticks(*x_span)
    axes.set_xticks(iterations, tick_labels(iterations))
    axes.set_xlabel("step" if title.startswith(COLD_START) else "iteration", fontsize=7, color=_MUTED)
    axes.set_ylabel(_plain(panel.hint if not panel.is_wide else "share of episodes"), fontsize=7, color=_MUTED)
    axes.grid(axis="y", color=_RULE, linewidth=0.7)
    axes.spines[:].set_visible(False)


def _is_alone(ys: Sequence[float | None], index: int) -> bool:
    """Returns whether no line leads to a value, so that only a mark shows it."""
    return not any(0 <= beside < len(ys) and ys[beside] is not None for beside in (index - 1, index + 1))


def _plain(text: str) -> str:
    """Returns a text that matplotlib can draw: without formulas and lone surrogates."""
    return text.encode("utf-8", errors="replace").decode("utf-8").replace("$", r"\$")
