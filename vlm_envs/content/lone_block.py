"""A board with one block: four columns of four cells, in the middle of one of them a block; shades and sizes vary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vlm_envs.content.colors import RGB
from vlm_envs.tools.coordinates import Box, OriginalPixels, Point
from vlm_envs.tools.pictures import PixelArray

NUM_CELLS = 4
"""Columns of a board, and rows."""

SHADES = 200, 240
"""Least and largest red, green and blue of a board."""


@dataclass(frozen=True)
class LoneBlock:
    """A block on a board.

    Attributes:
        cell_px: Side of a cell, even.
        column: Of the block's cell, from 0.
        row: Likewise.
        side_px: Side of the block, even.
        shade: Colour of the board.
    """

    cell_px: int
    column: int
    row: int
    side_px: int
    shade: RGB

    @property
    def space(self) -> OriginalPixels:
        """The board's pixels."""
        return OriginalPixels(NUM_CELLS * self.cell_px, NUM_CELLS * self.cell_px)

    @property
    def middle(self) -> Point[OriginalPixels]:
        """Middle of the block."""
        x, y = (place * self.cell_px + self.cell_px // 2 for place in (self.column, self.row))
        return Point(x, y, self.space)

    @property
    def digest(self) -> str:
        """What tells it from others on boards of the same size."""
        return f"{self.column},{self.row},{self.side_px},{self.shade}"

    def in_middle(self, side_px: int) -> Box[OriginalPixels]:
        """Returns the square of an even side about the block's middle."""
        (x, y), radius = (self.middle.x, self.middle.y), side_px // 2
        return Box(x - radius, y - radius, x + radius, y + radius, self.space)

    def drawn(self, color: RGB) -> PixelArray:
        """Returns uint8[H, W, 3], the board with the block in a colour."""
        pixels = np.empty((self.space.height, self.space.width, 3), np.uint8)
        pixels[:] = np.full((self.space.width, 3), self.shade)  # row by row, which is faster than pixel by pixel
        part(pixels, self.in_middle(self.side_px))[:] = color
        return pixels


def lone_block(rng: np.random.Generator, cell_px: int, block_px: tuple[int, int]) -> LoneBlock:
    """Draws a block.

    Args:
        rng: The only source of chance.
        cell_px: Side of a cell, even.
        block_px: Least and largest side of a block, even.
    """
    column, row = rng.integers(NUM_CELLS, size=2).tolist()
    red, green, blue = rng.integers(SHADES[0], SHADES[1] + 1, size=3).tolist()
    side_px = 2 * int(rng.integers(block_px[0] // 2, block_px[1] // 2 + 1))
    return LoneBlock(cell_px, column, row, side_px, (red, green, blue))


def part(pixels: PixelArray, box: Box[OriginalPixels]) -> PixelArray:
    """Returns the pixels of a box of whole numbers, which may be written to."""
    return pixels[int(box.y1) : int(box.y2), int(box.x1) : int(box.x2)]
