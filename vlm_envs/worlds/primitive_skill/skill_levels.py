"""Levels of PrimitiveSkill: parsing, serialization, and random generation.

Deviation from VAGEN, which leaves the layouts open: colors, and the order in which positions are listed, are
drawn at random for every level, so the image is needed to match positions to colors.
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
    COLORS,
    CUBE_HALF_M,
    DRAWER_TRAVEL_M,
    HOME_QPOS,
    MAX_NUM_CUBES,
    NUM_STAGES,
    Cube,
    Drawer,
    Goal,
    GoalKind,
    PrimitiveSkillState,
    Target,
    is_met,
    num_phrasings,
    reached_stage,
    yaw_quaternion,
)

_MAX_COORDINATE_M = 10.0
_MAX_NUMBER = 1_000_000
_MAX_JOINT = 2 * math.pi
_MAX_OUTCOME_CHARS = 200
_LEAST_CENTERS_M = 0.03
"""Cubes whose centers are closer than this would overlap."""
_PLAY_M = 0.01
"""Tolerance of the drawer's opening beyond its travel."""

_TABLE: dict[str, Any] = {
    "task": str,
    "cubes": [{"colour": str, "position_m": (float,) * 3, "rotation": (float,) * 4}],
    "targets": [{"side": str, "position_mm": (int,) * 2}],
    "drawer": {"y_mm": int, "open_m": float},
    "goals": [{"kind": str, "cube": int, "where": int}],
}
_OPTIONAL: dict[str, Any] = {
    "phrasing": int,
    "held": int,
    "highest_stage": int,
    "outcome": str,
    "qpos": (float,) * len(HOME_QPOS),
}
"""The schema of a level: types, fixed-length tuples, lists of any length, and objects; a drawer may be
null."""


def level_text(state: PrimitiveSkillState) -> str:
    """Serializes a state as one line of JSON; equal states give equal text."""
    level = _content(state) | {"phrasing": state.phrasing}
    initial = {"held": None, "highest_stage": -1, "outcome": "", "qpos": HOME_QPOS}
    level |= {name: getattr(state, name) for name, value in initial.items() if getattr(state, name) != value}
    return json.dumps(level)


def level_key(state: PrimitiveSkillState) -> bytes:
    """Returns canonical bytes of a table: its things and goals, but not their wording."""
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
    """Parses a state, possibly solved or unsolvable; the inverse of `level_text`.

    Raises:
        LevelError: If the text cannot be parsed or does not describe a table.
    """
    try:
        content = json.loads(text)
        options = {name: content.pop(name) for name in _OPTIONAL if content.get(name) is not None}
        options = _read(options, {name: _OPTIONAL[name] for name in options})
        drawer = content.get("drawer")
        table = _read(content, _TABLE if drawer is not None else _TABLE | {"drawer": None})
        state = PrimitiveSkillState(
            task=table["task"],
            cubes=tuple(
                Cube(color=c["colour"], position=c["position_m"], rotation=c["rotation"]) for c in table["cubes"]
            ),
            targets=tuple(Target(**target) for target in table["targets"]),
            drawer=None if drawer is None else Drawer(**table["drawer"]),
            goals=tuple(Goal(**{**goal, "kind": GoalKind(goal["kind"])}) for goal in table["goals"]),
            **options,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        expected = "a JSON object as `env.dynamics.dump(state)` writes it"
        raise LevelError(
            f"Expected {expected}; got {text!r:.80} of type {type(text).__name__} ({error!s:.200})."
        ) from error
    for needed, is_there in _REQUIREMENTS:
        if not is_there(state):
            raise LevelError(f"A level needs {needed}; got {level_text(state):.1000}")
    return state


def _read(value: Any, form: Any) -> Any:
    """Returns a value after checking its types against a schema; ints may replace floats."""
    if isinstance(form, dict) and isinstance(value, dict) and value.keys() == form.keys():
        return {name: _read(value[name], part) for name, part in form.items()}
    if isinstance(form, list) and isinstance(value, list):
        return tuple(_read(part, form[0]) for part in value)
    if isinstance(form, tuple) and isinstance(value, list) and len(value) == len(form):
        return tuple(map(_read, value, form))
    if value is form is None or (form is str and isinstance(value, str)):
        return value
    is_number = type(value) is form or (form is float and type(value) is int)
    if form in (int, float) and is_number and abs(value) <= _MAX_NUMBER:  # also false for NaN
        return form(value)
    raise ValueError(f"expected {form}, got {value!r:.80}")


def _has_things(state: PrimitiveSkillState) -> bool:
    """Returns whether cubes, targets, and drawer fit the task and do not overlap."""
    colors, centers = {cube.color for cube in state.cubes}, [cube.position for cube in state.cubes]
    sides = ["left", "right"] if state.task in ("place", "stack") else []
    ys = [target.position_mm[1] for target in state.targets]
    return (
        0 < len(state.cubes) <= MAX_NUM_CUBES
        and len(colors & set(COLORS)) == len(state.cubes)
        and all(abs(value) <= _MAX_COORDINATE_M for center in centers for value in center)
        and all(abs(math.hypot(*cube.rotation) - 1) < 1e-3 for cube in state.cubes)
        and all(math.dist(*pair) >= _LEAST_CENTERS_M for pair in itertools.combinations(centers, 2))
        and [target.side for target in state.targets] == sides
        and ys == sorted(set(ys))
        and (state.drawer is not None) == (state.task == "drawer")
        and (state.drawer is None or -_PLAY_M <= state.drawer.open_m <= DRAWER_TRAVEL_M + _PLAY_M)
    )


_GOAL_KINDS = {
    "place": (GoalKind.ON_TARGET, GoalKind.ON_TARGET),
    "stack": (GoalKind.ON_CUBE, GoalKind.ON_TARGET),
    "drawer": (GoalKind.IN_DRAWER,),
}


def _has_goals(state: PrimitiveSkillState) -> bool:
    """Returns whether the goals fit the task and can be met together."""
    kinds, subjects = [goal.kind for goal in state.goals], {goal.cube for goal in state.goals}
    lines = {goal.where for goal in state.goals if goal.kind is GoalKind.ALIGNED}
    expected = (GoalKind.ALIGNED,) * len(kinds) if state.task == "align" else _GOAL_KINDS[state.task]
    if state.task == "place" and len(state.cubes) == 1:
        expected = expected[:1]
    on_target = [goal.where for goal in state.goals if goal.kind is GoalKind.ON_TARGET]
    on_cube = [goal for goal in state.goals if goal.kind is GoalKind.ON_CUBE]
    return (
        0 < len(kinds) == len(subjects)
        and tuple(kinds) == expected
        and len(lines) == (state.task == "align")
        and subjects <= set(range(len(state.cubes)))
        and set(on_target) <= set(range(len(state.targets)))
        and len(set(on_target)) == len(on_target)
        and all(goal.where in range(len(state.cubes)) and goal.where != goal.cube for goal in on_cube)
    )


def _has_progress(state: PrimitiveSkillState) -> bool:
    """Returns whether wording, stage, outcome, and arm are possible."""
    return (
        max(map(abs, state.qpos)) <= _MAX_JOINT
        and state.held in (None, *range(len(state.cubes)))
        and 0 <= state.phrasing < num_phrasings(state.task)
        and -1 <= state.highest_stage < NUM_STAGES[state.task]
        and len(state.outcome) <= _MAX_OUTCOME_CHARS
        and state.outcome.isprintable()
    )


_REQUIREMENTS: tuple[tuple[str, Callable[[PrimitiveSkillState], bool]], ...] = (
    (f"a task out of {', '.join(NUM_STAGES)}", lambda state: state.task in NUM_STAGES),
    (
        f"1 to {MAX_NUM_CUBES} cubes of different colors out of {', '.join(COLORS)}, within {_MAX_COORDINATE_M:g} m, "
        "not in each other, with rotations of length 1, a left and a right target to place or stack, and a drawer, "
        f"open by 0 to {DRAWER_TRAVEL_M:g} m, in its task only",
        _has_things,
    ),
    ("goals of its task about cubes and places that exist, one per cube, that can be met together", _has_goals),
    (
        "a phrasing, a highest stage, and a held cube that exist, an outcome of one printable line of at most "
        f"{_MAX_OUTCOME_CHARS} characters, and joints within {_MAX_JOINT:.2f}",
        _has_progress,
    ),
)
"""Requirements of a level, and a check of each, which relies on the preceding ones."""


NUM_TRIES, NUM_SPOT_TRIES = 5_000, 50
APART_MM = 90
"""Minimum distance of a cube from other cubes and targets, which leaves room for the open gripper."""
STACK_APART_MM = (75, 140)
"""Minimum distance, along x or along y, of a stack from other places the hand goes to: the hand is wide."""
LANE_MM = 110
"""Minimum distance along y between cubes that are pushed along x."""

NUM_CUBES: Mapping[str, tuple[int, ...]] = {"place": (3, 2, 1), "stack": (3,), "drawer": (2,), "align": (3,)}
"""Possible numbers of cubes in each task, the default first."""

Span = tuple[int, int]

TABLE_SPAN: tuple[Span, Span] = ((-80, 130), (-180, 180))
BESIDE_DRAWER_SPAN: tuple[Span, Span] = ((-330, -120), (60, 180))
TARGET_SPANS: tuple[tuple[Span, Span], ...] = (((30, 120), (-150, -70)), ((30, 120), (70, 150)))
DRAWER_Y_SPAN: Span = (-100, -70)
ALIGN_SPAN: tuple[Span, Span] = ((-80, 110), (-180, 180))
"""From here, the arm can still reach behind a cube to push it towards itself."""
ALIGN_X_SPAN: Span = (-20, 70)
ALIGN_AWAY_MM = 40
MAX_YAW_DEG = {"place": 40, "stack": 40, "drawer": 40, "align": 10}


def generate(
    rng: np.random.Generator, split: str, task: str, *, grid_mm: int = 1, num_cubes: int | None = None
) -> PrimitiveSkillState:
    """Returns a random table of a split and task with no goal met yet.

    Args:
        rng: The only source of randomness.
        split: `"train"`, `"val"` or `"test"`.
        task: Name of the task.
        grid_mm: Positions are multiples of it, in both directions.
        num_cubes: One of the task's `NUM_CUBES`; None for the first of them.

    Raises:
        GenerationError: If no such table was found in `NUM_TRIES` attempts.
    """
    number = num_cubes or NUM_CUBES[task][0]
    for _ in range(NUM_TRIES):
        state = _LAYOUTS[task](rng, grid_mm, number)
        if state is None or split_of(level_key(state)) != split:
            continue
        state = replace(state, phrasing=int(rng.integers(num_phrasings(task))))
        if reached_stage(state) == -1 and not any(is_met(state, goal) for goal in state.goals):
            return state
    raise GenerationError(f"No {task} table was found for split {split!r} in {NUM_TRIES} attempts; try another seed.")


def _place(rng: np.random.Generator, grid_mm: int, num_cubes: int) -> PrimitiveSkillState | None:
    targets = _targets(rng, grid_mm)
    spots = _spread(rng, num_cubes, TABLE_SPAN, grid_mm, taken=[target.position_mm for target in targets])
    if spots is None:
        return None
    named, sides = _choice(rng, num_cubes, 2), _choice(rng, 2, 2)  # one cube takes one of the two targets
    goals = tuple(Goal(kind=GoalKind.ON_TARGET, cube=c, where=side) for c, side in zip(named, sides, strict=False))
    return PrimitiveSkillState(task="place", cubes=_cubes(rng, spots, "place"), targets=targets, goals=goals)


def _stack(rng: np.random.Generator, grid_mm: int, num_cubes: int) -> PrimitiveSkillState | None:
    targets = _targets(rng, grid_mm)
    spots = _spread(rng, num_cubes, TABLE_SPAN, grid_mm, taken=[target.position_mm for target in targets])
    if spots is None:
        return None
    top, base, other = _choice(rng, num_cubes, num_cubes)
    side = int(rng.integers(2))
    for spot in (spots[other], targets[side].position_mm):
        if all(abs(a - b) < apart for a, b, apart in zip(spots[base], spot, STACK_APART_MM, strict=True)):
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


_LAYOUTS = {"place": _place, "stack": _stack, "drawer": _drawer, "align": _align}


def _integer(rng: np.random.Generator, span: Span, step: int = 1) -> int:
    """Returns a random multiple of a step within a range, inclusive."""
    return step * int(rng.integers(-(-span[0] // step), span[1] // step + 1))


def _choice(rng: np.random.Generator, num_things: int, num_chosen: int) -> list[int]:
    return [int(index) for index in rng.permutation(num_things)[:num_chosen]]


def _targets(rng: np.random.Generator, grid_mm: int) -> tuple[Target, ...]:
    """Returns a random left and right target."""
    return tuple(
        Target(side=side, position_mm=(_integer(rng, span_x, grid_mm), _integer(rng, span_y, grid_mm)))
        for side, (span_x, span_y) in zip(("left", "right"), TARGET_SPANS, strict=True)
    )


def _spread(
    rng: np.random.Generator,
    num_spots: int,
    span: tuple[Span, Span],
    grid_mm: int,
    *,
    taken: Sequence[tuple[int, int]] = (),
) -> list[tuple[int, int]] | None:
    """Returns random spots apart from each other and from the taken ones, or None if it gets stuck."""
    spots: list[tuple[int, int]] = []
    for _ in range(NUM_SPOT_TRIES):
        spot = (_integer(rng, span[0], grid_mm), _integer(rng, span[1], grid_mm))
        if all(math.dist(spot, other) >= APART_MM for other in (*spots, *taken)):
            spots.append(spot)
        if len(spots) == num_spots:
            return spots
    return None


def _cubes(rng: np.random.Generator, spots: Sequence[tuple[int, int]], task: str) -> tuple[Cube, ...]:
    """Returns cubes with different colors and random rotations."""
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
