"""Panels drawn by matplotlib: each as an SVG element of the page, and all of them in one PNG file."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from vlm_envs.records.report_panels import (
    COLD_START,
    SMOOTH_FROM_NUM_POINTS,
    Estimates,
    Panel,
    PanelGroup,
    shared_x_range,
    short,
    smooth,
    y_range,
)

_INK = "#1d1c1a"
_RUNS = _ACCENT, _OTHER = "#2b5f8f", "#6b5b95"
_SERIES = _POINT, _, _GOOD, *_MORE = (
    *("#b3541e", _OTHER, "#2c7a4b"),
    *("#9999ff", "#55ccdd", "#ccbb99", "#003344", "#eeaa55", "#552200"),
)
"""Colors of points, in turn, distinguishable also without seeing red, green, or blue."""
_MARKERS = (("o", 8), ("s", 7), ("^", 8), ("D", 6.5), ("v", 8), ("P", 9), ("X", 9), ("*", 12), ("<", 8))
"""Markers of points, in turn, with sizes at which they look equal; the page's style sheet has the same for legends."""
_MUTED, _RULE, _PAPER = "#6e6961", "#e3dfd6", "#fbfaf7"
_VARIABLES = {
    _ACCENT: "accent",
    _OTHER: "other",
    _POINT: "point",
    _GOOD: "good",
    _MUTED: "muted",
    _RULE: "rule",
    _PAPER: "paper",
    **{color: f"series{number}" for number, color in enumerate(_MORE, start=3)},
}
"""Names of the colors as CSS variables of the page, which has a light and a dark mode."""

_LEFT_PX, _RIGHT_PX, _TOP_PX, _BOTTOM_PX = 44, 12, 12, 22
_MAX_POINTS = 600
"""More points than pixels would only enlarge the file."""
_MIN_BAND_POINTS = 5
_NUM_COLUMNS = 3
_PLAIN_EXPONENTS = (-4, 6)
"""Powers of ten between which an axis' numbers are written out: there is room for seven digits."""
_MAX_NAMES_INSIDE, _MAX_NAMES_BELOW_EACH_OTHER = 4, 10
"""Maximum number of names of a legend in a panel of the PNG file, and of a column of a legend next to its panel."""
_TIP = "tip:"


def look_of(index: int) -> tuple[int, int]:
    """Returns the indices of the color and of the marker of a series of points; 81 series differ."""
    return index % len(_SERIES), (index + index // len(_SERIES)) % len(_MARKERS)


def look_classes(index: int) -> str:
    """Returns the CSS classes with which the page's legend shows the look of a series of points."""
    return "series{} marker{}".format(*look_of(index))


def panel_svgs(panel: Panel, x_span: tuple[float, float], *, marks: Sequence[float] = ()) -> list[str]:
    """Returns a panel over a span of iterations as SVG elements: a wide one fills the page, with a version for phones.

    A line is drawn across it at each of the marks.
    """
    import matplotlib
    from matplotlib.figure import Figure  # half a second, for which a wrong path must not wait

    drawings = []
    for width, height in [(1080, 300), (360, 220)] if panel.is_wide else [(340, 168)]:
        # No pyplot: its current figure is global state, which a trainer may use at the same time
        figure = Figure(figsize=(width / 72, height / 72))  # so that a pixel is a point, the unit of the file
        axes = figure.subplots(
            gridspec_kw={
                "left": _LEFT_PX / width,
                "right": 1 - _RIGHT_PX / width,
                "bottom": _BOTTOM_PX / height,
                "top": 1 - _TOP_PX / height,
            }
        )
        _draw(axes, panel, x_span, num_iterations=round(width / 100), marks=marks)
        file = io.StringIO()
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": _plain(f"{panel.title} {width}")}):
            figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
        drawings.append(_for_page(file.getvalue(), panel.title, height))
    return drawings


def save_curves(groups: Sequence[PanelGroup], path: Path, *, title: str, marks: Sequence[float] = ()) -> None:
    """Draws every panel, under a title, into one PNG file, with a line across those of learning at each mark."""
    from matplotlib.figure import Figure

    placed = [(group, panel) for group in groups for panel in group.panels]
    cells, num_cells = _cells([panel for _, panel in placed])
    num_rows = max(1, -(-num_cells // _NUM_COLUMNS))
    width, height = 11.0, 0.6 + 2.1 * num_rows  # inches
    figure = Figure(figsize=(width, height), facecolor="white")
    figure.suptitle(_plain(title), fontsize=13, color=_INK, x=0.01, y=1 - 0.15 / height, ha="left", va="top")
    # Margins in inches instead of matplotlib's automatic layout, which takes as long as all the drawing
    margins = {"left": 0.7 / width, "right": 1 - 0.15 / width, "bottom": 0.45 / height, "top": 1 - 0.8 / height}
    spaces = {"wspace": 0.24, "hspace": 0.55}
    grid = figure.subplots(num_rows, _NUM_COLUMNS, squeeze=False, gridspec_kw=margins | spaces)
    for cell in set(range(grid.size)) - set(cells):
        grid.flat[cell].set_axis_off()
    for cell, (group, panel) in zip(cells, placed, strict=True):
        axes = grid.flat[cell]
        _draw(axes, panel, shared_x_range(groups, group), marks=() if group.title == COLD_START else marks)
        if panel.estimates:
            _draw_legend(axes, panel)
        axes.set_title(_plain(f"{group.title} · {panel.title}"), fontsize=9, loc="left", color=_INK)
        axes.set_xlabel("step" if group.title == COLD_START else "iteration", fontsize=7, color=_MUTED)
        axes.set_ylabel(_plain(panel.hint if not panel.is_wide else "share of episodes"), fontsize=7, color=_MUTED)
    figure.savefig(path, dpi=110)


def _cells(panels: Sequence[Panel]) -> tuple[list[int], int]:
    """Returns the cell of each panel in the PNG file, row by row, and the total number of cells.

    A panel with a long legend starts a new row, and occupies the whole row.
    """
    cells, taken = [], 0
    for panel in panels:
        is_long = _num_names(panel) > _MAX_NAMES_INSIDE
        taken += -taken % _NUM_COLUMNS if is_long else 0
        cells.append(taken)
        taken += _NUM_COLUMNS if is_long else 1
    return cells, taken


def _num_names(panel: Panel) -> int:
    """Returns the number of names in a panel's legend; only panels with points have one."""
    return len(panel.curves) + len(panel.estimates) if panel.estimates else 0


def _draw_legend(axes: Any, panel: Panel) -> None:
    """Draws the legend inside the panel, or next to it if it would cover the curves."""
    style = {"frameon": False, "fontsize": 7}
    num_names = _num_names(panel)
    if num_names <= _MAX_NAMES_INSIDE:
        axes.legend(**style)
    else:
        num_columns = -(-num_names // _MAX_NAMES_BELOW_EACH_OTHER)
        axes.legend(**style, loc="upper left", bbox_to_anchor=(1.02, 1.05), ncols=num_columns, borderaxespad=0)


def _draw(
    axes: Any, panel: Panel, x_span: tuple[float, float], *, num_iterations: int = 4, marks: Sequence[float] = ()
) -> None:
    """Draws curves, estimates, marks, and the axes' numbers."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    for mark in marks:
        axes.axvline(mark, color=_MUTED, linewidth=0.8, linestyle=(0, (2, 3)))
    for curve, color in zip(panel.curves, _RUNS, strict=False):
        _draw_line(axes, curve.xs, curve.ys, color=color, label=_plain(curve.name))
    is_by_run = len(panel.estimates) == len(panel.curves) > 1
    for index, estimates in enumerate(panel.estimates):
        number, marker = look_of(index)
        _draw_estimates(axes, estimates, _RUNS[index] if is_by_run else _SERIES[number], *_MARKERS[marker])
    axes.set(xlim=x_span, ylim=y_range(panel))
    axes.xaxis.set_major_locator(MaxNLocator(num_iterations, integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(5 if panel.is_wide else 4, steps=[1, 2, 5, 10]))
    axes.ticklabel_format(axis="x", style="plain", useOffset=False)
    axes.ticklabel_format(axis="y", scilimits=_PLAIN_EXPONENTS)
    if panel.scale == "rate":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.tick_params(labelsize=7, colors=_MUTED, length=0)
    axes.yaxis.get_offset_text().set(size=7, color=_MUTED)
    axes.grid(axis="y", color=_RULE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)


def _draw_line(axes: Any, xs: Sequence[float], ys: Sequence[float | None], *, color: str, label: str) -> None:
    """Draws a curve; a long one as a faint line with its running mean above it."""
    is_long = len(ys) >= SMOOTH_FROM_NUM_POINTS
    stride = max(1, -(-len(xs) // _MAX_POINTS))
    style = {"color": color, "solid_capstyle": "round", "clip_on": False}
    if is_long:
        axes.plot(xs[::stride], _gaps(ys[::stride]), linewidth=1, alpha=0.3, **style)
    drawn = smooth(ys) if is_long else ys
    axes.plot(xs[::stride], _gaps(drawn[::stride]), linewidth=1.9, label=label, **style)
    # No line leads to a value between two gaps
    padded = [None, *drawn, None]
    alone = [i for i, y in enumerate(drawn) if y is not None and padded[i] is None and padded[i + 2] is None]
    axes.plot([xs[i] for i in alone], [drawn[i] for i in alone], "o", color=color, markersize=6, clip_on=False)


def _gaps(ys: Sequence[float | None]) -> list[float]:
    return [math.nan if y is None else y for y in ys]


def _draw_estimates(axes: Any, estimates: Estimates, color: str, marker: str, size: float) -> None:
    """Draws points with their intervals; on the page, each shows its numbers on hover."""
    # A band between a few points far apart would suggest a course that was not measured
    if len(estimates.xs) >= _MIN_BAND_POINTS:
        axes.fill_between(estimates.xs, estimates.lows, estimates.highs, color=color, alpha=0.1, linewidth=0)
    axes.vlines(estimates.xs, estimates.lows, estimates.highs, color=color, linewidth=1.6)
    shape = {"markersize": size, "markeredgecolor": _PAPER, "markeredgewidth": 1.5, "clip_on": False, "zorder": 3}
    label = _plain(estimates.name)
    for x, y, low, high in zip(estimates.xs, estimates.ys, estimates.lows, estimates.highs, strict=True):
        said = f"{estimates.name}: {short(y, 'rate')} ({short(low, 'rate')}–{short(high, 'rate')})"
        axes.plot(x, y, marker, color=color, label=label, gid=_TIP + _plain(said), **shape)
        label = "_"  # only one entry in the legend


def _for_page(svg: str, title: str, height: int) -> str:
    """Returns an SVG file's element, with the page's colors, tooltips, and a line that follows the mouse."""
    element = svg[svg.index("<svg") :]
    element = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|font-(size|family): [^;]*; ", "", element, flags=re.DOTALL
    )
    element = re.sub(rf'<g id="{_TIP}([^"]*)">', r"<g><title>\1</title>", element)
    element = re.sub(r'<g id="[^"]*">', "<g>", element)
    for color, variable in _VARIABLES.items():
        element = element.replace(color, f"var(--{variable})")
    size = re.search(r'viewBox="[^"]*"', element)
    assert size is not None
    cursor = f'<line class="cursor" x1="0" x2="0" y1="{_TOP_PX}" y2="{height - _BOTTOM_PX}"/>'
    inside = element[element.index(">") + 1 : element.rindex("</svg>")]
    return (
        f'<svg {size[0]} data-left="{_LEFT_PX}" data-right="{_RIGHT_PX}" role="img" '
        f'aria-label="{escape(title)}">{inside}{cursor}</svg>'
    )


def _plain(text: str) -> str:
    """Returns a text that matplotlib can draw: without formulas and unpaired surrogates."""
    return text.encode("utf-8", errors="replace").decode("utf-8").replace("$", r"\$")
