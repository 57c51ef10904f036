"""What pictures of benchmarks have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vlm_envs.statistics.rates import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def interval_point(place: Axes, x: float, mean: float, interval: Interval, *, colour: str, label: str) -> None:
    """Draws a mean as a point with its interval, an end of which may be the mean but for rounding."""
    reach = [[max(mean - interval.low, 0.0)], [max(interval.high - mean, 0.0)]]
    place.errorbar(x, mean, reach, color=colour, fmt="o", markersize=4, capsize=2, label=label)


def legend_below(figure: Figure, places: Iterable[Axes], *, columns: int) -> None:
    """Writes below all panels what each colour and line is, once, in the order in which they are drawn first."""
    named = [place.get_legend_handles_labels() for place in places]
    handles = {label: handle for of_place in named for handle, label in zip(*of_place, strict=True)}
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns, frameon=False, fontsize=9
    )
