"""What Sokoban asks for and rewards."""

from __future__ import annotations

from collections.abc import Sequence

from vlm_envs.worlds.grids.directions import Cell, Direction
from vlm_envs.worlds.grids.task import STEP_PENALTY, GridTask, representation_help
from vlm_envs.worlds.sokoban.state import SokobanState

BOX_REWARD = 1.0
SUCCESS_REWARD = 10.0


_HELP = {
    "natural_language": "box0 is above and to the left of the player. "
    "target0 is at the same row and to the right of box0.",
    "symbols": "# wall, _ floor, O target, X box, P you, * box on target, S you on target",
    "structured": "{player_position: (4, 2), box_positions: [(3, 2)], target_positions: [(3, 1)], grid_size: (6, 6)}",
}


class SokobanTask(GridTask[SokobanState]):
    """Push every box onto a target. Rewards: VAGEN Table 16.

    Args:
        tell_walls: Whether structured states list the inner walls.
    """

    name = "Sokoban"
    goal = "Push every box onto a target."
    rules = ("You can push a box by walking into it, but not pull it. Walls and other boxes stop it.",)
    representation_help = representation_help(**_HELP)

    def __init__(self, *, tell_walls: bool = False) -> None:
        if tell_walls:
            structured = f"{_HELP['structured'][:-1]}, wall_positions: [(1, 4), (2, 2)]}}"
            told = representation_help(**{**_HELP, "structured": structured})
            self.representation_help = {**told, "structured": f"{told['structured']} Walls of the border are left out."}

    def reward_terms(self, state: SokobanState, next_state: SokobanState, *, success: bool) -> dict[str, float]:
        """Returns step, box and success rewards; the step penalty is paid on the last move too."""
        terms = {"step": STEP_PENALTY}
        pushed_on = next_state.num_boxes_on_target - state.num_boxes_on_target
        if pushed_on:
            terms["boxes"] = BOX_REWARD * pushed_on
        if success:
            terms["success"] = SUCCESS_REWARD
        return terms

    def intention(self, state: SokobanState, plan: Sequence[int]) -> str:
        """Returns the cells that boxes are to be pushed to, one by one; inner walls stop them no more than the plan."""
        boxes, player = set(state.boxes), state.player
        ways: list[list[Cell]] = []
        for direction in map(Direction, plan):
            player = direction.from_cell(player)
            if player in boxes:
                if not ways or ways[-1][-1] != player:  # another box than before
                    ways.append([])
                ways[-1].append(direction.from_cell(player))
                boxes ^= {player, ways[-1][-1]}
        return "; ".join(f"box to {', '.join(map(str, way))}" for way in ways)

    def best_return(self, state: SokobanState, num_actions: int) -> float:
        """Returns the return of solving in `num_actions` moves."""
        num_left = len(state.boxes) - state.num_boxes_on_target
        return SUCCESS_REWARD + BOX_REWARD * num_left + STEP_PENALTY * num_actions
