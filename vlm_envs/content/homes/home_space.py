"""Walkable places of a home, moves between them, and what is visible from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlm_envs.content.homes.home import (
    KINDS,
    LATTICE_CM,
    QUARTERS,
    WALL_HEIGHT_CM,
    WALL_THICKNESS_CM,
    Cell,
    Door,
    Home,
    floor_under,
)

BODY_RADIUS_CM = 20
"""Half the side of the square that the agent occupies on the floor."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FreeSpace:
    """The places to stand in a home, numbered row by row, and the moves between them.

    Attributes:
        width: Places per row.
        height: Number of rows.
        is_free: Whether the agent can stand on each place.
        num_steps: Lattice steps per move.
        can_step: For each direction of `QUARTERS`, whether the whole move from each place is free.
    """

    width: int
    height: int
    is_free: tuple[bool, ...]
    num_steps: int
    can_step: tuple[tuple[bool, ...], ...]

    def index(self, cell: Cell) -> int:
        """Returns a place's index, or -1 outside the home."""
        x, y = cell
        return y * self.width + x if 0 <= x < self.width and 0 <= y < self.height else -1

    def cell(self, index: int) -> Cell:
        """Returns the place with an index."""
        return index % self.width, index // self.width

    def is_free_at(self, cell: Cell) -> bool:
        """Returns whether the agent can stand on a place."""
        index = self.index(cell)
        return index >= 0 and self.is_free[index]

    def offset(self, direction: int, num_steps: int) -> int:
        """Returns the change of a place's index by a move."""
        x, y = QUARTERS[direction]
        return (y * self.width + x) * num_steps


@lru_cache(maxsize=512)
def free_space(home: Home, num_steps: int = 1, with_furniture: bool = True) -> FreeSpace:
    """Returns the walkable space of a home.

    Args:
        home: The home.
        num_steps: Lattice steps per move; every place on the way must be free.
        with_furniture: Whether furniture blocks the way; walls always do.
    """
    free = _between_walls(home)
    if with_furniture:
        for thing in home.things:
            if KINDS[thing.kind].place == "floor":
                _block(free, floor_under(thing))
    height, width = free.shape
    padded = np.pad(free, num_steps)
    steps = []
    for x, y in QUARTERS:
        can = free.copy()
        for count in range(1, num_steps + 1):
            top, left = num_steps + y * count, num_steps + x * count
            can &= padded[top : top + height, left : left + width]
        steps.append(tuple(can.ravel().tolist()))
    return FreeSpace(width, height, tuple(free.ravel().tolist()), num_steps, tuple(steps))


def are_rooms_connected(home: Home) -> bool:
    """Returns whether all rooms are connected on foot: whether the largest free area reaches into each."""
    space = free_space(home)
    unseen = {index for index, is_free in enumerate(space.is_free) if is_free}
    largest: set[int] = set()
    while unseen:
        area = {unseen.pop()}
        frontier = list(area)
        while frontier:
            index = frontier.pop()
            for direction in range(4):
                beside = index + space.offset(direction, 1)
                if space.can_step[direction][index] and beside in unseen:
                    unseen.remove(beside)
                    area.add(beside)
                    frontier.append(beside)
        largest = max(largest, area, key=len)
    return {home.room_of(space.cell(index)) for index in largest} >= set(range(len(home.rooms)))


def _between_walls(home: Home) -> NDArray[np.bool_]:
    """Returns bool[rows, places]: the insides of rooms and doorways."""
    width = max(room.east for room in home.rooms) + 1
    height = max(room.north for room in home.rooms) + 1
    free = np.zeros((height, width), dtype=np.bool_)
    for room in home.rooms:
        free[room.south + 1 : room.north, room.west + 1 : room.east] = True
    for door in home.doors:
        opening = slice(door.low + 1, door.high)
        if door.is_upright:
            free[opening, door.line] = True
        else:
            free[door.line, opening] = True
    return free


def _block(free: NDArray[np.bool_], footprint: tuple[int, int, int, int]) -> None:
    """Blocks the places where the agent's body would overlap a footprint."""
    west, south, east, north = footprint
    reach = BODY_RADIUS_CM
    first_x, last_x = (west - reach) // LATTICE_CM + 1, -((-east - reach) // LATTICE_CM) - 1
    first_y, last_y = (south - reach) // LATTICE_CM + 1, -((-north - reach) // LATTICE_CM) - 1
    free[max(first_y, 0) : max(last_y + 1, 0), max(first_x, 0) : max(last_x + 1, 0)] = False


@dataclass(frozen=True, eq=False)
class Geometry:
    """A home's things and opaque boxes as arrays.

    Attributes:
        middles_m: float64[N, 3], the middle of each thing.
        blockers_m: float64[2, M, 3], lowest and highest corner of each opaque axis-aligned box.
        blocker_things: int64[M], the index of the thing each box belongs to, or -1 for a wall.
    """

    middles_m: Floats
    blockers_m: Floats
    blocker_things: NDArray[np.int64]


@lru_cache(maxsize=512)
def geometry(home: Home) -> Geometry:
    """Returns a home's geometry; its blockers are walls, without their doorways, and solid furniture."""
    middles = [(thing.x_cm, thing.y_cm, thing.z_cm + KINDS[thing.kind].size_cm[2] / 2) for thing in home.things]
    boxes, owners = _walls_cm(home), [-1] * len(_walls_cm(home))
    for index, thing in enumerate(home.things):
        if KINDS[thing.kind].is_solid:
            west, south, east, north = floor_under(thing)
            top = thing.z_cm + KINDS[thing.kind].size_cm[2]
            boxes.append(((west, south, thing.z_cm), (east, north, top)))
            owners.append(index)
    return Geometry(
        middles_m=np.array(middles, dtype=np.float64).reshape(-1, 3) / 100,
        blockers_m=np.array(boxes, dtype=np.float64).transpose(1, 0, 2) / 100,
        blocker_things=np.array(owners, dtype=np.int64),
    )


Box = tuple[tuple[int, int, int], tuple[int, int, int]]


def _walls_cm(home: Home) -> list[Box]:
    """Returns the walls as boxes, one for each room that a wall bounds."""
    boxes = []
    for room in home.rooms:
        for is_upright, line, low, high in room.walls:
            for first, last in _closed_parts(home.doors, is_upright, line, low, high):
                boxes.append(_wall_cm(is_upright, line, first, last))
    return boxes


def _closed_parts(doors: tuple[Door, ...], is_upright: bool, line: int, low: int, high: int) -> list[tuple[int, int]]:
    """Returns the segments of a wall between its doors."""
    gaps = sorted((door.low, door.high) for door in doors if door.is_upright == is_upright and door.line == line)
    parts, start = [], low
    for gap_low, gap_high in gaps:
        if gap_high <= low or gap_low >= high:
            continue
        if gap_low > start:
            parts.append((start, gap_low))
        start = max(start, gap_high)
    return [*parts, (start, high)] if start < high else parts


def _wall_cm(is_upright: bool, line: int, low: int, high: int) -> Box:
    half = WALL_THICKNESS_CM // 2
    at, first, last = line * LATTICE_CM, low * LATTICE_CM, high * LATTICE_CM
    if is_upright:
        return (at - half, first, 0), (at + half, last, WALL_HEIGHT_CM)
    return (first, at - half, 0), (last, at + half, WALL_HEIGHT_CM)


EYE_HEIGHT_M = 1.3
MAX_TILT = 2
TILT_DEGREES = 30


class Pose(NamedTuple):
    """The agent's position and viewing direction, as exact integers.

    Attributes:
        x: East coordinate in lattice steps.
        y: North coordinate in lattice steps.
        heading: Quarter turns clockwise from north, 0 to 3.
        tilt: Upward tilt in steps of 30 degrees, -2 to 2.
    """

    x: int
    y: int
    heading: int
    tilt: int


def bearing(pose: Pose, x_m: float, y_m: float) -> tuple[float, float]:
    """Returns a point's distance ahead of and to the right of the agent, in meters."""
    east, north = x_m - pose.x * LATTICE_CM / 100, y_m - pose.y * LATTICE_CM / 100
    ahead_x, ahead_y = QUARTERS[pose.heading]
    return east * ahead_x + north * ahead_y, east * ahead_y - north * ahead_x


def direction_of(ahead: float, right: float) -> str:
    """Returns the direction of a bearing: within 45 degrees of ahead, left, right, or back.

    Exact diagonals count as ahead or back; the agent's own position counts as ahead.
    """
    if abs(right) <= abs(ahead):
        return "ahead" if ahead >= 0 else "back"
    return "right" if right > 0 else "left"


def seen_things(home: Home, pose: Pose, fov_degrees: float) -> tuple[int, ...]:
    """Returns the indices of the things whose middle is in the image and not hidden, in no particular order.

    Args:
        home: The home.
        pose: The agent's pose.
        fov_degrees: Horizontal and vertical field of view.

    Returns:
        Indices into `home.things`. A thing may hide others but never itself; doors hide nothing.
    """
    return tuple(_seen(home, pose, np.arange(len(home.things)), fov_degrees).tolist())


def can_see(home: Home, pose: Pose, thing: int, fov_degrees: float) -> bool:
    """Returns whether one thing is visible; see `seen_things`."""
    return _seen(home, pose, np.array([thing]), fov_degrees).size > 0


def _seen(home: Home, pose: Pose, things: NDArray[np.int64], fov_degrees: float) -> NDArray[np.int64]:
    """Returns the subset of things that are visible."""
    space = geometry(home)
    eye = np.array([pose.x * LATTICE_CM / 100, pose.y * LATTICE_CM / 100, EYE_HEIGHT_M])
    rays = space.middles_m[things] - eye
    framed = _is_framed(rays, pose, fov_degrees)
    things, rays = things[framed], rays[framed]
    return things[~_is_hidden(space, eye, rays, things)] if things.size else things


def _is_framed(rays: Floats, pose: Pose, fov_degrees: float) -> NDArray[np.bool_]:
    """Returns which rays, float64[N, 3], end inside the image."""
    ahead_x, ahead_y = QUARTERS[pose.heading]
    ahead = rays[:, 0] * ahead_x + rays[:, 1] * ahead_y
    right = rays[:, 0] * ahead_y - rays[:, 1] * ahead_x
    tilt = math.radians(pose.tilt * TILT_DEGREES)
    depth = ahead * math.cos(tilt) + rays[:, 2] * math.sin(tilt)
    up = rays[:, 2] * math.cos(tilt) - ahead * math.sin(tilt)
    reach = depth * math.tan(math.radians(fov_degrees) / 2)
    framed: NDArray[np.bool_] = (depth > 0) & (np.abs(right) <= reach) & (np.abs(up) <= reach)
    return framed


def _is_hidden(space: Geometry, eye: Floats, rays: Floats, things: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns which rays pass through a blocker other than their own thing.

    Slab method: a ray is inside a box after it has entered all three slabs and before it leaves the first.
    """
    inverse = 1.0 / np.where(rays == 0.0, 1e-12, rays)  # level or straight rays graze two of the slabs
    to_low = (space.blockers_m[0][None] - eye) * inverse[:, None]
    to_high = (space.blockers_m[1][None] - eye) * inverse[:, None]
    enters = np.minimum(to_low, to_high).max(axis=2)
    leaves = np.maximum(to_low, to_high).min(axis=2)
    blocks = (enters < leaves) & (leaves > 0.0) & (enters < 0.999)
    blocks &= space.blocker_things[None] != things[:, None]
    hidden: NDArray[np.bool_] = blocks.any(axis=1)
    return hidden
