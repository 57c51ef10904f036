"""Draws reports as PDF files with reportlab: the same bytes for the same report."""

from __future__ import annotations

import io
import threading
from collections.abc import Collection
from typing import Any

from vlm_envs.content.reports.blocks import Contents, Cover
from vlm_envs.content.reports.composition import Page, Report
from vlm_envs.content.reports.flowables import POINTS_PER_MM, TEXT_WIDTH, Typesetting, flowables_of
from vlm_envs.content.reports.page_texts import NOTE_MARK
from vlm_envs.content.reports.typefaces import Fonts, Shape, registered, shape_of
from vlm_envs.tools.tool_errors import require_package

PAGE_WIDTH, PAGE_HEIGHT = 210 * POINTS_PER_MM, 297 * POINTS_PER_MM
_MARGIN = 20 * POINTS_PER_MM
_TOP = PAGE_HEIGHT - 24 * POINTS_PER_MM
_FOOT = 14 * POINTS_PER_MM
_BOTTOM = 24 * POINTS_PER_MM
_SCALES = (1.16, 1.08, 1.0, 0.93, 0.86, 0.8)
_SMALL_SCALES = (0.75, 0.7, 0.65, 0.6)
_LABEL_TOP = PAGE_HEIGHT - 17 * POINTS_PER_MM
_LABEL_ROOM = 0.3 * TEXT_WIDTH
"""Greatest width of a large label; wider ones are set smaller, since titles stand beside them."""

_GREY = "#666666"

_lock = threading.Lock()
"""Neither reportlab's fonts nor matplotlib are safe under threads."""


def render_pdf(report: Report, *, numbers: Collection[int] | None = None) -> bytes:
    """Draws a report.

    Args:
        report: What to draw.
        numbers: Positions of the pages to draw, from 1, which look as they do among all; None for all of them.

    Returns:
        A PDF whose pages are those of the report, with embedded fonts and a text layer. The numbers of charts are
        pictures.

    Raises:
        EngineUnavailableError: If reportlab or matplotlib is not installed.
        AssertionError: If a page has more on it than fits, which would be an error in the texts of this package.
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
    """Returns what the text layer of a page says, without drawing it; in another order than a PDF reader gives it.

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
    """Returns what the text layer of a page holds, but for head and foot, where labels are shapes."""
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
    """Draws bands of colour, the organisation at the top and the title below the middle."""
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
    """Draws the chapter, on a band of colour or over a thin rule."""
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
    """Draws the printed label, unless it is large, and the organisation where it leaves room."""
    label = "" if report.style.label_size else report.style.label_form.format(label=page.label)
    _pen(canvas, "#222222", fonts.regular, 9.5)
    at_left = report.style.label_place == "outside" and number % 2 == 0
    if report.style.label_place == "middle":
        canvas.drawCentredString(PAGE_WIDTH / 2, _FOOT, label)
    elif at_left:
        canvas.drawString(_MARGIN, _FOOT, label)
    else:
        canvas.drawRightString(PAGE_WIDTH - _MARGIN, _FOOT, label)
    if report.style.label_place != "middle":
        _pen(canvas, _GREY, fonts.regular, 7.5)
        line = f"{report.organisation.name} · {report.title}"
        draw = canvas.drawRightString if at_left else canvas.drawString
        draw(PAGE_WIDTH - _MARGIN if at_left else _MARGIN, _FOOT, line)


def _draw_notes(canvas: Any, page: Page, fonts: Fonts) -> float:
    """Draws the footnotes and returns where the room above them ends."""
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
    """Draws the title, a large label beside it, and returns where the room below them begins."""
    base = _TOP - 16
    if report.style.label_size:
        base = min(base, _draw_large_label(canvas, page.label, report.style.label_size))
    _pen(canvas, report.style.palette[0], fonts.bold, 18)
    canvas.drawString(_MARGIN, base, page.title)
    _rule(canvas, base - 9, report.style.palette[1], 1.1)
    return base - 9 - 12


def _draw_large_label(canvas: Any, label: str, size: float) -> float:
    """Draws a label at the outer end of the title and returns its base line; one typeface in all reports."""
    shape, digit = shape_of(label, "sans", "bold"), shape_of("0", "sans", "bold")
    base = _LABEL_TOP - digit.height * size
    _draw_shape(canvas, shape, "#222222", min(size, _LABEL_ROOM / shape.width), base)
    return base


def _draw_shape(canvas: Any, shape: Shape, color: str, size: float, base: float) -> float:
    """Draws a line of text that ends at the right margin, as a path; returns its width in points."""
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
    """Draws one line an entry with dots up to its label."""
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
    """Draws the blocks below each other at the largest scale at which they fit."""
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
