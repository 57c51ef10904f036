"""Charts as pictures (matplotlib, its Agg renderer), the same pixels whatever the user's matplotlib settings are."""

from __future__ import annotations

import functools
import io
from typing import Any

from vlm_envs.content.reports.blocks import Chart
from vlm_envs.content.reports.style import ReportStyle
from vlm_envs.content.reports.typefaces import font_folder
from vlm_envs.tools.errors import require_package

CHART_SIZE_MM = {"bar": (166.0, 68.0), "line": (166.0, 74.0), "pie": (150.0, 84.0)}
_DPI = 120
_MM_PER_INCH = 25.4
_AXIS_GREY = "#555555"


@functools.lru_cache(maxsize=8)  # A page that does not fit is set anew, and its charts are the same
def chart_png(chart: Chart, style: ReportStyle) -> bytes:
    """Draws a chart.

    Args:
        chart: What to draw; its caption is left to the page.
        style: Gives the colours.

    Returns:
        A PNG of `CHART_SIZE_MM` at 120 dots an inch.

    Raises:
        EngineUnavailableError: If matplotlib is not installed.
    """
    styles = require_package("matplotlib.style", "Drawing charts")
    figures = require_package("matplotlib.figure", "Drawing charts")
    agg = require_package("matplotlib.backends.backend_agg", "Drawing charts")
    with styles.context("default"):
        width, height = CHART_SIZE_MM[chart.kind]
        figure = figures.Figure(figsize=(width / _MM_PER_INCH, height / _MM_PER_INCH), dpi=_DPI)
        canvas = agg.FigureCanvasAgg(figure)
        {"bar": _bars, "line": _line, "pie": _pie}[chart.kind](figure, chart, style)
        content = io.BytesIO()
        canvas.print_png(content, metadata={"Software": None}, pil_kwargs={"compress_level": 1})
    return content.getvalue()


def _bars(figure: Any, chart: Chart, style: ReportStyle) -> None:
    axes = _axes(figure, chart)
    positions = range(len(chart.values))
    bars = axes.bar(positions, chart.values, width=0.64, color=style.palette[1], zorder=2)
    axes.set_xticks(list(positions), chart.labels, fontproperties=_font(8))
    axes.set_ylim(0, max(chart.values) * 1.16)
    if chart.shows_values:
        axes.bar_label(bars, padding=2, fontproperties=_font(8), color="black")


def _line(figure: Any, chart: Chart, style: ReportStyle) -> None:
    axes = _axes(figure, chart)
    positions = range(len(chart.values))
    axes.plot(positions, chart.values, color=style.palette[0], marker="o", markersize=4.5, linewidth=1.8, zorder=3)
    axes.set_xticks(list(positions), chart.labels, fontproperties=_font(8))
    axes.set_ylim(0, max(chart.values) * 1.12)
    if chart.shows_values:
        for position, value in zip(positions, chart.values, strict=True):
            axes.annotate(
                str(value), (position, value), xytext=(0, 5), textcoords="offset points", ha="center",
                fontproperties=_font(8),
            )  # fmt: skip


def _pie(figure: Any, chart: Chart, style: ReportStyle) -> None:
    axes = figure.add_axes((0.02, 0.03, 0.52, 0.94))
    labels = [f"{value} %" for value in chart.values] if chart.shows_values else None
    colors = style.palette[: len(chart.values)]
    wedges, texts, *_ = axes.pie(
        chart.values, labels=labels, labeldistance=1.12, colors=colors, startangle=90, counterclock=False,
        wedgeprops={"edgecolor": "white", "linewidth": 1.2},
    )  # fmt: skip
    for text in texts:
        text.set_fontproperties(_font(8.5))
    axes.legend(
        wedges, chart.labels, loc="center left", bbox_to_anchor=(1.12, 0.5), prop=_font(8.5), frameon=False,
        labelspacing=0.9,
    )  # fmt: skip


def _axes(figure: Any, chart: Chart) -> Any:
    """Returns axes with horizontal grid lines and the unit along the side."""
    axes = figure.add_axes((0.085, 0.11, 0.9, 0.85))
    axes.grid(axis="y", color="#d8d8d8", linewidth=0.6, zorder=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_AXIS_GREY)
    axes.set_ylabel(chart.unit, fontproperties=_font(8), color=_AXIS_GREY)
    axes.tick_params(colors=_AXIS_GREY, length=2.5)
    for label in axes.get_yticklabels():
        label.set_fontproperties(_font(8))
    return axes


@functools.cache
def _font(size: float) -> Any:
    manager = require_package("matplotlib.font_manager", "Drawing charts")
    return manager.FontProperties(fname=str(font_folder() / "DejaVuSans.ttf"), size=size)
