"""What the agent is to achieve, how it writes actions and what it is rewarded with; the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from vlm_envs.content.homes.kinds import words_of
from vlm_envs.parts import Task
from vlm_envs.responses.formats import WITHOUT_SYMBOLS
from vlm_envs.worlds.navigation.actions import ACTION_NAMES, GRAMMAR, Action

SUCCESS_REWARD = 10.0
STEP_PENALTY = -0.1


class SearchState(Protocol):
    """A state in which something is looked for."""

    @property
    def instruction(self) -> str:
        """What the agent is asked."""

    @property
    def target_type(self) -> str:
        """The target's type."""

    @property
    def target_bearing(self) -> tuple[float, float]:
        """How far the target lies ahead and to the right, in metres."""


SearchStateT = TypeVar("SearchStateT", bound=SearchState)


class NavigationTask(Task[SearchStateT, Action]):
    """Find what the instruction asks for. Rewards: VAGEN Table 18.

    Args:
        step_length_m: Length of a move.
        success_threshold_m: Distance from the target that counts as having found it.
        require_visible: Whether the target must be in view too.
    """

    name = "Navigation"
    goal = (
        "You are in a furnished home and see through your own camera; find what you are asked for and go close to it."
    )
    grammar = GRAMMAR
    action_names = ACTION_NAMES
    representations = WITHOUT_SYMBOLS
    representation_help = {  # noqa: RUF012
        "natural_language": (
            "Describe states by where the target and what you see are from you (ahead, to the left, to the right, "
            "behind) and how far, nearest first, such as: the toaster is ahead at 2.59 m. "
            "visible: the cabinet is to the left at 0.94 m. the sink is ahead at 1.30 m."
        ),
        "structured": (
            "Write states as {target_obj_type: Toaster, target_distance_to_player: 2.59, "
            "target_direction_to_player: ahead, visible_objects: [{type: Cabinet, direction_to_player: left, "
            "distance_to_player: 0.94}]} with directions ahead, left, right, back and distances in metres."
        ),
    }

    def __init__(self, *, step_length_m: float, success_threshold_m: float, require_visible: bool) -> None:
        self.step_length_m = step_length_m
        seen = " with it in view" if require_visible else ""
        self.rules = (
            f"Moves are {step_length_m:g} m in the direction you name, seen from where you look; "
            "rotations are 90 degrees; looking up or down tilts the camera by 30 degrees.",
            f"You are done within {success_threshold_m:g} m of it{seen}. Walls and furniture stop you.",
        )

    def instruction(self, state: SearchStateT) -> str:
        """Returns the sentence that asks for the target."""
        return f"Instruction: {state.instruction}"

    def write_action(self, action: Action) -> str:
        """Returns the action's name."""
        return action.title

    def reasoning(self, state: SearchStateT, actions: Sequence[Action], foresee: Callable[[int], SearchStateT]) -> str:
        """Returns where the target is, along and across the view, e.g. `"toaster 1.8 m ahead, 0.4 m to the left"`.

        Distance and direction alone do not tell how many moves ahead and how many aside it takes.
        """
        ahead_m, right_m = state.target_bearing
        along = f"{abs(ahead_m):.1f} m {'behind' if ahead_m < 0 else 'ahead'}"
        across = f"{abs(right_m):.1f} m to the {'left' if right_m < 0 else 'right'}"
        return f"{words_of(state.target_type)} {along}, {across}"

    def expert_sections(self, state: SearchStateT, actions: Sequence[Action]) -> Mapping[str, str]:
        """Returns free thoughts: where the target is."""
        return self.seen_sections(state)

    def seen_sections(self, state: SearchStateT) -> Mapping[str, str]:
        """Returns free thoughts: how many moves away the target is, e.g. `"5 ahead, 2 left"`.

        That is what the moves follow from; states in full would be five times as long to learn.
        """
        ahead, right = (round(metres / self.step_length_m) for metres in state.target_bearing)
        along, across = "behind" if ahead < 0 else "ahead", "left" if right < 0 else "right"
        return {"think": f"{abs(ahead)} {along}, {abs(right)} {across}"}

    def reward_terms(self, state: SearchStateT, next_state: SearchStateT, *, success: bool) -> dict[str, float]:
        """Returns the success reward at the target, the step penalty otherwise."""
        return {"success": SUCCESS_REWARD} if success else {"step": STEP_PENALTY}

    def noop_terms(self) -> dict[str, float]:
        """Returns one step's penalty: doing nothing is never free."""
        return {"step": STEP_PENALTY}

    def best_return(self, state: SearchStateT, num_actions: int) -> float:
        """Returns the return of finding the target with the last of `num_actions` actions."""
        return SUCCESS_REWARD + STEP_PENALTY * (num_actions - 1)
