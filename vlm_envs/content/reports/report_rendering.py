"""Reports as PDF files: charts (matplotlib), flowables and pages (reportlab), and documents rendered on demand."""

from __future__ import annotations

import functools
import io
import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from vlm_envs.content.reports.composition import PLAIN, Numbering, Page, Report, compose_report
from vlm_envs.content.reports.report_pages import (
    NOTE_MARK,
    AtAGlance,
    Block,
    Chart,
    Clauses,
    Contents,
    Cover,
    Heading,
    Paragraph,
    Table,
)
from vlm_envs.content.reports.report_style import Fonts, ReportStyle, Shape, font_folder, registered, shape_of
from vlm_envs.tools.data_files import BoundedCache
from vlm_envs.tools.pdf_documents import PAGE_LONG_SIDE_PX, PdfDocument, check_page_number
from vlm_envs.tools.pictures import Picture
from vlm_envs.tools.tool_errors import require_package

CHART_SIZE_MM = {"bar": (166.0, 68.0), "line": (166.0, 74.0), "pie": (150.0, 84.0)}
_DPI = 120
_MM_PER_INCH = 25.4
_AXIS_GREY = "#555555"


@functools.lru_cache(maxsize=8)  # a page that does not fit is set again with the same charts
def chart_png(chart: Chart, style: ReportStyle) -> bytes:
    """Draws a chart.

    Args:
        chart: The chart; the page draws its caption.
        style: Provides the colors.

    Returns:
        A PNG of `CHART_SIZE_MM` at 120 dots per inch.

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
    bars = axes.bar(range(len(chart.values)), chart.values, width=0.64, color=style.palette[1], zorder=2)
    _set_scales(axes, chart, 1.16)
    if chart.shows_values:
        axes.bar_label(bars, padding=2, fontproperties=_font(8), color="black")


def _line(figure: Any, chart: Chart, style: ReportStyle) -> None:
    axes = _axes(figure, chart)
    line = {"color": style.palette[0], "marker": "o", "markersize": 4.5, "linewidth": 1.8}
    axes.plot(range(len(chart.values)), chart.values, **line, zorder=3)
    _set_scales(axes, chart, 1.12)


def _set_scales(axes: Any, chart: Chart, headroom: float) -> None:
    axes.set_xticks(list(range(len(chart.values))), chart.labels, fontproperties=_font(8))
    axes.set_ylim(0, max(chart.values) * headroom)


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
    """Returns axes with horizontal grid lines and a label for the unit."""
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


POINTS_PER_MM = 72 / 25.4
TEXT_WIDTH = 170 * POINTS_PER_MM
_PURPOSE = "Rendering reports"


def _platypus() -> Any:
    return require_package("reportlab.platypus", _PURPOSE)


@dataclass(frozen=True, slots=True)
class Typesetting:
    """Settings for laying out blocks.

    Attributes:
        style: Style of the report.
        fonts: Fonts of its typeface.
        scale: Factor for sizes and gaps, chosen so that a page fits.
    """

    style: ReportStyle
    fonts: Fonts
    scale: float = 1.0

    def paragraph(self, text: str, **style: Any) -> Any:
        """Returns a paragraph of plain text.

        Args:
            text: Text without markup.
            **style: Overrides of reportlab's ParagraphStyle. `fontSize` is relative to the size of running
                text.
        """
        styles = require_package("reportlab.lib.styles", _PURPOSE)
        size = self.fonts.size * self.scale * style.pop("fontSize", 1.0)
        settings = {"fontName": self.fonts.regular, "fontSize": size, "leading": size * 1.42, **style}
        return _platypus().Paragraph(escape(text), styles.ParagraphStyle("block", **settings))

    def gap(self, factor: float = 1.0) -> Any:
        """Returns empty space; a factor of 1 is the gap between paragraphs."""
        return _platypus().Spacer(1, self.fonts.size * 0.8 * self.scale * factor)


def flowables_of(block: Block, setting: Typesetting) -> list[Any]:
    """Returns the flowables of a block and the gap below it; empty for a cover or contents."""
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
    """Divides the text width by the longest cell of each column, within bounds."""
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


PAGE_WIDTH, PAGE_HEIGHT = 210 * POINTS_PER_MM, 297 * POINTS_PER_MM
_MARGIN = 20 * POINTS_PER_MM
_TOP = PAGE_HEIGHT - 24 * POINTS_PER_MM
_FOOT = 14 * POINTS_PER_MM
_BOTTOM = 24 * POINTS_PER_MM
_SCALES = (1.16, 1.08, 1.0, 0.93, 0.86, 0.8)
_SMALL_SCALES = (0.75, 0.7, 0.65, 0.6)
_LABEL_TOP = PAGE_HEIGHT - 17 * POINTS_PER_MM
_LABEL_ROOM = 0.3 * TEXT_WIDTH
"""Maximum width of a large label; wider ones are scaled down, since titles stand next to them."""

_GREY = "#666666"

_lock = threading.Lock()
"""reportlab's fonts and matplotlib are not thread-safe."""


def render_pdf(report: Report, *, numbers: Collection[int] | None = None) -> bytes:
    """Renders a report.

    Args:
        report: The report.
        numbers: Positions of the pages to render, from 1, looking as they do in the whole report; None for
            all.

    Returns:
        A PDF of these pages, with embedded fonts and a text layer. Chart values are only in images.

    Raises:
        EngineUnavailableError: If reportlab or matplotlib is not installed.
        AssertionError: If a page's content does not fit, which would be a bug in the texts of this package.
    """
    pdfgen = require_package("reportlab.pdfgen.canvas", "Rendering reports")
    content = io.BytesIO()
    with _lock:
        fonts = registered(report.style.typeface)
        canvas = pdfgen.Canvas(content, pagesize=(PAGE_WIDTH, PAGE_HEIGHT), invariant=1, pageCompression=1)
        canvas.setTitle(f"{report.organisation.name}: {report.title}")
        for number, page in enumerate(report.pages, start=1):
            if numbers is None or number in numbers:
                _draw_page(canvas, report, page, number, fonts)
                canvas.showPage()
        canvas.save()
    return content.getvalue()


def text_layer(report: Report, number: int) -> str:
    """Returns the text layer of a page without rendering it; a PDF reader may return it in another order.

    Args:
        report: The report.
        number: Position of the page, from 1.
    """
    page = report.pages[number - 1]
    if _is_cover(page):
        return page.text
    name, title, style = report.organisation.name, report.title, report.style
    head = [page.chapter or title] if style.banner else [name, page.chapter or title]
    foot = [] if style.label_size else [style.label_form.format(label=page.label)]
    if style.label_place != "middle":
        foot.append(f"{name} · {title}")
    return "\n".join((*head, _text_without_labels(page) if style.label_size else page.text, *foot))


def _text_without_labels(page: Page) -> str:
    """Returns a page's text layer without header and footer, for reports whose labels are shapes."""
    contents = [block for block in page.blocks if isinstance(block, Contents)]
    titles = [title for block in contents for title, _, _ in block.entries]
    return "\n".join((page.title, *titles)) if contents else page.text


def _is_cover(page: Page) -> bool:
    return bool(page.blocks) and isinstance(page.blocks[0], Cover)


def _draw_page(canvas: Any, report: Report, page: Page, number: int, fonts: Fonts) -> None:
    if isinstance(page.blocks[0], Cover):
        _draw_cover(canvas, report, page.blocks[0], fonts)
        return
    _draw_head(canvas, report, page, fonts)
    _draw_foot(canvas, report, page, number, fonts)
    bottom = _draw_notes(canvas, page, fonts)
    top = _draw_title(canvas, report, page, fonts)
    if page.blocks and isinstance(page.blocks[0], Contents):
        _draw_contents(canvas, page.blocks[0], report, fonts, top)
    else:
        _draw_blocks(canvas, report, page, fonts, top, bottom)


def _draw_cover(canvas: Any, report: Report, cover: Cover, fonts: Fonts) -> None:
    """Draws colored bands, the organization at the top, and the title below the middle."""
    palette = report.style.palette
    canvas.setFillColor(palette[0])
    canvas.rect(0, PAGE_HEIGHT * 0.52, PAGE_WIDTH, PAGE_HEIGHT * 0.48, stroke=0, fill=1)
    steps = 5
    for index in range(steps):
        canvas.setFillColor(palette[1 + index])
        left = PAGE_WIDTH * index / steps
        height = PAGE_HEIGHT * (0.05 + 0.035 * ((index * 3 + report.organisation.years[0]) % steps))
        canvas.rect(left, PAGE_HEIGHT * 0.52, PAGE_WIDTH / steps, height, stroke=0, fill=1)
    _pen(canvas, "#ffffff", fonts.bold, 21)
    canvas.drawString(_MARGIN, PAGE_HEIGHT * 0.88, cover.organisation)
    _pen(canvas, palette[0], fonts.bold, 34)
    canvas.drawString(_MARGIN, PAGE_HEIGHT * 0.4, cover.title)
    _pen(canvas, _GREY, fonts.regular, 20)
    canvas.drawString(_MARGIN, PAGE_HEIGHT * 0.4 - 34, cover.period)


def _draw_head(canvas: Any, report: Report, page: Page, fonts: Fonts) -> None:
    """Draws the chapter, on a colored band or above a thin rule."""
    height = 13 * POINTS_PER_MM
    head = page.chapter or report.title
    if report.style.banner:
        canvas.setFillColor(report.style.palette[0])
        canvas.rect(0, PAGE_HEIGHT - height, PAGE_WIDTH, height, stroke=0, fill=1)
        _pen(canvas, "#ffffff", fonts.bold, 9.5)
        canvas.drawString(_MARGIN, PAGE_HEIGHT - height * 0.62, head)
    else:
        _pen(canvas, _GREY, fonts.regular, 8)
        canvas.drawString(_MARGIN, PAGE_HEIGHT - height, report.organisation.name)
        canvas.drawRightString(PAGE_WIDTH - _MARGIN, PAGE_HEIGHT - height, head)
        _rule(canvas, PAGE_HEIGHT - height - 4, "#bbbbbb", 0.5)


def _draw_foot(canvas: Any, report: Report, page: Page, number: int, fonts: Fonts) -> None:
    """Draws the printed label, unless it is large, and the organization if there is room."""
    style = report.style
    label = "" if style.label_size else style.label_form.format(label=page.label)
    left, right = (canvas.drawString, _MARGIN), (canvas.drawRightString, PAGE_WIDTH - _MARGIN)
    _pen(canvas, "#222222", fonts.regular, 9.5)
    if style.label_place == "middle":
        canvas.drawCentredString(PAGE_WIDTH / 2, _FOOT, label)
        return
    is_at_left = style.label_place == "outside" and number % 2 == 0
    (draw_label, label_x), (draw_line, line_x) = (left, right) if is_at_left else (right, left)
    draw_label(label_x, _FOOT, label)
    _pen(canvas, _GREY, fonts.regular, 7.5)
    draw_line(line_x, _FOOT, f"{report.organisation.name} · {report.title}")


def _draw_notes(canvas: Any, page: Page, fonts: Fonts) -> float:
    """Draws the footnotes; returns the bottom of the space above them."""
    if not page.notes:
        return _BOTTOM
    canvas.setStrokeColor("#888888")
    canvas.setLineWidth(0.5)
    top = _BOTTOM + 11 * len(page.notes)
    canvas.line(_MARGIN, top + 3, _MARGIN + 120, top + 3)
    _pen(canvas, "#333333", fonts.regular, fonts.size * 0.85)
    for index, note in enumerate(page.notes):
        canvas.drawString(_MARGIN, top - 8 - 11 * index, f"{NOTE_MARK} {note}")
    return top + 12


def _draw_title(canvas: Any, report: Report, page: Page, fonts: Fonts) -> float:
    """Draws the title, with a large label next to it if any; returns the top of the space below."""
    base = _TOP - 16
    if report.style.label_size:
        base = min(base, _draw_large_label(canvas, page.label, report.style.label_size))
    _pen(canvas, report.style.palette[0], fonts.bold, 18)
    canvas.drawString(_MARGIN, base, page.title)
    _rule(canvas, base - 9, report.style.palette[1], 1.1)
    return base - 9 - 12


def _draw_large_label(canvas: Any, label: str, size: float) -> float:
    """Draws a large label at the outer end of the title, in the same typeface for all reports; returns its baseline."""
    shape, digit = shape_of(label, "sans", "bold"), shape_of("0", "sans", "bold")
    base = _LABEL_TOP - digit.height * size
    _draw_shape(canvas, shape, "#222222", min(size, _LABEL_ROOM / shape.width), base)
    return base


def _draw_shape(canvas: Any, shape: Shape, color: str, size: float, base: float) -> float:
    """Draws a right-aligned line of text as a path; returns its width in points."""
    width = shape.width * size
    path = canvas.beginPath()
    for first, *others in shape.polygons:
        path.moveTo(PAGE_WIDTH - _MARGIN - width + first[0] * size, base + first[1] * size)
        for x, y in others:
            path.lineTo(PAGE_WIDTH - _MARGIN - width + x * size, base + y * size)
        path.close()
    canvas.setFillColor(color)
    canvas.drawPath(path, stroke=0, fill=1)
    return width


def _draw_contents(canvas: Any, contents: Contents, report: Report, fonts: Fonts, top: float) -> None:
    """Draws one line per entry, with dots up to its label."""
    step = 14.6
    for index, (title, label, is_chapter) in enumerate(contents.entries):
        height = top - step * (index + 1)
        left = _MARGIN + (0 if is_chapter else 14)
        font, size = (fonts.bold, fonts.size * 1.05) if is_chapter else (fonts.regular, fonts.size)
        _pen(canvas, report.style.palette[0] if is_chapter else "#222222", font, size)
        canvas.drawString(left, height, title)
        if report.style.label_size:
            shape = shape_of(label, report.style.typeface, "bold" if is_chapter else "regular")
            width = _draw_shape(canvas, shape, report.style.palette[0] if is_chapter else "#222222", size, height)
        else:
            canvas.drawRightString(PAGE_WIDTH - _MARGIN, height, label)
            width = canvas.stringWidth(label, font, size)
        begin = left + canvas.stringWidth(title, font, size) + 6
        end = PAGE_WIDTH - _MARGIN - width - 6
        canvas.setStrokeColor("#999999")
        canvas.setLineWidth(0.6)
        canvas.setDash(0.6, 3)
        canvas.line(begin, height + 1, end, height + 1)
        canvas.setDash()


def _draw_blocks(canvas: Any, report: Report, page: Page, fonts: Fonts, top: float, bottom: float) -> None:
    """Draws the blocks from top to bottom at the largest scale that fits."""
    for scale in (*_SCALES, *(_SMALL_SCALES if report.style.label_size else ())):
        setting = Typesetting(report.style, fonts, scale)
        flowables = [flowable for block in page.blocks for flowable in flowables_of(block, setting)]
        heights = [flowable.wrapOn(canvas, TEXT_WIDTH, top - bottom)[1] for flowable in flowables]
        if sum(heights) <= top - bottom:
            break
    else:
        raise AssertionError(f"The page {page.title!r} needs {sum(heights):.0f} points; it has {top - bottom:.0f}.")
    for flowable, height in zip(flowables, heights, strict=True):
        flowable.drawOn(canvas, _MARGIN, top - height)
        top -= height


def _pen(canvas: Any, color: str, font: str, size: float) -> None:
    canvas.setFillColor(color)
    canvas.setFont(font, size)


def _rule(canvas: Any, height: float, color: str, width: float) -> None:
    canvas.setStrokeColor(color)
    canvas.setLineWidth(width)
    canvas.line(_MARGIN, height, PAGE_WIDTH - _MARGIN, height)


MAX_CACHED_BYTES = 64 * 1024 * 1024
"""Size limit of the cache of rendered pages; the least recently used is dropped, the last one always kept."""


@functools.lru_cache(maxsize=64)
def report_of(num_pages: int, seed: int, numbering: Numbering) -> Report:
    """Returns the report with a seed and settings, cached."""
    return compose_report(num_pages, seed, numbering)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportDocument:
    """A report as tools see it: small, hashable, and not rendered until a page is viewed.

    Attributes:
        name: File name, such as `kelford_ferries_2019.pdf`.
        digest: Hash of the printed content, available without rendering.
        num_pages: Number of pages.
        seed: Seed of the report.
        numbering: Numbering of its pages.
    """

    name: str
    digest: str
    num_pages: int
    seed: int
    numbering: Numbering = PLAIN

    @classmethod
    def of(cls, num_pages: int, seed: int, numbering: Numbering = PLAIN) -> ReportDocument:
        """Returns the document with a seed and settings."""
        report = report_of(num_pages, seed, numbering)
        return cls(name=report.file_name, digest=report.digest, num_pages=num_pages, seed=seed, numbering=numbering)

    @property
    def report(self) -> Report:
        """The report."""
        return report_of(self.num_pages, self.seed, self.numbering)

    def page_text(self, number: int) -> str:
        """Returns the words in the text layer of a page, from 1, without rendering it.

        Raises:
            ToolError: `PAGE_OUT_OF_RANGE`.
        """
        check_page_number(self, number)
        return text_layer(self.report, number)

    def page_picture(self, number: int, long_side_px: int = PAGE_LONG_SIDE_PX) -> Picture:
        """Renders a page, from 1, with `long_side_px` pixels on its longer side.

        Raises:
            ToolError: `PAGE_OUT_OF_RANGE`.
            EngineUnavailableError: If a package of the extra `tools` is missing.
        """
        check_page_number(self, number)
        page, _ = _rendered.get((self.digest, number), lambda: _page(self, number))
        return page.page_picture(1, long_side_px)

    def pdf_bytes(self) -> bytes:
        """Returns the PDF file.

        Raises:
            EngineUnavailableError: If a package of the extra `tools` is missing.
        """
        return render_pdf(self.report)


_rendered: BoundedCache[tuple[PdfDocument, int]] = BoundedCache(
    MAX_CACHED_BYTES, size_of=lambda kept: kept[1], drop=lambda kept: kept[0].close()
)


def _page(document: ReportDocument, number: int) -> tuple[PdfDocument, int]:
    """Renders a single page, because a search views only one or two."""
    content = render_pdf(document.report, numbers=(number,))
    return PdfDocument(document.name, content), len(content)
