"""Images as values (immutable pixels with a content hash), operations of tools on them, and contact sheets."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from vlm_envs.errors import ConfigError
from vlm_envs.tools.coordinates import OriginalPixels, PixelRectangle, size_within
from vlm_envs.trajectory import require_image

PixelArray = npt.NDArray[np.uint8]


class ImageRef(Protocol):
    """An image that is made or read on demand, because a large one costs seconds and memory.

    References are values: hashable, comparable, small to pickle. A `Picture` is a reference whose pixels
    exist already.
    """

    @property
    def width(self) -> int:
        """Columns of the original."""

    @property
    def height(self) -> int:
        """Rows of the original."""

    @property
    def digest(self) -> str:
        """Identifies the content; equal for equal content, on every machine."""

    def __hash__(self) -> int:
        """Returns a hash, the same for equal images."""

    def picture(self) -> Picture:
        """Returns the pixels, the same at every call; implementations cache recent results."""


class Picture:
    """An image as a value: its pixels never change, images with equal pixels are equal, and copies share them.

    Args:
        pixels: uint8[H, W, 3], RGB. Copied unless it is read-only and owns its memory, so that callers cannot
            change the image afterwards.

    Raises:
        ConfigError: If the array has another type or shape, or no pixels.
    """

    __slots__ = ("_digest", "pixels")
    _digest: str
    pixels: PixelArray

    def __init__(self, pixels: PixelArray) -> None:
        require_image(pixels)
        if pixels.flags.writeable or pixels.base is not None or not pixels.flags.c_contiguous:
            pixels = np.array(pixels, order="C")
            pixels.flags.writeable = False
        object.__setattr__(self, "pixels", pixels)
        object.__setattr__(self, "_digest", "")

    @classmethod
    def from_image(cls, image: Image.Image) -> Picture:
        """Converts a PIL image to 8 bits per channel, with transparent pixels on white."""
        if image.mode.startswith("I"):  # Pillow would clip 16 bits at 255, which makes the image white
            image = Image.fromarray(np.rint(np.clip(np.asarray(image), 0, 65535) / 257).astype(np.uint8))
        if image.has_transparency_data:
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
        return cls(np.asarray(image.convert("RGB")))

    def picture(self) -> Picture:
        """Returns itself."""
        return self

    def image(self) -> Image.Image:
        """Returns a new PIL image, which may be modified."""
        return Image.fromarray(self.pixels)

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.pixels.shape[0])

    @property
    def num_pixels(self) -> int:
        """Rows times columns."""
        return self.width * self.height

    @property
    def space(self) -> OriginalPixels:
        """The coordinate space of its pixels."""
        return OriginalPixels(self.width, self.height)

    @property
    def digest(self) -> str:
        """BLAKE2 of size and pixels, 32 hexadecimal digits; the same on every machine. Computed on first use."""
        if not self._digest:
            content = hashlib.blake2b(f"{self.width}x{self.height}:".encode(), digest_size=16)
            content.update(self.pixels.data)
            object.__setattr__(self, "_digest", content.hexdigest())
        return self._digest

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"A `Picture` is immutable; {name} cannot be set. Create another one.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Picture):
            return NotImplemented
        return self is other or (self.pixels.shape == other.pixels.shape and self.digest == other.digest)

    def __hash__(self) -> int:
        return int(self.digest[:15], 16)

    def __reduce__(self) -> tuple[type[Picture], tuple[PixelArray]]:
        return Picture, (self.pixels,)

    def __repr__(self) -> str:
        return f"Picture({self.width} x {self.height})"


def crop(picture: Picture, rectangle: PixelRectangle) -> Picture:
    """Returns the pixels of a rectangle inside an image."""
    return Picture(picture.pixels[rectangle.slices()])


def resized(picture: Picture, width: int, height: int, resample: Image.Resampling) -> Picture:
    """Resizes an image."""
    if (width, height) == (picture.width, picture.height):
        return picture
    return Picture.from_image(picture.image().resize((width, height), resample))


def within_budget(picture: Picture, max_pixels: int) -> Picture:
    """Scales an image down to at most `max_pixels` pixels, with its aspect ratio."""
    width, height = size_within(picture.width, picture.height, max_pixels)
    return resized(picture, width, height, Image.Resampling.LANCZOS)


def padded(picture: Picture, width: int, height: int) -> Picture:
    """Places an image in the top left corner of a black one; its pixels keep their coordinates."""
    down, across = height - picture.height, width - picture.width
    return Picture(np.pad(picture.pixels, ((0, down), (0, across), (0, 0)))) if down or across else picture


def within_long_side(picture: Picture, long_side_px: int) -> Picture:
    """Scales an image down to a longer side of at most `long_side_px`, with its aspect ratio."""
    longest = max(picture.width, picture.height)
    if longest <= long_side_px:
        return picture
    width, height = (max(1, round(side * long_side_px / longest)) for side in (picture.width, picture.height))
    return resized(picture, width, height, Image.Resampling.LANCZOS)


def blank(picture: Picture, width: int, height: int) -> Picture:
    """Returns a uniform image with the mean color of another one, as a control.

    Args:
        picture: Source of the mean color; each channel is rounded to the nearest integer, halves to even.
        width: Width in pixels.
        height: Height in pixels.
    """
    mean = np.rint(picture.pixels.mean(axis=(0, 1))).astype(np.uint8)
    return Picture(np.broadcast_to(mean, (height, width, 3)))


PADDING_PX = 8
"""Padding between pages; the paper has a fixed padding but does not specify it."""

MAX_STITCHED_PIXELS = 4_194_304
"""Pixel budget of a stitched image, 2048 squared (our choice)."""

_MAX_CANVAS_PIXELS = 16 * MAX_STITCHED_PIXELS
"""Rows that need more space, such as tall images next to wide ones, are scaled down before stitching."""

_CAPTION_PX = 18
"""Height of the caption strip above a frame."""

_GROUND = (176, 176, 176)
"""Pages are white; a gray background shows their edges."""

_MIN_CELL_WIDTH_PX, _MAX_CELL_WIDTH_PX = 24, 480
_CELL_ASPECT = math.sqrt(2)
"""Ratio of height to width of a cell in a contact sheet, as for A4."""


def stitched_row(pages: Sequence[Picture], *, max_pixels: int = MAX_STITCHED_PIXELS) -> Picture:
    """Returns pages side by side, aligned at the top, scaled down together to a pixel budget.

    The width is the sum of the pages' widths and the paddings between them, the height is the maximum of
    theirs (ARM-Thinker, appendix E).

    Args:
        pages: Pages from left to right, at least one.
        max_pixels: Pixel budget; a larger row is scaled down with its aspect ratio.

    Raises:
        ConfigError: If there are no pages.
    """
    if not pages:
        raise ConfigError("A row needs at least one page.")
    pages = _within_canvas(pages)
    width = sum(page.width for page in pages) + PADDING_PX * (len(pages) - 1)
    canvas = np.full((max(page.height for page in pages), width, 3), _GROUND, np.uint8)
    left = 0
    for page in pages:
        canvas[: page.height, left : left + page.width] = page.pixels
        left += page.width + PADDING_PX
    return within_budget(Picture(canvas), max_pixels)


def _within_canvas(pages: Sequence[Picture]) -> Sequence[Picture]:
    """Scales pages down so that their row has at most `_MAX_CANVAS_PIXELS` pixels, not counting paddings."""
    needed = sum(page.width for page in pages) * max(page.height for page in pages)
    if needed <= _MAX_CANVAS_PIXELS:
        return pages
    return [_scaled(page, math.sqrt(_MAX_CANVAS_PIXELS / needed)) for page in pages]


def _scaled(page: Picture, scale: float) -> Picture:
    return within_long_side(page, max(1, math.floor(max(page.width, page.height) * scale)))


@dataclass(frozen=True)
class SheetGrid:
    """The layout of a contact sheet.

    Attributes:
        columns: Pages per row.
        rows: Number of rows.
        width: Width of a page's cell, in pixels; its height is that of A4.
    """

    columns: int
    rows: int
    width: int

    @property
    def height(self) -> int:
        """Height of a page's cell in pixels."""
        return round(self.width * _CELL_ASPECT)

    @property
    def number_height(self) -> int:
        """Height of the number strip above a page; it grows with the cells, because models see less of large sheets."""
        return max(16, self.width // 10)

    @property
    def step(self) -> tuple[int, int]:
        """Distance from one page to the next, in pixels to the right and down."""
        return self.width + PADDING_PX, self.height + self.number_height + PADDING_PX

    @property
    def num_pixels(self) -> int:
        """Pixels of the whole sheet."""
        return self.columns * self.step[0] * self.rows * self.step[1]


def sheet_grid(num_pages: int, *, max_pixels: int = MAX_STITCHED_PIXELS) -> SheetGrid:
    """Returns the layout of a contact sheet.

    Args:
        num_pages: At least 1.
        max_pixels: Pixel budget of the sheet.

    Returns:
        A grid with as many columns as rows, or one more; pages as large as the budget allows, 24 to 480
        pixels wide.
    """
    columns = math.ceil(math.sqrt(num_pages))
    rows = math.ceil(num_pages / columns)
    widths = range(_MAX_CELL_WIDTH_PX, _MIN_CELL_WIDTH_PX, -1)
    grids = (SheetGrid(columns, rows, width) for width in widths)
    smallest = SheetGrid(columns, rows, _MIN_CELL_WIDTH_PX)
    return next((grid for grid in grids if grid.num_pixels <= max_pixels), smallest)


def contact_sheet(pages: Sequence[Picture], *, max_pixels: int = MAX_STITCHED_PIXELS) -> Picture:
    """Returns all pages of a document in rows from left to right, each below its number, from 1.

    Args:
        pages: Pages in order, at least one; larger ones are scaled down to their cell.
        max_pixels: Pixel budget of the sheet.

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
        scale = min(grid.width / page.width, grid.height / page.height, 1.0)
        thumbnail = _scaled(page, scale)
        canvas.paste(thumbnail.image(), (left + (grid.width - thumbnail.width) // 2, top + grid.number_height))
    return within_budget(Picture.from_image(canvas), max_pixels)


def frame_sheet(frames: Sequence[Picture], captions: Sequence[str], *, columns: int = 4) -> Picture:
    """Returns the frames of a video in rows from left to right, each below its caption; for people, not for models.

    Args:
        frames: Frames in order, with equal sizes, at least one.
        captions: One line each.
        columns: Maximum number of frames per row.

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
