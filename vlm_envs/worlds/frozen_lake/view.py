"""What a frozen lake looks like, as a picture and in each text form."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from vlm_envs.errors import require_choice
from vlm_envs.parts import View
from vlm_envs.worlds.frozen_lake.state import FrozenLakeState, level_text
from vlm_envs.worlds.grids.descriptions import REPRESENTATIONS, structured_text
from vlm_envs.worlds.grids.directions import Cell
from vlm_envs.worlds.grids.relations import Relation, named_cells, relations_of, relations_text
from vlm_envs.worlds.grids.tiles import tile_set


class FrozenLakeStateDict(TypedDict):
    """A lake as plain data; positions are (row, column). Source: VAGEN, Appendix C.2."""

    player_position: Cell
    target_position: Cell
    hole_positions: list[Cell]
    grid_size: tuple[int, int]


class FrozenLakeView(View[FrozenLakeState]):
    """Pictures and texts of lakes.

    Args:
        cell_px: Side of one cell in pixels; 8 to 256.
    """

    def __init__(self, cell_px: int = 28) -> None:
        """Draws the tiles, unless this size was drawn before."""
        self.cell_px = cell_px
        self._tiles = tile_set("frozen_lake", cell_px)

    def image(self, state: FrozenLakeState) -> NDArray[np.uint8]:
        """Returns the lake's picture as uint8[size * cell_px, size * cell_px, 3]."""
        codes = self._tiles.codes
        grid = np.full((state.size, state.size), codes["_"], dtype=np.uint8)
        for hole in state.holes:
            grid[hole] = codes["O"]
        grid[state.target] = codes["G"]
        player_symbol = "*" if state.is_on_goal else "X" if state.is_in_hole else "P"
        grid[state.player] = codes[player_symbol]
        return self._tiles.picture(grid)

    def structured(self, state: FrozenLakeState) -> FrozenLakeStateDict:
        """Returns the lake as plain data."""
        return {
            "player_position": state.player,
            "target_position": state.target,
            "hole_positions": list(state.holes),
            "grid_size": (state.size, state.size),
        }

    def relations(self, state: FrozenLakeState) -> tuple[Relation, ...]:
        """Returns where the target and then each hole is, as seen from the player."""
        things = {"the target": state.target} | named_cells("hole", state.holes)
        return relations_of(things, {"the player": state.player})

    def describe(self, state: FrozenLakeState, representation: str) -> str:
        """Returns the lake in words.

        Args:
            state: The lake.
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
