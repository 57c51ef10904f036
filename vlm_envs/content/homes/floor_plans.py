"""Random floor plans: a rectangle cut into rooms, with a door wherever two of them share enough wall.

A plan alone decides which split its homes belong to, so no floor plan of an evaluation was ever trained on.
"""

from __future__ import annotations

import numpy as np

from vlm_envs.content.drawing import pick
from vlm_envs.content.homes.home import Door, Room, plan_bytes
from vlm_envs.content.homes.palette import FLOORS, WALLS
from vlm_envs.content.homes.rectangles import Rectangle
from vlm_envs.errors import GenerationError
from vlm_envs.splits import split_of

ROOM_KINDS = ("living_room", "kitchen", "bedroom", "study", "bathroom")
"""What rooms are for; the smallest room is the bathroom, if there is one."""

NUM_PLAN_TRIES = 500
_NUM_ROOMS = (2, 3, 4)
_MIN_SIDE, _MAX_SIDE = 11, 19
_DOOR_WIDTH = 4
_DOOR_MARGIN = 2


def draw_plan(rng: np.random.Generator, split: str) -> tuple[tuple[Room, ...], tuple[Door, ...]]:
    """Returns the rooms and doors of a random home of a split.

    Args:
        rng: The only source of randomness.
        split: `"train"`, `"val"` or `"test"`; the plan's content belongs to it.

    Returns:
        Two to four rooms of different kinds, every one of which can be reached from every other.

    Raises:
        GenerationError: If no plan of the split was found within `NUM_PLAN_TRIES`.
    """
    for _ in range(NUM_PLAN_TRIES):
        rectangles = _cut(rng, int(rng.choice(_NUM_ROOMS)))
        doors = _doors(rng, rectangles)
        rooms = _named(rng, rectangles)
        if split_of(plan_bytes(rooms, doors)) == split:
            return rooms, doors
    raise GenerationError(f"No floor plan of split {split!r} was found in {NUM_PLAN_TRIES} tries; try another seed.")


def _cut(rng: np.random.Generator, num_rooms: int) -> list[Rectangle]:
    """Returns rectangles that fill one: two side by side, of which each may be cut once across."""
    widths = rng.integers(_MIN_SIDE, _MAX_SIDE, size=2).tolist()
    is_tall = num_rooms > 2
    depth = (
        int(rng.integers(2 * _MIN_SIDE, 2 * _MAX_SIDE - 4)) if is_tall else int(rng.integers(_MIN_SIDE + 2, _MAX_SIDE))
    )
    columns = [Rectangle(0, 0, widths[0], depth), Rectangle(widths[0], 0, widths[0] + widths[1], depth)]
    if not is_tall:
        return columns
    first = int(rng.integers(2))
    to_cut = (first,) if num_rooms == 3 else (0, 1)
    rectangles = []
    for index, column in enumerate(columns):
        if index not in to_cut:
            # The room that is not cut need not be as deep as two: it ends where a random depth does
            rectangles.append(column._replace(north=min(depth, int(rng.integers(_MIN_SIDE + 3, _MAX_SIDE + 2)))))
            continue
        middle = int(rng.integers(_MIN_SIDE, depth - _MIN_SIDE + 1))
        rectangles += [column._replace(north=middle), column._replace(south=middle)]
    return rectangles


def _doors(rng: np.random.Generator, rectangles: list[Rectangle]) -> tuple[Door, ...]:
    """Returns a door in every shared wall that is long enough for one; such walls connect all rooms."""
    doors = []
    for index, one in enumerate(rectangles):
        for other in rectangles[index + 1 :]:
            if one.east == other.west:
                line, low, high = one.east, max(one.south, other.south), min(one.north, other.north)
            elif one.north == other.south:
                line, low, high = one.north, max(one.west, other.west), min(one.east, other.east)
            else:
                continue
            room_for_it = high - low - _DOOR_WIDTH - 2 * _DOOR_MARGIN
            if room_for_it >= 0:
                start = low + _DOOR_MARGIN + int(rng.integers(room_for_it + 1))
                doors.append(Door(is_upright=one.east == other.west, line=line, low=start, high=start + _DOOR_WIDTH))
    return tuple(doors)


def _named(rng: np.random.Generator, rectangles: list[Rectangle]) -> tuple[Room, ...]:
    """Returns the rectangles as rooms with a use, paint and floor each."""
    kinds = [ROOM_KINDS[index] for index in rng.permutation(len(ROOM_KINDS))[: len(rectangles)]]
    smallest = min(range(len(rectangles)), key=lambda index: rectangles[index].area)
    if "bathroom" in kinds:
        current = kinds.index("bathroom")
        kinds[current], kinds[smallest] = kinds[smallest], kinds[current]
    walls, floors = list(WALLS), list(FLOORS)
    rooms = []
    for kind, rectangle in zip(kinds, rectangles, strict=True):
        wall, floor = pick(rng, walls), pick(rng, floors)
        rooms.append(Room(kind=kind, wall=wall, floor=floor, **rectangle._asdict()))
    return tuple(rooms)
