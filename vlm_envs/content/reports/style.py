"""How a report is set: typefaces, colours, the form of tables, where page numbers stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from vlm_envs.content.drawing import pick

Typeface = Literal["sans", "serif", "book"]
_PALETTES = (
    ("#1f4e79", "#2e75b6", "#9dc3e6", "#f4b183", "#c55a11", "#7f7f7f"),
    ("#2f5d50", "#5b8c5a", "#a3b18a", "#d9a441", "#a44a3f", "#6b705c"),
    ("#5c2a4a", "#8e4162", "#c97b84", "#e5b299", "#5f797b", "#a8a7a7"),
    ("#22333b", "#5e503f", "#a9927d", "#c6ac8f", "#7d8597", "#adb5bd"),
    ("#7a1f1f", "#b23a48", "#dd7373", "#f2c57c", "#51513d", "#8c8c7a"),
    ("#0b525b", "#1a759f", "#52b69a", "#b5c99a", "#e07a5f", "#81838c"),
)
"""Six colours each, the leading one first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportStyle:
    """How a report is set.

    Attributes:
        typeface: Of running text.
        palette: Six colours, `#rrggbb`; the first leads.
        table_lines: Rules between rows, shaded rows, or a full grid.
        label_place: Where the page's label stands at the foot.
        label_form: How it is written, with `{label}`.
        letters_appendix: Whether pages of the appendix are labelled A-1, A-2 and so on.
        banner: Whether a coloured band carries the chapter at the head.
        label_size: In points: labels are so large and stand beside the titles instead. They are shapes then, those in
            the contents too, and in no text layer. None for labels at the foot.
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
    """Returns one of the looks, each as likely."""
    return ReportStyle(
        typeface=pick(rng, ("sans", "serif", "book")),
        palette=pick(rng, _PALETTES),
        table_lines=pick(rng, ("rules", "stripes", "grid")),
        label_place=pick(rng, ("middle", "outside", "right")),
        label_form=pick(rng, ("{label}", "– {label} –", "Page {label}")),
        letters_appendix=bool(rng.integers(2)),
        banner=bool(rng.integers(2)),
    )
