"""What a Sokoban room looks like, as a picture and in each text form."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from vlm_envs.worlds.grids.directions import Cell
from vlm_envs.worlds.grids.relations import Relation, named_cells, relations_of
from vlm_envs.worlds.grids.view import GridView
from vlm_envs.worlds.sokoban.state import SokobanState


class SokobanStateDict(TypedDict):
    """A room as plain data; positions are (row, column). Source: VAGEN, Appendix C.2, which tells no walls."""

    player_position: Cell
    box_positions: list[Cell]
    target_positions: list[Cell]
    grid_size: tuple[int, int]
    wall_positions: NotRequired[list[Cell]]


class SokobanView(GridView[SokobanState]):
    """Pictures and texts of rooms.

    Args:
        cell_px: Side of one cell in pixels; 8 to 256.
        tell_walls: Whether structured states list the inner walls.
    """

    tiles_of = "sokoban"

    def __init__(self, cell_px: int = 28, *, tell_walls: bool = False) -> None:
        super().__init__(cell_px)
        self.tell_walls = tell_walls

    def structured(self, state: SokobanState) -> SokobanStateDict:
        """Returns the room as plain data."""
        layout = state.layout
        told: SokobanStateDict = {
            "player_position": state.player,
            "box_positions": list(state.boxes),
            "target_positions": list(layout.targets),
            "grid_size": (layout.num_rows, layout.num_cols),
        }
        if self.tell_walls:
            told["wall_positions"] = list(layout.inner_walls)
        return told

    def relations(self, state: SokobanState) -> tuple[Relation, ...]:
        """Returns where boxes and targets are: each to the player, then each target to each box."""
        player = {"the player": state.player}
        boxes, targets = named_cells("box", state.boxes), named_cells("target", state.layout.targets)
        return relations_of(boxes, player) + relations_of(targets, player) + relations_of(targets, boxes)
