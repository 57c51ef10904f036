"""Tile art and the pictures laid out of it.

A tile set is drawn once per size and kept; a picture is then one look-up of pixels per cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vlm_envs.validation import require_positive
from vlm_envs.worlds.grids.canvas import Canvas
from vlm_envs.worlds.grids.lake_tiles import LAKE_TILES
from vlm_envs.worlds.grids.sokoban_tiles import SOKOBAN_TILES

TILE_SETS: Mapping[str, Mapping[str, Callable[[int], Canvas]]] = {
    "sokoban": SOKOBAN_TILES,
    "frozen_lake": LAKE_TILES,
}
"""For each world, the drawing of each level symbol at a given size in pixels."""

MIN_CELL_PX, MAX_CELL_PX = 8, 256
"""Below this the figures can no longer be told apart."""


class TileSet:
    """The finished tiles of one world at one size.

    Args:
        world: `"sokoban"` or `"frozen_lake"`.
        cell_px: Side of a tile in pixels.
    """

    def __init__(self, world: str, cell_px: int) -> None:
        """Draws every tile."""
        self.cell_px = require_positive("cell_px", cell_px, minimum=MIN_CELL_PX, maximum=MAX_CELL_PX)
        drawings = TILE_SETS[world]
        self.codes = {symbol: code for code, symbol in enumerate(drawings)}
        self._table = bytes(self.codes.get(chr(code), 0) for code in range(256))
        pixels = np.stack([draw(cell_px).pixels() for draw in drawings.values()])
        self._row_numbers = np.arange(cell_px)[:, None]
        # One item for each row of pixels of a tile: a picture is then copied once, in pieces as long as may be
        self._pixel_rows = pixels.reshape(len(drawings) * cell_px, -1).view(f"V{3 * cell_px}")[:, 0]

    def read(self, level: str) -> NDArray[np.uint8]:
        """Returns the codes of a level's symbols, uint8[num_rows, num_cols]."""
        text = f"{level}\n"
        codes = np.frombuffer(text.encode().translate(self._table), np.uint8)
        return codes.reshape(-1, text.index("\n") + 1)[:, :-1]

    def picture(self, codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Returns the picture of one grid, or of many equally large ones.

        Args:
            codes: uint8[..., num_rows, num_cols], the entry of `self.codes` for each cell.

        Returns:
            uint8[..., num_rows * cell_px, num_cols * cell_px, 3], a fresh array.
        """
        *batch, num_rows, num_cols = codes.shape
        rows = codes[..., :, None, :] * np.intp(self.cell_px) + self._row_numbers
        pixels = self._pixel_rows.take(rows).view(np.uint8)
        return pixels.reshape(*batch, num_rows * self.cell_px, num_cols * self.cell_px, 3)


@lru_cache(maxsize=32, typed=True)
def tile_set(world: str, cell_px: int) -> TileSet:
    """Returns the tiles of a world at a size, drawn at the first call."""
    return TileSet(world, cell_px)
