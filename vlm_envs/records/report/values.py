"""Values of small graphs: ranges of axes, short numbers, smoothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vlm_envs.records.report.panels import COLD_START, Panel, PanelGroup, Scale

SMOOTH_FROM_NUM_POINTS = 40
"""Shorter curves are drawn as they are."""


def smooth(ys: Sequence[float | None]) -> list[float | None]:
    """Returns the mean of each value and those around it, over a window of a twentieth of the curve.

    The window is centred, so the smoothed curve does not lag; at both ends it is cut in half, not the curve.
    Missing values stay missing and count for nothing.
    """
    reach = max(1, len(ys) // 40)
    result: list[float | None] = []
    for index, here in enumerate(ys):
        window = [y for y in ys[max(0, index - reach) : index + reach + 1] if y is not None]
        result.append(None if here is None else sum(window) / len(window))
    return result


def shared_x_range(groups: Sequence[PanelGroup], group: PanelGroup) -> tuple[float, float]:
    """Returns the first and last iteration of every group on the same axis as one, at least 1 apart.

    The cold start counts its own steps; all others share the iterations of learning.
    """
    sharing = [each for each in groups if (each.title == COLD_START) == (group.title == COLD_START)]
    panels = [panel for each in sharing for panel in each.panels]
    xs = [x for panel in panels for curve in panel.curves for x in curve.xs]
    xs += [x for panel in panels for measured in panel.estimates for x in measured.xs]
    xs = xs or [0.0]
    return min(xs), max(max(xs), min(xs) + 1)


def y_range(panel: Panel) -> tuple[float, float]:
    """Returns the range of a panel's values: 0 to 1 for rates, else theirs with some air."""
    if panel.scale == "rate":
        return 0.0, 1.0
    ys = [y for curve in panel.curves for y in curve.ys if y is not None] or [0.0]
    low, high = min(ys), max(ys)
    air = 0.08 * (high - low) or 0.5 * abs(high) or 0.5
    # An axis that starts a little below 0 suggests values that cannot be
    return (0.0 if 0 <= low <= 3 * air else low - air), high + air


def short(value: float, scale: Scale = "number") -> str:
    """Writes a value with about three digits, in percent for rates, with a true minus sign."""
    if scale == "rate":
        text = f"{100 * value:.1f}".removesuffix(".0") + "%"
    elif value == 0:
        text = "0"
    elif math.isinf(value):
        text = "∞" if value > 0 else "-∞"
    elif abs(value) >= 100_000 or abs(value) < 0.001:
        mantissa, exponent = f"{value:.1e}".split("e")
        text = f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    else:
        digits = max(0, 2 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{digits}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")
