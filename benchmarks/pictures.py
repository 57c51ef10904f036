"""What pictures of results and of claims have in common."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from vlm_envs.statistics.success_rates import Interval
from vlm_envs.validation import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".pdf", ".jpg", ".jpeg")
"""What pictures may end in."""


def require_place(*pictures: Path | None) -> None:
    """Refuses pictures that could not be written where they are to go; those that are None are not asked for.

    A folder is refused, since the picture would go beside it, into a file of its name and an ending; so is an ending
    that pictures cannot be written with.

    Raises:
        ConfigError: If there is no folder for one, one is a folder itself, or its ending is none of `ENDINGS`.
    """
    for picture in pictures:
        if picture is not None:
            require(picture.parent.is_dir(), f"There is no folder for {picture}.")
            require(
                not picture.is_dir(), f"{picture} is a folder. Name a file in it, such as {picture / 'picture.png'}."
            )
            require(picture.suffix.lower() in ENDINGS, f"{picture} is to end in one of {', '.join(ENDINGS)}.")


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
