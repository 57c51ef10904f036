"""Levels as JSON: everything of a state, and nothing that can be derived."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from vlm_envs.errors import LevelError
from vlm_envs.worlds.primitive_skill.geometry import BASE_X_M, DRAWER_TRAVEL_M, FRAME_X_M, GRASP_RADIUS_M, HELD_GAP_M
from vlm_envs.worlds.primitive_skill.kinematics import NUM_ARM_JOINTS, tool_position
from vlm_envs.worlds.primitive_skill.phrases import num_phrasings
from vlm_envs.worlds.primitive_skill.stages import STAGES
from vlm_envs.worlds.primitive_skill.state import (
    COLORS,
    HOME_QPOS,
    MAX_NUM_CUBES,
    Cube,
    Drawer,
    Goal,
    GoalKind,
    PrimitiveSkillState,
    Target,
)

_MAX_COORDINATE_M = 10.0
_MAX_WHOLE, _MAX_FLOAT = 1_000_000, 1e6
_MAX_JOINT = 2 * math.pi
_MAX_OUTCOME_CHARS = 200
_LEAST_CENTRES_M = 0.03
"""Cubes whose centres are nearer than this would lie in each other."""
_SHUT_TO_OPEN_M = (-0.01, DRAWER_TRAVEL_M + 0.01)
_OPTIONAL = ("phrasing", "held", "highest_stage", "outcome", "qpos")
_EXPECTED = "a JSON object as `env.dynamics.dump(state)` writes it"


def level_text(state: PrimitiveSkillState) -> str:
    """Returns a state as one line of JSON; equal states give equal text."""
    level = _content(state) | {"phrasing": state.phrasing}
    if state.held is not None:
        level["held"] = state.held
    if state.highest_stage != -1:
        level["highest_stage"] = state.highest_stage
    if state.outcome:
        level["outcome"] = state.outcome
    if state.qpos != HOME_QPOS:
        level["qpos"] = state.qpos
    return json.dumps(level)


def level_key(state: PrimitiveSkillState) -> bytes:
    """Returns canonical bytes of what a table is: its things and goals, not how they are worded."""
    return json.dumps(_content(state)).encode()


def _content(state: PrimitiveSkillState) -> dict[str, Any]:
    return {
        "task": state.task,
        "cubes": [{"colour": c.color, "position_m": c.position, "rotation": c.rotation} for c in state.cubes],
        "targets": [{"side": target.side, "position_mm": target.position_mm} for target in state.targets],
        "drawer": None if state.drawer is None else {"y_mm": state.drawer.y_mm, "open_m": state.drawer.open_m},
        "goals": [{"kind": goal.kind.value, "cube": goal.cube, "where": goal.where} for goal in state.goals],
    }


def parse_level(text: str) -> PrimitiveSkillState:
    """Reads a state, which may be solved already, or beyond help; the inverse of `level_text`.

    Raises:
        LevelError: If the text cannot be read or does not describe a table.
    """
    if not isinstance(text, str):
        raise LevelError(f"Expected {_EXPECTED}; got {text!r:.80} of type {type(text).__name__}.")
    try:
        state = _read(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error!s:.200}"
        raise LevelError(f"Expected {_EXPECTED}; got {text[:80]!r} ({reason}).") from error
    _check(state)
    return state


def _read(level: dict[str, Any]) -> PrimitiveSkillState:
    _know(level, ("task", "cubes", "targets", "drawer", "goals", *_OPTIONAL))
    drawer = level["drawer"]
    return PrimitiveSkillState(
        task=_text(level["task"]),
        cubes=tuple(map(_cube, level["cubes"])),
        targets=tuple(map(_target, level["targets"])),
        drawer=None if drawer is None else _drawer_of(drawer),
        goals=tuple(map(_goal, level["goals"])),
        phrasing=_whole(level.get("phrasing", 0)),
        held=None if level.get("held") is None else _whole(level["held"]),
        highest_stage=_whole(level.get("highest_stage", -1)),
        outcome=_text(level.get("outcome", "")),
        qpos=_floats(level.get("qpos", HOME_QPOS), len(HOME_QPOS)),
    )


def _cube(content: dict[str, Any]) -> Cube:
    _know(content, ("colour", "position_m", "rotation"))
    x, y, z = _floats(content["position_m"], 3)
    w, a, b, c = _floats(content["rotation"], 4)
    return Cube(color=_text(content["colour"]), position=(x, y, z), rotation=(w, a, b, c))


def _target(content: dict[str, Any]) -> Target:
    _know(content, ("side", "position_mm"))
    x, y = map(_whole, content["position_mm"])
    return Target(side=_text(content["side"]), position_mm=(x, y))


def _drawer_of(content: dict[str, Any]) -> Drawer:
    _know(content, ("y_mm", "open_m"))
    return Drawer(y_mm=_whole(content["y_mm"]), open_m=_floats([content["open_m"]], 1)[0])


def _goal(content: dict[str, Any]) -> Goal:
    _know(content, ("kind", "cube", "where"))
    return Goal(kind=GoalKind(content["kind"]), cube=_whole(content["cube"]), where=_whole(content["where"]))


def _know(content: dict[str, Any], keys: Sequence[str]) -> None:
    for key in content:
        if key not in keys:
            raise ValueError(f"there is no {key!r}, only {', '.join(keys)}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r}")
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _MAX_WHOLE:
        raise ValueError(f"expected a whole number of at most {_MAX_WHOLE}, got {value!r:.40}")
    return value


def _floats(values: Any, count: int) -> tuple[float, ...]:
    is_list = isinstance(values, list | tuple) and len(values) == count
    if not is_list or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        raise ValueError(f"expected {count} finite numbers, got {values!r}")
    if not all(abs(value) < _MAX_FLOAT for value in values):  # false for NaN too
        raise ValueError(f"expected {count} finite numbers below {_MAX_FLOAT:g}, got {values!r:.80}")
    return tuple(map(float, values))


def _check(state: PrimitiveSkillState) -> None:
    """Raises `LevelError` if the parts of a state do not go together."""
    for expected, is_right in _REQUIREMENTS:
        if not is_right(state):
            raise LevelError(f"A level needs {expected}; got {level_text(state):.1000}")


def _has_cubes(state: PrimitiveSkillState) -> bool:
    colors = [cube.color for cube in state.cubes]
    is_known = set(colors) <= set(COLORS) and len(set(colors)) == len(colors)
    return is_known and 0 < len(colors) <= MAX_NUM_CUBES and state.held in (None, *range(len(colors)))


def _has_places(state: PrimitiveSkillState) -> bool:
    numbers = [value for cube in state.cubes for value in cube.position]
    is_turned = all(abs(math.hypot(*cube.rotation) - 1) < 1e-3 for cube in state.cubes)
    return is_turned and all(abs(value) <= _MAX_COORDINATE_M for value in numbers)


def _has_room(state: PrimitiveSkillState) -> bool:
    pairs = itertools.combinations((cube.position for cube in state.cubes), 2)
    return all(math.dist(*pair) >= _LEAST_CENTRES_M for pair in pairs)


def _holds_what_it_holds(state: PrimitiveSkillState) -> bool:
    if state.held is None:
        return True
    hand = tool_position(state.qpos, BASE_X_M + FRAME_X_M[state.task])
    is_near = math.dist(hand, state.cubes[state.held].position) < GRASP_RADIUS_M
    return is_near and sum(state.qpos[NUM_ARM_JOINTS:]) >= HELD_GAP_M


def _has_sides(state: PrimitiveSkillState) -> bool:
    return not state.targets or state.targets[0].position_mm[1] < state.targets[1].position_mm[1]


def _has_furniture(state: PrimitiveSkillState) -> bool:
    sides = [target.side for target in state.targets]
    needs_targets = state.task in ("place", "stack")
    return sides == (["left", "right"] if needs_targets else []) and (state.drawer is not None) == (
        state.task == "drawer"
    )


def _has_goals(state: PrimitiveSkillState) -> bool:
    kinds = tuple(goal.kind for goal in state.goals)
    if state.task == "align":
        return set(kinds) == {GoalKind.ALIGNED} and len({goal.where for goal in state.goals}) == 1
    if state.task == "place" and len(state.cubes) == 1:
        return kinds == (GoalKind.ON_TARGET,)
    return kinds == _GOAL_KINDS[state.task]


def _can_be_met(state: PrimitiveSkillState) -> bool:
    used = [goal.where for goal in state.goals if goal.kind is GoalKind.ON_TARGET]
    is_apart = all(goal.cube != goal.where for goal in state.goals if goal.kind is GoalKind.ON_CUBE)
    return is_apart and len(set(used)) == len(used)


def _is_drawer_in_its_cabinet(state: PrimitiveSkillState) -> bool:
    return state.drawer is None or _SHUT_TO_OPEN_M[0] <= state.drawer.open_m <= _SHUT_TO_OPEN_M[1]


def _has_subjects(state: PrimitiveSkillState) -> bool:
    cubes = range(len(state.cubes))
    places = {GoalKind.ON_TARGET: range(len(state.targets)), GoalKind.ON_CUBE: cubes}
    subjects = [goal.cube for goal in state.goals]
    is_known = all(goal.where in places.get(goal.kind, (goal.where,)) for goal in state.goals)
    return is_known and set(subjects) <= set(cubes) and len(set(subjects)) == len(subjects)


_GOAL_KINDS = {
    "place": (GoalKind.ON_TARGET, GoalKind.ON_TARGET),
    "stack": (GoalKind.ON_CUBE, GoalKind.ON_TARGET),
    "drawer": (GoalKind.IN_DRAWER,),
}

_REQUIREMENTS: tuple[tuple[str, Callable[[PrimitiveSkillState], bool]], ...] = (
    (f"a task out of {', '.join(STAGES)}", lambda state: state.task in STAGES),
    (
        f"1 to {MAX_NUM_CUBES} cubes of different colours out of {', '.join(COLORS)}, the held one among them",
        _has_cubes,
    ),
    (f"positions within {_MAX_COORDINATE_M:g} m and rotations of length 1", _has_places),
    ("a left and a right target to place or stack, a drawer for the drawer, and nothing else", _has_furniture),
    ("one place for each cube, not in another", _has_room),
    ("the left target to be left of the right one", _has_sides),
    (f"a drawer that is shut or open, by 0 to {DRAWER_TRAVEL_M:g} m", _is_drawer_in_its_cabinet),
    ("the goals of its task", _has_goals),
    ("goals about cubes and places that exist, one a cube", _has_subjects),
    ("goals that can be met together: one a cube and a target, no cube on itself", _can_be_met),
    ("a phrasing that exists", lambda state: 0 <= state.phrasing < num_phrasings(state.task)),
    (
        f"an outcome of one line of at most {_MAX_OUTCOME_CHARS} printable characters",
        lambda state: len(state.outcome) <= _MAX_OUTCOME_CHARS and state.outcome.isprintable(),
    ),
    (f"joints within {_MAX_JOINT:.2f}", lambda state: max(map(abs, state.qpos)) <= _MAX_JOINT),
    (
        f"a held cube between the fingers, as a pick leaves it: within {1000 * GRASP_RADIUS_M:g} mm of the hand that "
        f"its qpos gives, the fingers {1000 * HELD_GAP_M:g} mm apart or more",
        _holds_what_it_holds,
    ),
    ("a highest stage that exists", lambda state: -1 <= state.highest_stage <= max(STAGES[state.task])),
)
"""What a level needs, in words, and whether a state has it; each may rely on those before."""
