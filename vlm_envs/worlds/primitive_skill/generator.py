"""Random tables: where cubes, targets and the cabinet stand, and what is asked for.

Deviations from VAGEN, which leaves the layouts open: which colours there are, and in which order their positions are
told, is drawn anew for every level, so that the picture is needed to tell which position is whose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from vlm_envs.errors import GenerationError
from vlm_envs.splits import split_of
from vlm_envs.worlds.primitive_skill.geometry import CUBE_HALF_M, yaw_quaternion
from vlm_envs.worlds.primitive_skill.level_text import level_key
from vlm_envs.worlds.primitive_skill.phrases import num_phrasings
from vlm_envs.worlds.primitive_skill.stages import is_met, reached_stage
from vlm_envs.worlds.primitive_skill.state import COLORS, Cube, Drawer, Goal, GoalKind, PrimitiveSkillState, Target

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
