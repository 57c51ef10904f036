"""What a Sokoban room looks like, as a picture and in each text form."""

from __future__ import annotations

from functools import lru_cache
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from vlm_envs.errors import require_choice
from vlm_envs.parts import View
from vlm_envs.worlds.grids.descriptions import REPRESENTATIONS, structured_text
from vlm_envs.worlds.grids.directions import Cell
from vlm_envs.worlds.grids.relations import Relation, named_cells, relations_of, relations_text
from vlm_envs.worlds.grids.tiles import TileSet, tile_set
from vlm_envs.worlds.sokoban.state import SokobanLayout, SokobanState, level_text


class SokobanStateDict(TypedDict):
    """A room as plain data; positions are (row, column). Source: VAGEN, Appendix C.2."""

    player_position: Cell
    box_positions: list[Cell]
    target_positions: list[Cell]
    grid_size: tuple[int, int]


class SokobanView(View[SokobanState]):
    """Pictures and texts of rooms.

    Args:
        cell_px: Side of one cell in pixels; 8 to 256.
    """

    def __init__(self, cell_px: int = 28) -> None:
        """Draws the tiles, unless this size was drawn before."""
        self.cell_px = cell_px
        self._tiles = tile_set("sokoban", cell_px)

    def image(self, state: SokobanState) -> NDArray[np.uint8]:
        """Returns the room's picture as uint8[num_rows * cell_px, num_cols * cell_px, 3]."""
        codes = self._tiles.codes
        layout = state.layout
        grid = _layout_codes(self._tiles, layout).copy()
        for box in state.boxes:
            grid[box] = codes["*"] if box in layout.targets else codes["X"]
        grid[state.player] = codes["S"] if state.player in layout.targets else codes["P"]
        return self._tiles.picture(grid)

    def structured(self, state: SokobanState) -> SokobanStateDict:
        """Returns the room as plain data."""
        return {
            "player_position": state.player,
            "box_positions": list(state.boxes),
            "target_positions": list(state.targets),
            "grid_size": (state.num_rows, state.num_cols),
        }

    def relations(self, state: SokobanState) -> tuple[Relation, ...]:
        """Returns where boxes and targets are: each to the player, then each target to each box."""
        player = {"the player": state.player}
        boxes, targets = named_cells("box", state.boxes), named_cells("target", state.targets)
        return relations_of(boxes, player) + relations_of(targets, player) + relations_of(targets, boxes)

    def describe(self, state: SokobanState, representation: str) -> str:
        """Returns the room in words.

        Args:
            state: The room.
            representation: `"natural_language"`, `"symbolic"` or `"structured"`.

        Returns:
            Sentences, rows of symbols, or a dictionary as text.

        Raises:
            ConfigError: If the representation is unknown.
        """
        require_choice("representation", representation, REPRESENTATIONS)
        if representation == "symbolic":
            return level_text(state)
        if representation == "structured":
            return structured_text(self.structured(state))
        return relations_text(self.relations(state))


@lru_cache(maxsize=1024)
def _layout_codes(tiles: TileSet, layout: SokobanLayout) -> NDArray[np.uint8]:
    """Returns the tile codes of what never moves, as uint8[num_rows, num_cols]."""
    walls = np.frombuffer(layout.walls, dtype=np.uint8).reshape(layout.num_rows, layout.num_cols)
    grid = np.where(walls, tiles.codes["#"], tiles.codes["_"]).astype(np.uint8)
    for target in layout.targets:
        grid[target] = tiles.codes["O"]
    return grid
