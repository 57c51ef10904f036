"""What a level asks for, in words: several wordings of each task, chosen when the level is drawn."""

from __future__ import annotations

from collections.abc import Mapping

from vlm_envs.worlds.primitive_skill.geometry import WORKSPACES_MM
from vlm_envs.worlds.primitive_skill.stages import ALIGNED_MM
from vlm_envs.worlds.primitive_skill.state import PrimitiveSkillState

_PHRASES: Mapping[str, tuple[str, ...]] = {
    "place": (
        "Put the {0} on the {1} and the {2} on the {3}.",
        "Bring the {0} to the {1}, then the {2} to the {3}.",
        "The {0} belongs on the {1} and the {2} on the {3}: take them there.",
        "Cover the {1} with the {0} and the {3} with the {2}.",
    ),
    "stack": (
        "Stack the {0} on the {1} and put the {2} on the {3}.",
        "Set the {0} on top of the {1}; the {2} goes to the {3}.",
        "Place the {2} on the {3} and build a tower of the {1} below and the {0} above.",
        "The {0} belongs on the {1}, and the {2} on the {3}.",
    ),
    "drawer": (
        "Put the {0} into the drawer and close the drawer.",
        "Store the {0} in the drawer, and leave the drawer shut.",
        "The {0} belongs inside the drawer; shut it when you are done.",
        "Open the drawer, lay the {0} in it and push it shut.",
    ),
    "align": (
        "Line the cubes up along the y axis: the x of every cube must be {0}, give or take {1}.",
        "Move all cubes to the line x = {0}; each may be off by {1} at most.",
        "Form a row of the cubes: all their x coordinates must be within {1} of {0}.",
        "Make every cube have the x coordinate {0} (+-{1}), wherever its y is.",
    ),
}

_ONE_CUBE: tuple[str, ...] = (
    "Put the {0} on the {1}.",
    "Bring the {0} to the {1}.",
    "The {0} belongs on the {1}: take it there.",
    "Cover the {1} with the {0}.",
)
"""What `place` asks for where there is one cube only, worded as above."""

_NOTES: Mapping[str, str] = {
    "drawer": (
        "The last two positions are the drawer's handle and the inside of the drawer. The drawer opens towards +x, by "
        "130 mm at most: push the handle to open and to shut it."
    ),
}


def num_phrasings(task: str) -> int:
    """Returns how many wordings a task has."""
    return len(_PHRASES[task])


def request(state: PrimitiveSkillState) -> str:
    """Returns what a level asks for, in one sentence."""
    has_one = state.task == "place" and len(state.goals) == 1
    return (_ONE_CUBE if has_one else _PHRASES[state.task])[state.phrasing].format(*_names(state))


def instruction(state: PrimitiveSkillState) -> str:
    """Returns what a level asks for, and the workspace limits."""
    limits = ", ".join(f"{axis} {span}" for axis, span in zip("xyz", WORKSPACES_MM[state.task], strict=True))
    lines = [f"Instruction: {request(state)}", f"Workspace limits: {limits}.", _NOTES.get(state.task, "")]
    return "\n".join(filter(None, lines))


def _names(state: PrimitiveSkillState) -> list[str]:
    """Returns what the task's wordings name, in their order."""
    cubes, targets, goals = state.cubes, state.targets, state.goals
    if state.task == "place":
        return [name for goal in goals for name in (cubes[goal.cube].name, targets[goal.where].name)]
    if state.task == "stack":
        top, other = goals
        return [cubes[top.cube].name, cubes[top.where].name, cubes[other.cube].name, targets[other.where].name]
    if state.task == "align":
        return [str(goals[0].where), str(ALIGNED_MM)]
    return [cubes[goals[0].cube].name]
