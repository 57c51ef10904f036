"""What a Sokoban room looks like, as a picture and in each text form."""

from __future__ import annotations

from typing import TypedDict

from vlm_envs.worlds.grids.directions import Cell
from vlm_envs.worlds.grids.relations import Relation, named_cells, relations_of
from vlm_envs.worlds.grids.view import GridView
from vlm_envs.worlds.sokoban.state import SokobanState


class SokobanStateDict(TypedDict):
    """A room as plain data; positions are (row, column). Source: VAGEN, Appendix C.2."""

    player_position: Cell
    box_positions: list[Cell]
    target_positions: list[Cell]
    grid_size: tuple[int, int]


class SokobanView(GridView[SokobanState]):
    """Pictures and texts of rooms."""

    tiles_of = "sokoban"

    def structured(self, state: SokobanState) -> SokobanStateDict:
        """Returns the room as plain data."""
        return {
            "player_position": state.player,
            "box_positions": list(state.boxes),
            "target_positions": list(state.layout.targets),
            "grid_size": (state.layout.num_rows, state.layout.num_cols),
        }

    def relations(self, state: SokobanState) -> tuple[Relation, ...]:
        """Returns where boxes and targets are: each to the player, then each target to each box."""
        player = {"the player": state.player}
        boxes, targets = named_cells("box", state.boxes), named_cells("target", state.layout.targets)
        return relations_of(boxes, player) + relations_of(targets, player) + relations_of(targets, boxes)
