"""Blocks as reportlab's flowables: things that know how high they are and how to draw themselves."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from vlm_envs.content.reports.blocks import AtAGlance, Block, Chart, Clauses, Heading, Paragraph, Table
from vlm_envs.content.reports.charts import CHART_SIZE_MM, chart_png
from vlm_envs.content.reports.style import ReportStyle
from vlm_envs.content.reports.typefaces import Fonts
from vlm_envs.tools.tool_errors import require_package

POINTS_PER_MM = 72 / 25.4
TEXT_WIDTH = 170 * POINTS_PER_MM
_PURPOSE = "Rendering reports"


def _platypus() -> Any:
    return require_package("reportlab.platypus", _PURPOSE)


@dataclass(frozen=True, slots=True)
class Typesetting:
    """How blocks are set.

    Attributes:
        style: Of the report.
        fonts: Of its typeface.
        scale: Of sizes and gaps; below 1 where a page would not fit.
    """

    style: ReportStyle
    fonts: Fonts
    scale: float = 1.0

    def paragraph(self, text: str, **style: Any) -> Any:
        """Returns a paragraph of plain text.

        Args:
            text: Without markup.
            **style: Overrides of reportlab's ParagraphStyle. `fontSize` is a factor of the size of running text.
        """
        styles = require_package("reportlab.lib.styles", _PURPOSE)
        size = self.fonts.size * self.scale * style.pop("fontSize", 1.0)
        settings = {"fontName": self.fonts.regular, "fontSize": size, "leading": size * 1.42, **style}
        return _platypus().Paragraph(escape(text), styles.ParagraphStyle("block", **settings))

    def gap(self, factor: float = 1.0) -> Any:
        """Returns empty space; a factor of 1 parts two paragraphs."""
        return _platypus().Spacer(1, self.fonts.size * 0.8 * self.scale * factor)


def flowables_of(block: Block, setting: Typesetting) -> list[Any]:
    """Returns the flowables of a block with the space below it; nothing for a cover or contents."""
    palette, fonts = setting.style.palette, setting.fonts
    match block:
        case Heading(text):
            heading = setting.paragraph(text, fontName=fonts.bold, fontSize=1.15, textColor=palette[0])
            return [setting.gap(0.5), heading, setting.gap(0.4)]
        case Paragraph(text, style):
            return [*_paragraph(text, style, setting), setting.gap()]
        case Clauses(number, texts):
            return _clauses(number, texts, setting)
        case AtAGlance(entries):
            return _at_a_glance(entries, setting)
        case Table():
            return [setting.gap(0.6), _caption(block.caption, setting), _table(block, setting), setting.gap(1.6)]
        case Chart():
            return [setting.gap(0.6), _caption(block.caption, setting), _chart(block, setting), setting.gap(1.4)]
        case _:
            return []


def _paragraph(text: str, style: str, setting: Typesetting) -> list[Any]:
    if style == "lead":
        return [setting.paragraph(text, fontSize=1.12, textColor="#222222")]
    if style == "quote":
        quote = setting.paragraph(
            text, fontName=setting.fonts.italic, fontSize=1.25, textColor=setting.style.palette[0], leftIndent=24,
            rightIndent=24,
        )  # fmt: skip
        return [setting.gap(), quote, setting.gap()]
    return [setting.paragraph(text, alignment=4)]


def _caption(text: str, setting: Typesetting) -> Any:
    return setting.paragraph(
        text, fontName=setting.fonts.bold, fontSize=0.96, textColor=setting.style.palette[0], spaceAfter=3
    )


def _clauses(number: int, texts: tuple[str, ...], setting: Typesetting) -> list[Any]:
    rows = [
        [setting.paragraph(f"{number}.{index}", fontName=setting.fonts.bold), setting.paragraph(text)]
        for index, text in enumerate(texts, start=1)
    ]
    style = [
        ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ("LEFTPADDING", (0, 0), (0, -1), 0),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 7),
    ]
    return [_platypus().Table(rows, colWidths=[40, TEXT_WIDTH - 40], style=style), setting.gap()]


def _at_a_glance(entries: tuple[tuple[str, str], ...], setting: Typesetting) -> list[Any]:
    labels = [setting.paragraph(label, fontSize=0.85, textColor="#666666") for label, _ in entries]
    values = [setting.paragraph(value, fontName=setting.fonts.bold) for _, value in entries]
    style = [
        ("BACKGROUND", (0, 0), (-1, -1), "#f3f1ec"),
        ("LINEABOVE", (0, 0), (-1, 0), 1.4, setting.style.palette[0]),
        ("LEFTPADDING", (0, 0), (-1, -1), 9),
        ("BOTTOMPADDING", (0, 1), (-1, 1), 7),
    ]
    box = _platypus().Table([labels, values], colWidths=[TEXT_WIDTH / len(entries)] * len(entries), style=style)
    return [box, setting.gap(1.5)]


def _chart(chart: Chart, setting: Typesetting) -> Any:
    width, height = CHART_SIZE_MM[chart.kind]
    factor = POINTS_PER_MM * min(setting.scale, 1.0)
    return _platypus().Image(
        io.BytesIO(chart_png(chart, setting.style)), width * factor, height * factor, hAlign="LEFT"
    )


def _table(table: Table, setting: Typesetting) -> Any:
    numeric = [all(cell.replace(",", "").isdigit() for cell in column) for column in zip(*table.rows, strict=True)]
    color = setting.style.palette[0] if setting.style.table_lines == "rules" else "#ffffff"
    head = [
        setting.paragraph(text, fontName=setting.fonts.bold, alignment=2 * right, textColor=color)
        for text, right in zip(table.columns, numeric, strict=True)
    ]
    rows = [head]
    for index, row in enumerate(table.rows):
        weight = setting.fonts.bold if table.has_total and index == len(table.rows) - 1 else setting.fonts.regular
        rows.append(
            [
                setting.paragraph(cell, fontName=weight, alignment=2 * right)
                for cell, right in zip(row, numeric, strict=True)
            ]
        )
    return _platypus().Table(rows, colWidths=_widths(table), style=_table_style(table, setting), hAlign="LEFT")


def _widths(table: Table) -> list[float]:
    """Divides the text's width by the longest cell of each column, within bounds."""
    columns = [[heading, *(row[index] for row in table.rows)] for index, heading in enumerate(table.columns)]
    longest = [min(30, max(11, max(len(cell) for cell in column[1:]), len(column[0]) * 0.7)) for column in columns]
    return [TEXT_WIDTH * count / sum(longest) for count in longest]


def _table_style(table: Table, setting: Typesetting) -> list[tuple[Any, ...]]:
    lead, last = setting.style.palette[0], len(table.rows)
    style: list[tuple[Any, ...]] = [
        ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
        ("TOPPADDING", (0, 0), (-1, -1), 3.5),
        ("BOTTOMPADDING", (0, 0), (-1, -1), 3.5),
    ]
    match setting.style.table_lines:
        case "rules":
            style += [("LINEABOVE", (0, 0), (-1, 0), 1.2, lead), ("LINEBELOW", (0, 0), (-1, 0), 0.8, lead)]
            style += [("LINEBELOW", (0, 1), (-1, -1), 0.3, "#bbbbbb"), ("LINEBELOW", (0, last), (-1, last), 1.2, lead)]
        case "stripes":
            style += [("BACKGROUND", (0, 0), (-1, 0), lead), ("LINEBELOW", (0, last), (-1, last), 0.8, lead)]
            style += [("BACKGROUND", (0, row), (-1, row), "#efefea") for row in range(2, last + 1, 2)]
        case "grid":
            style += [("BACKGROUND", (0, 0), (-1, 0), lead), ("GRID", (0, 0), (-1, -1), 0.5, "#8a8a8a")]
    if table.has_total:
        style.append(("LINEABOVE", (0, last), (-1, last), 0.9, "#333333"))
    return style
