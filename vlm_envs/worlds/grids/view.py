"""What a level of a grid world looks like, as a picture and in each text form."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vlm_envs.parts import View
from vlm_envs.responses.formats import REPRESENTATIONS, structured_text
from vlm_envs.validation import require_choice
from vlm_envs.worlds.grids.relations import Relation, relations_text
from vlm_envs.worlds.grids.state import GridStateT
from vlm_envs.worlds.grids.tiles import tile_set


class GridView(View[GridStateT]):
    """Pictures and texts of levels.

    Args:
        cell_px: Side of one cell in pixels; 8 to 256.

    Attributes:
        tiles_of: The world whose tiles are shown.
    """

    tiles_of: ClassVar[str]

    def __init__(self, cell_px: int = 28) -> None:
        """Draws the tiles, unless this size was drawn before."""
        self.cell_px = cell_px
        self.tiles = tile_set(self.tiles_of, cell_px)

    def image(self, state: GridStateT) -> NDArray[np.uint8]:
        """Returns the level's picture as uint8[num_rows * cell_px, num_cols * cell_px, 3]."""
        return self.tiles.picture(self.tiles.read(state.level_text()))

    @abstractmethod
    def relations(self, state: GridStateT) -> tuple[Relation, ...]:
        """Returns how things lie to each other, in the order of the sentences."""

    def describe(self, state: GridStateT, representation: str) -> str:
        """Returns the level as sentences, rows of symbols, or a dictionary; raises `ConfigError` for anything else."""
        require_choice("representation", representation, REPRESENTATIONS)
        if representation == "symbolic":
            return state.level_text()
        if representation == "structured":
            return structured_text(self.structured(state))
        return relations_text(self.relations(state))
