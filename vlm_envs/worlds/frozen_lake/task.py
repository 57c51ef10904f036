"""What FrozenLake asks for and rewards."""

from __future__ import annotations

from vlm_envs.worlds.frozen_lake.state import FrozenLakeState
from vlm_envs.worlds.grids.task import STEP_PENALTY, GridTask, representation_help

SUCCESS_REWARD = 10.0


class FrozenLakeTask(GridTask[FrozenLakeState]):
    """Walk to the goal without falling into a hole. Rewards: VAGEN Table 17."""

    name = "FrozenLake"
    goal = "Walk over the ice to the goal."
    representation_help = representation_help(
        natural_language="the target is above and to the right of the player. "
        "hole0 is at the same row and to the left of the player.",
        symbols="_ ice, O hole, G goal, P you, X you in a hole, * you on the goal",
        structured="{player_position: (3, 2), target_position: (0, 3), hole_positions: [(1, 2)], grid_size: (4, 4)}",
    )

    def __init__(self, *, is_slippery: bool) -> None:
        slip = ("The ice is slippery: a move may go to either side instead.",) if is_slippery else ()
        self.rules = ("A step into a hole ends the game.", *slip)

    def reward_terms(self, state: FrozenLakeState, next_state: FrozenLakeState, *, success: bool) -> dict[str, float]:
        """Returns the success reward on the goal, the step penalty otherwise."""
        return {"success": SUCCESS_REWARD} if success else {"step": STEP_PENALTY}

    def best_return(self, state: FrozenLakeState, num_actions: int) -> float:
        """Returns the return of reaching the goal with the last of `num_actions` moves."""
        return SUCCESS_REWARD + STEP_PENALTY * (num_actions - 1)
