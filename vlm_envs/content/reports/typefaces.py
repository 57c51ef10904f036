"""Typefaces that come with matplotlib, embedded in every PDF: a page looks the same on machines without fonts."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from vlm_envs.content.reports.style import Typeface
from vlm_envs.tools.tool_errors import require_package

_WEIGHTS = ("regular", "bold", "italic")
_FILES: dict[Typeface, tuple[str, str, str, float]] = {
    "sans": ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSans-Oblique.ttf", 8.7),
    "serif": ("STIXGeneral.ttf", "STIXGeneralBol.ttf", "STIXGeneralItalic.ttf", 11.0),
    "book": ("DejaVuSerif.ttf", "DejaVuSerif-Bold.ttf", "DejaVuSerif-Italic.ttf", 8.6),
}
"""Regular, bold, italic, and the size in points at which running text reads well."""

_SHAPE_SIZE = 200.0
"""At which curves become polygons, in points: fine enough for the largest numbers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fonts:
    """Names under which reportlab knows a typeface.

    Attributes:
        regular: Of running text.
        bold: Of headings.
        italic: Of captions.
        size: Of running text, in points.
    """

    regular: str
    bold: str
    italic: str
    size: float


@functools.cache
def registered(typeface: Typeface) -> Fonts:
    """Returns a typeface, registered with reportlab.

    Raises:
        EngineUnavailableError: If reportlab or matplotlib is not installed.
    """
    metrics = require_package("reportlab.pdfbase.pdfmetrics", "Rendering reports")
    ttfonts = require_package("reportlab.pdfbase.ttfonts", "Rendering reports")
    *files, size = _FILES[typeface]
    names = [f"vlm-{typeface}-{weight}" for weight in _WEIGHTS]
    for name, file in zip(names, files, strict=True):
        metrics.registerFont(ttfonts.TTFont(name, str(font_folder() / str(file))))
    return Fonts(regular=names[0], bold=names[1], italic=names[2], size=float(size))


@dataclass(frozen=True, slots=True)
class Shape:
    """A line of text as polygons, of which what an odd number of them cover is filled.

    Attributes:
        polygons: Corners, of type at 1 point whose base line begins at (0, 0).
        width: Of the rightmost corner.
        height: Of the highest corner.
    """

    polygons: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


@functools.cache
def shape_of(text: str, typeface: Typeface, weight: str) -> Shape:
    """Returns a line of text as it is drawn where no text layer shall hold it.

    Args:
        text: At least one character that is not blank.
        typeface: A typeface.
        weight: `"regular"`, `"bold"` or `"italic"`.

    Raises:
        EngineUnavailableError: If matplotlib is not installed.
    """
    textpath = require_package("matplotlib.textpath", "Rendering reports")
    manager = require_package("matplotlib.font_manager", "Rendering reports")
    file = _FILES[typeface][_WEIGHTS.index(weight)]
    properties = manager.FontProperties(fname=str(font_folder() / str(file)))
    path = textpath.TextPath((0, 0), text, size=_SHAPE_SIZE, prop=properties)
    polygons = tuple(
        tuple((float(x) / _SHAPE_SIZE, float(y) / _SHAPE_SIZE) for x, y in polygon) for polygon in path.to_polygons()
    )
    corners = [corner for polygon in polygons for corner in polygon]
    return Shape(polygons, max(x for x, _ in corners), max(y for _, y in corners))


def font_folder() -> Path:
    """Returns the folder of matplotlib's own fonts.

    Raises:
        EngineUnavailableError: If matplotlib is not installed.
    """
    return Path(require_package("matplotlib", "Rendering reports").get_data_path()) / "fonts" / "ttf"
