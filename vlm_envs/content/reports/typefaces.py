"""Typefaces that come with matplotlib, embedded in every PDF: a page looks the same on machines without fonts."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from vlm_envs.content.reports.style import Typeface
from vlm_envs.tools.errors import require_package

_FILES: dict[Typeface, tuple[str, str, str, float]] = {
    "sans": ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSans-Oblique.ttf", 8.7),
    "serif": ("STIXGeneral.ttf", "STIXGeneralBol.ttf", "STIXGeneralItalic.ttf", 11.0),
    "book": ("DejaVuSerif.ttf", "DejaVuSerif-Bold.ttf", "DejaVuSerif-Italic.ttf", 8.6),
}
"""Regular, bold, italic, and the size in points at which running text reads well."""


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
    names = [f"vlm-{typeface}-{weight}" for weight in ("regular", "bold", "italic")]
    for name, file in zip(names, files, strict=True):
        metrics.registerFont(ttfonts.TTFont(name, str(font_folder() / str(file))))
    return Fonts(regular=names[0], bold=names[1], italic=names[2], size=float(size))


def font_folder() -> Path:
    """Returns the folder of matplotlib's own fonts.

    Raises:
        EngineUnavailableError: If matplotlib is not installed.
    """
    return Path(require_package("matplotlib", "Rendering reports").get_data_path()) / "fonts" / "ttf"
