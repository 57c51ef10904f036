"""What the arm's tasks tell the agent, and what they pay."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vlm_envs.parts import Task
from vlm_envs.responses.formats import WITHOUT_SYMBOLS
from vlm_envs.validation import require_flag
from vlm_envs.worlds.primitive_skill import phrases, state_text
from vlm_envs.worlds.primitive_skill.actions import GRAMMAR, Primitive, Skill
from vlm_envs.worlds.primitive_skill.geometry import WORKSPACES_MM, Millimetres
from vlm_envs.worlds.primitive_skill.stages import stages_of
from vlm_envs.worlds.primitive_skill.state import PrimitiveSkillState

STEP_PENALTY = -0.1
SUCCESS_REWARD = 10.0
STAGE_REWARD = 2.0

NEAR_MM = 30
"""A point this near to a thing's centre means the thing."""

_ABOUT_THINGS = 0.8
"""Share of random primitives whose points are positions of things."""
_HELP: Mapping[str, str] = {
    "natural_language": "Describe states by where things are, such as: the red cube is at (62, -55, 20). "
    "the gripper is empty.",
    "structured": "Write states as {red_cube_position: (62, -55, 20), held_cube: none}",
}


class PrimitiveSkillTask(Task[PrimitiveSkillState, Primitive]):
    """Do to the things on the table what the instruction says. Rewards: VAGEN Table 19.

    Args:
        task: `"place"`, `"stack"`, `"drawer"` or `"align"`.
        show_positions: Whether every observation tells where things are, unnamed.
    """

    name = "PrimitiveSkill"
    goal = "Command a robot arm so that the table becomes what the instruction asks for."
    grammar = GRAMMAR
    representations = WITHOUT_SYMBOLS
    representation_help = _HELP

    def __init__(self, *, task: str, show_positions: bool = True) -> None:
        self.task, self.show_positions = task, require_flag("show_positions", show_positions)
        matching = ("Which position belongs to which thing is for you to see in the picture.",)
        self.rules = (
            "pick closes the gripper at the centre of a thing and lifts it; place lowers what is held until it stands "
            "on something, so a high z does no harm; push moves a thing in a straight line from one centre to another.",
            "Coordinates are whole millimetres. You look towards -x: -y is left, +y is right, +z is up, and a larger "
            "x is nearer to you. Cubes have sides of 40 mm, so one on the table has its centre at z 20.",
            *(matching if show_positions else ()),
        )

    def write_action(self, action: Primitive) -> str:
        """Returns a primitive as the grammar reads it."""
        return str(action)

    def instruction(self, state: PrimitiveSkillState) -> str:
        """Returns what this level asks for, and the workspace limits."""
        return phrases.instruction(state)

    def hint(self, state: PrimitiveSkillState) -> str:
        """Returns the unnamed positions, unless they are hidden, and why the last primitive did nothing, if so."""
        failed = f"Reason: {state.outcome}." if state.outcome else ""
        told = state_text.hint(state) if self.show_positions else ""
        return "\n".join(filter(None, (failed, told)))

    def reward_terms(
        self, state: PrimitiveSkillState, next_state: PrimitiveSkillState, *, success: bool
    ) -> dict[str, float]:
        """Returns the success reward at the end; else the step penalty, and `(stage + 1) * 2` for a new highest stage.

        Source: VAGEN, Table 19. The action that solves the task is paid by the success reward alone.
        """
        if success:
            return {"success": SUCCESS_REWARD}
        terms = {"step": STEP_PENALTY}
        if next_state.highest_stage > state.highest_stage:
            terms["stage"] = _stage_reward(next_state.highest_stage)
        return terms

    def noop_terms(self) -> dict[str, float]:
        """Returns one step's penalty: doing nothing is never free."""
        return {"step": STEP_PENALTY}

    def best_return(self, state: PrimitiveSkillState, num_actions: int) -> float:
        """Returns the return of a plan of `num_actions`, which reaches every stage not reached yet, one by one."""
        stages = sum(_stage_reward(stage) for stage in stages_of(state) if stage > state.highest_stage)
        return SUCCESS_REWARD + STEP_PENALTY * (num_actions - 1) + stages

    def sample_action(self, state: PrimitiveSkillState, rng: np.random.Generator) -> Primitive:
        """Returns a random primitive within the workspace, most often at the position of a thing."""
        skill = tuple(Skill)[rng.integers(len(Skill))]
        return Primitive(skill, self._point(state, rng), self._point(state, rng) if skill is Skill.PUSH else None)

    def _point(self, state: PrimitiveSkillState, rng: np.random.Generator) -> Millimetres:
        low, high = np.transpose(WORKSPACES_MM[self.task])
        places = list(state_text.positions(state).values())
        point = rng.integers(low, high + 1)
        if rng.random() < _ABOUT_THINGS:
            point = np.clip(places[rng.integers(len(places))], low, high)
        x, y, z = point.tolist()
        return x, y, z

    def reasoning(
        self, state: PrimitiveSkillState, actions: Sequence[Primitive], foresee: Callable[[int], PrimitiveSkillState]
    ) -> str:
        """Returns what each primitive is meant to do; nothing is simulated for it."""
        held = None if state.held is None else state.cubes[state.held].name
        reasons = []
        for action in actions:
            if action.skill is Skill.PLACE:
                reason = f"put the {held or 'empty gripper'} at the {_nearest(state, action.point, without=held)}"
                held = None
            else:
                thing = _movable_at(state, action.point)
                verb = "take" if action.skill is Skill.PICK else "push"
                reason = f"{verb} the {thing}" if thing else "nothing is there"
                held = thing if action.skill is Skill.PICK else held
            reasons.append(f"{action}: {reason}")
        return "; ".join(reasons)


def _stage_reward(stage: int) -> float:
    return STAGE_REWARD * (stage + 1)


def _nearest(state: PrimitiveSkillState, point: Millimetres, *, without: str | None) -> str:
    """Returns which thing is nearest to a point, seen from above, leaving out the one that is held."""
    places = {name: place for name, place in state_text.positions(state).items() if name != without}
    return min(places, key=lambda name: math.dist(places[name][:2], point[:2]))


def _movable_at(state: PrimitiveSkillState, point: Millimetres) -> str | None:
    """Returns the thing at a point that the gripper could take or push, or None."""
    places = state_text.positions(state)
    near = {name: math.dist(place, point) for name, place in places.items() if name.endswith(("cube", "handle"))}
    name = min(near, key=lambda each: near[each])
    return name if near[name] < NEAR_MM else None
