"""Several pictures in one: a row of found pages, a contact sheet of a whole document, the frames of a video."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from vlm_envs.errors import ConfigError
from vlm_envs.tools.pictures import Picture, within_budget, within_long_side

PADDING_PX = 8
"""Between pages; the paper has a fixed padding and does not say how much."""

MAX_STITCHED_PIXELS = 4_194_304
"""Pixel budget of one stitched picture, 2048 squared (our choice)."""

_MAX_CANVAS_PIXELS = 16 * MAX_STITCHED_PIXELS
"""Rows that need more room, such as tall pictures beside wide ones, are scaled down before they are put together."""

_CAPTION_PX = 18
"""Height of the strip above a frame that holds its caption."""

_GROUND = (176, 176, 176)
"""Pages are white; a grey ground shows where each ends."""

_MIN_CELL_WIDTH_PX, _MAX_CELL_WIDTH_PX = 24, 480
_CELL_ASPECT = math.sqrt(2)
"""Height by width of the cell of a contact sheet: that of A4."""


def stitched_row(
    pages: Sequence[Picture], *, padding_px: int = PADDING_PX, max_pixels: int = MAX_STITCHED_PIXELS
) -> Picture:
    """Returns pages side by side, their tops aligned, scaled down together to a pixel budget.

    Width is the sum of the pages' widths and the paddings between them, height the greatest of theirs (ARM-Thinker,
    appendix E).

    Args:
        pages: Pages from left to right, at least one.
        padding_px: Width of the ground between two.
        max_pixels: Budget; a larger row is scaled down with its shape kept.

    Returns:
        The row.

    Raises:
        ConfigError: If there are no pages.
    """
    if not pages:
        raise ConfigError("A row needs at least one page.")
    pages = _within_canvas(pages)
    width = sum(page.width for page in pages) + padding_px * (len(pages) - 1)
    canvas = np.full((max(page.height for page in pages), width, 3), _GROUND, np.uint8)
    left = 0
    for page in pages:
        canvas[: page.height, left : left + page.width] = page.pixels
        left += page.width + padding_px
    return within_budget(Picture(canvas), max_pixels)


def _within_canvas(pages: Sequence[Picture]) -> Sequence[Picture]:
    """Returns pages whose row has at most `_MAX_CANVAS_PIXELS` pixels, paddings not counted."""
    needed = sum(page.width for page in pages) * max(page.height for page in pages)
    if needed <= _MAX_CANVAS_PIXELS:
        return pages
    scale = math.sqrt(_MAX_CANVAS_PIXELS / needed)
    return [within_long_side(page, max(1, math.floor(max(page.width, page.height) * scale))) for page in pages]


@dataclass(frozen=True)
class SheetGrid:
    """How a contact sheet is divided.

    Attributes:
        columns: Pages in a row.
        rows: Rows.
        width: Of a page's room, in pixels; its height is that of A4.
    """

    columns: int
    rows: int
    width: int

    @property
    def height(self) -> int:
        """Height of a page's room in pixels."""
        return round(self.width * _CELL_ASPECT)

    @property
    def number_height(self) -> int:
        """Height of the strip above a page that holds its number; it grows with the pages, since models see less."""
        return max(16, self.width // 10)

    @property
    def step(self) -> tuple[int, int]:
        """From one page to the next, in pixels to the right and down."""
        return self.width + PADDING_PX, self.height + self.number_height + PADDING_PX

    @property
    def num_pixels(self) -> int:
        """Pixels of the whole sheet."""
        return self.columns * self.step[0] * self.rows * self.step[1]


def sheet_grid(num_pages: int, *, max_pixels: int = MAX_STITCHED_PIXELS) -> SheetGrid:
    """Returns the grid of a contact sheet.

    Args:
        num_pages: At least 1.
        max_pixels: Budget of the sheet.

    Returns:
        A grid with as many columns as rows, or one more; pages as large as the budget allows, 24 to 480 pixels wide.
    """
    columns = math.ceil(math.sqrt(num_pages))
    rows = math.ceil(num_pages / columns)
    grid = SheetGrid(columns, rows, _MAX_CELL_WIDTH_PX)
    while grid.width > _MIN_CELL_WIDTH_PX and grid.num_pixels > max_pixels:
        grid = replace(grid, width=grid.width - 1)
    return grid


def contact_sheet(pages: Sequence[Picture], *, max_pixels: int = MAX_STITCHED_PIXELS) -> Picture:
    """Returns all pages of a document in rows from left to right, each under its number, from 1.

    Args:
        pages: Pages in order, at least one; scaled down to their room where they are larger.
        max_pixels: Budget of the sheet.

    Returns:
        The sheet.

    Raises:
        ConfigError: If there are no pages.
    """
    if not pages:
        raise ConfigError("A contact sheet needs at least one page.")
    grid = sheet_grid(len(pages), max_pixels=max_pixels)
    step_x, step_y = grid.step
    canvas = Image.new("RGB", (grid.columns * step_x, grid.rows * step_y), _GROUND)
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(size=grid.number_height - 2)
    for index, page in enumerate(pages):
        left, top = index % grid.columns * step_x + PADDING_PX // 2, index // grid.columns * step_y + PADDING_PX // 2
        middle = (left + grid.width // 2, top + grid.number_height // 2)
        draw.text(middle, str(index + 1), "black", font, anchor="mm")
        thumbnail = _fitted(page, grid.width, grid.height)
        canvas.paste(thumbnail.image(), (left + (grid.width - thumbnail.width) // 2, top + grid.number_height))
    return within_budget(Picture.from_image(canvas), max_pixels)


def frame_sheet(frames: Sequence[Picture], captions: Sequence[str], *, columns: int = 4) -> Picture:
    """Returns the frames of a video in rows from left to right, each under its caption: for people, not for models.

    Args:
        frames: Frames in order, of one size, at least one.
        captions: One line each.
        columns: Most frames in a row.

    Returns:
        The sheet, within `MAX_STITCHED_PIXELS`.
    """
    frames = _within_canvas(frames)
    columns, head = min(columns, len(frames)), _CAPTION_PX
    step_x, step_y = frames[0].width + PADDING_PX, frames[0].height + head + PADDING_PX
    canvas = Image.new(
        "RGB", (columns * step_x - PADDING_PX, -(-len(frames) // columns) * step_y - PADDING_PX), _GROUND
    )
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(size=head - 4)
    for index, (frame, caption) in enumerate(zip(frames, captions, strict=True)):
        left, top = index % columns * step_x, index // columns * step_y
        draw.text((left + 2, top + head // 2), caption, "black", font, anchor="lm")
        canvas.paste(frame.image(), (left, top + head))
    return within_budget(Picture.from_image(canvas), MAX_STITCHED_PIXELS)


def _fitted(page: Picture, width: int, height: int) -> Picture:
    """Returns a page scaled down to fit its room."""
    scale = min(width / page.width, height / page.height, 1.0)
    return within_long_side(page, max(1, math.floor(max(page.width, page.height) * scale)))
