"""Levels of PrimitiveSkill: their text, and random ones.

Deviations from VAGEN, which leaves the layouts open: the colors, and the order in which their positions are listed, are
drawn for every level, so the image is needed to match positions to colors.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vlm_envs.errors import GenerationError, LevelError
from vlm_envs.splits import split_of
from vlm_envs.worlds.primitive_skill.skill_state import (
    BASE_X_M,
    COLORS,
    CUBE_HALF_M,
    DRAWER_TRAVEL_M,
    FRAME_X_M,
    GRASP_RADIUS_M,
    HELD_GAP_M,
    HOME_QPOS,
    MAX_NUM_CUBES,
    NUM_ARM_JOINTS,
    STAGES,
    Cube,
    Drawer,
    Goal,
    GoalKind,
    PrimitiveSkillState,
    Target,
    is_met,
    num_phrasings,
    reached_stage,
    tool_position,
    yaw_quaternion,
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


NUM_TRIES, NUM_SPOT_TRIES = 5_000, 50
APART_MM = 90
"""Least distance of a cube from other cubes and from targets: room for the open gripper."""
STACK_APART_MM = (75, 140)
"""Least distance, along x or along y, of a stack from where else the hand goes down: it is wider than the gripper."""
LANE_MM = 110
"""Least distance along y between cubes that are pushed along x."""

NUM_CUBES: Mapping[str, tuple[int, ...]] = {"place": (3, 2, 1), "stack": (3,), "drawer": (2,), "align": (3,)}
"""How many cubes stand on the table of each task, the usual number first."""

Span = tuple[int, int]
Spot = tuple[int, int]

TABLE_SPAN: tuple[Span, Span] = ((-80, 130), (-180, 180))
BESIDE_DRAWER_SPAN: tuple[Span, Span] = ((-330, -120), (60, 180))
TARGET_SPANS: tuple[tuple[Span, Span], ...] = (((30, 120), (-150, -70)), ((30, 120), (70, 150)))
DRAWER_Y_SPAN: Span = (-100, -70)
ALIGN_SPAN: tuple[Span, Span] = ((-80, 110), (-180, 180))
"""The arm can still get behind a cube there, to push it towards itself."""
ALIGN_X_SPAN: Span = (-20, 70)
ALIGN_AWAY_MM = 40
MAX_YAW_DEG = {"place": 40, "stack": 40, "drawer": 40, "align": 10}


def generate(
    rng: np.random.Generator, split: str, task: str, *, grid_mm: int = 1, num_cubes: int | None = None
) -> PrimitiveSkillState:
    """Returns a random table of a split and task where nothing that is asked for is done yet.

    Args:
        rng: The only source of chance.
        split: `"train"`, `"val"` or `"test"`.
        task: Which of the tasks.
        grid_mm: Things stand at multiples of it, in both directions.
        num_cubes: One of the task's `NUM_CUBES`; None for the first of them.

    Raises:
        GenerationError: If no such table was found in `NUM_TRIES` tries.
    """
    number = num_cubes or NUM_CUBES[task][0]
    for _ in range(NUM_TRIES):
        state = _LAYOUTS[task](rng, grid_mm, number)
        if state is None or split_of(level_key(state)) != split:
            continue
        state = replace(state, phrasing=int(rng.integers(num_phrasings(task))))
        if reached_stage(state) == -1 and not any(is_met(state, goal) for goal in state.goals):
            return state
    raise GenerationError(f"No {task} table was found for split {split!r} in {NUM_TRIES} tries; try another seed.")


def _place(rng: np.random.Generator, grid_mm: int, num_cubes: int) -> PrimitiveSkillState | None:
    targets = _targets(rng, grid_mm)
    spots = _spread(rng, num_cubes, TABLE_SPAN, grid_mm, taken=[target.position_mm for target in targets])
    if spots is None:
        return None
    named = _choice(rng, num_cubes, 2)
    goals = tuple(
        # Two targets, and one cube at least
        Goal(kind=GoalKind.ON_TARGET, cube=cube, where=side)
        for cube, side in zip(named, _choice(rng, 2, 2), strict=False)
    )
    return PrimitiveSkillState(task="place", cubes=_cubes(rng, spots, "place"), targets=targets, goals=goals)


def _stack(rng: np.random.Generator, grid_mm: int, num_cubes: int) -> PrimitiveSkillState | None:
    targets = _targets(rng, grid_mm)
    spots = _spread(rng, num_cubes, TABLE_SPAN, grid_mm, taken=[target.position_mm for target in targets])
    if spots is None:
        return None
    top, base, other = _choice(rng, num_cubes, num_cubes)
    side = int(rng.integers(2))
    if not all(_clears_stack(spots[base], spot) for spot in (spots[other], targets[side].position_mm)):
        return None
    goals = (
        Goal(kind=GoalKind.ON_CUBE, cube=top, where=base),
        Goal(kind=GoalKind.ON_TARGET, cube=other, where=side),
    )
    return PrimitiveSkillState(task="stack", cubes=_cubes(rng, spots, "stack"), targets=targets, goals=goals)


def _drawer(rng: np.random.Generator, grid_mm: int, num_cubes: int) -> PrimitiveSkillState | None:
    spots = _spread(rng, num_cubes, BESIDE_DRAWER_SPAN, grid_mm)
    if spots is None:
        return None
    drawer = Drawer(y_mm=_integer(rng, DRAWER_Y_SPAN, grid_mm), open_m=0.0)
    goals = (Goal(kind=GoalKind.IN_DRAWER, cube=int(rng.integers(num_cubes))),)
    return PrimitiveSkillState(task="drawer", cubes=_cubes(rng, spots, "drawer"), drawer=drawer, goals=goals)


def _align(rng: np.random.Generator, grid_mm: int, num_cubes: int) -> PrimitiveSkillState | None:
    line = _integer(rng, ALIGN_X_SPAN, grid_mm)
    lanes = sorted(
        _integer(rng, (0, ALIGN_SPAN[1][1] - ALIGN_SPAN[1][0] - 2 * LANE_MM), grid_mm) for _ in range(num_cubes)
    )
    ys = [ALIGN_SPAN[1][0] + lane + index * LANE_MM for index, lane in enumerate(lanes)]
    spots = [(_integer(rng, ALIGN_SPAN[0], grid_mm), ys[index]) for index in _choice(rng, num_cubes, num_cubes)]
    if any(abs(x - line) < ALIGN_AWAY_MM for x, _ in spots):
        return None
    goals = tuple(Goal(kind=GoalKind.ALIGNED, cube=cube, where=line) for cube in range(num_cubes))
    return PrimitiveSkillState(task="align", cubes=_cubes(rng, spots, "align"), goals=goals)


_LAYOUTS: Mapping[str, Callable[[np.random.Generator, int, int], PrimitiveSkillState | None]] = {
    "place": _place,
    "stack": _stack,
    "drawer": _drawer,
    "align": _align,
}


def _integer(rng: np.random.Generator, span: Span, step: int = 1) -> int:
    """Returns a multiple of a step within a span, ends included."""
    return step * int(rng.integers(-(-span[0] // step), span[1] // step + 1))


def _choice(rng: np.random.Generator, num_things: int, num_chosen: int) -> list[int]:
    return [int(index) for index in rng.permutation(num_things)[:num_chosen]]


def _targets(rng: np.random.Generator, grid_mm: int) -> tuple[Target, ...]:
    """Returns a left and a right target."""
    return tuple(
        Target(side=side, position_mm=(_integer(rng, span_x, grid_mm), _integer(rng, span_y, grid_mm)))
        for side, (span_x, span_y) in zip(("left", "right"), TARGET_SPANS, strict=True)
    )


def _spread(
    rng: np.random.Generator, num_spots: int, span: tuple[Span, Span], grid_mm: int, *, taken: Sequence[Spot] = ()
) -> list[Spot] | None:
    """Returns random spots apart from each other and from those taken, or None if it gets stuck."""
    spots: list[Spot] = []
    for _ in range(NUM_SPOT_TRIES):
        spot = (_integer(rng, span[0], grid_mm), _integer(rng, span[1], grid_mm))
        if all(math.dist(spot, other) >= APART_MM for other in (*spots, *taken)):
            spots.append(spot)
        if len(spots) == num_spots:
            return spots
    return None


def _clears_stack(stack: Spot, spot: Spot) -> bool:
    apart_x, apart_y = STACK_APART_MM
    return abs(stack[0] - spot[0]) >= apart_x or abs(stack[1] - spot[1]) >= apart_y


def _cubes(rng: np.random.Generator, spots: Sequence[Spot], task: str) -> tuple[Cube, ...]:
    """Returns cubes of different colours, each turned at random."""
    colors = _choice(rng, len(COLORS), len(spots))
    span = (-MAX_YAW_DEG[task], MAX_YAW_DEG[task])
    return tuple(
        Cube(
            color=COLORS[color],
            position=(x / 1000, y / 1000, CUBE_HALF_M),
            rotation=yaw_quaternion(math.radians(_integer(rng, span))),
        )
        for color, (x, y) in zip(colors, spots, strict=True)
    )
