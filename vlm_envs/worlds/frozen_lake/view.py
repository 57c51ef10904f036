"""What a frozen lake looks like, as a picture and in each text form."""

from __future__ import annotations

from typing import TypedDict

from vlm_envs.worlds.frozen_lake.state import FrozenLakeState
from vlm_envs.worlds.grids.directions import Cell
from vlm_envs.worlds.grids.relations import Relation, named_cells, relations_of
from vlm_envs.worlds.grids.view import GridView


class FrozenLakeStateDict(TypedDict):
    """A lake as plain data; positions are (row, column). Source: VAGEN, Appendix C.2."""

    player_position: Cell
    target_position: Cell
    hole_positions: list[Cell]
    grid_size: tuple[int, int]


class FrozenLakeView(GridView[FrozenLakeState]):
    """Pictures and texts of lakes."""

    tiles_of = "frozen_lake"

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
