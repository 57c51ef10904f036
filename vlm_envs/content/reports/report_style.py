"""Typography and layout of a report: colors, tables, page numbers, and typefaces."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from vlm_envs.content.random_choice import pick
from vlm_envs.tools.tool_errors import require_package

Typeface = Literal["sans", "serif", "book"]
_PALETTES = (
    ("#1f4e79", "#2e75b6", "#9dc3e6", "#f4b183", "#c55a11", "#7f7f7f"),
    ("#2f5d50", "#5b8c5a", "#a3b18a", "#d9a441", "#a44a3f", "#6b705c"),
    ("#5c2a4a", "#8e4162", "#c97b84", "#e5b299", "#5f797b", "#a8a7a7"),
    ("#22333b", "#5e503f", "#a9927d", "#c6ac8f", "#7d8597", "#adb5bd"),
    ("#7a1f1f", "#b23a48", "#dd7373", "#f2c57c", "#51513d", "#8c8c7a"),
    ("#0b525b", "#1a759f", "#52b69a", "#b5c99a", "#e07a5f", "#81838c"),
)
"""Six colors each, the primary one first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportStyle:
    """Style of a report.

    Attributes:
        typeface: Typeface of running text.
        palette: Six colors, `#rrggbb`, the primary one first.
        table_lines: Rules between rows, shaded rows, or a full grid.
        label_place: Position of the page number in the footer.
        label_form: Format of the page number, with `{label}`.
        letters_appendix: Whether pages of the appendix are numbered A-1, A-2, and so on.
        banner: Whether the header is a colored band with the chapter.
        label_size: Size of page numbers in points. They then stand next to the titles and are drawn as
            shapes, like those in the table of contents, outside the text layer. None for numbers in the
            footer.
    """

    typeface: Typeface
    palette: tuple[str, ...]
    table_lines: Literal["rules", "stripes", "grid"]
    label_place: Literal["middle", "outside", "right"]
    label_form: str
    letters_appendix: bool
    banner: bool
    label_size: int | None = None


def draw_style(rng: np.random.Generator) -> ReportStyle:
    """Returns a random style; each choice is uniform."""
    return ReportStyle(
        typeface=pick(rng, ("sans", "serif", "book")),
        palette=pick(rng, _PALETTES),
        table_lines=pick(rng, ("rules", "stripes", "grid")),
        label_place=pick(rng, ("middle", "outside", "right")),
        label_form=pick(rng, ("{label}", "– {label} –", "Page {label}")),
        letters_appendix=bool(rng.integers(2)),
        banner=bool(rng.integers(2)),
    )


_WEIGHTS = ("regular", "bold", "italic")
_FILES: dict[Typeface, tuple[str, str, str, float]] = {
    "sans": ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSans-Oblique.ttf", 8.7),
    "serif": ("STIXGeneral.ttf", "STIXGeneralBol.ttf", "STIXGeneralItalic.ttf", 11.0),
    "book": ("DejaVuSerif.ttf", "DejaVuSerif-Bold.ttf", "DejaVuSerif-Italic.ttf", 8.6),
}
"""Regular, bold, italic, and the comfortable size of running text in points."""

_SHAPE_SIZE = 200.0
"""Font size at which curves become polygons, in points; fine enough for the largest numbers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fonts:
    """A typeface's font names in reportlab.

    Attributes:
        regular: Font of running text.
        bold: Font of headings.
        italic: Font of captions.
        size: Size of running text, in points.
    """

    regular: str
    bold: str
    italic: str
    size: float


@functools.cache
def registered(typeface: Typeface) -> Fonts:
    """Registers a typeface with reportlab and returns its fonts.

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
    """A line of text as polygons, filled by the even-odd rule.

    Attributes:
        polygons: Corners, at a size of 1 point, with the baseline starting at (0, 0).
        width: x of the rightmost corner.
        height: y of the highest corner.
    """

    polygons: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


@functools.cache
def shape_of(text: str, typeface: Typeface, weight: str) -> Shape:
    """Returns a line of text as a shape, to draw it outside the text layer.

    Args:
        text: Text with at least one character that is not blank.
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
    """Returns the folder of the fonts shipped with matplotlib.

    Raises:
        EngineUnavailableError: If matplotlib is not installed.
    """
    return Path(require_package("matplotlib", "Rendering reports").get_data_path()) / "fonts" / "ttf"
