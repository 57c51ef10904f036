"""Which rooms can be in a picture: those one looks into through doorways.

A safe estimate that lets the renderer leave out the other rooms: a room may be counted that is hidden after all, but
none is missed. It is worked out on the floor, where a doorway spans an angle, and what one sees through several of
them is where their angles overlap.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from vlm_envs.content.homes.home import LATTICE_CM, WALL_THICKNESS_CM, Door, Home, Room

_METRE = LATTICE_CM / 100
_WALL_M = WALL_THICKNESS_CM / 200 + 0.02


class Sector(NamedTuple):
    """Directions on the floor, in radians anticlockwise from east.

    Attributes:
        middle: The direction in its middle.
        half: How far it reaches to either side; pi for all around.
    """

    middle: float
    half: float


@lru_cache(maxsize=8192)
def rooms_in_view(home: Home, x_m: float, y_m: float, heading_degrees: float, width_degrees: float) -> tuple[int, ...]:
    """Returns the numbers of the rooms that may be in a picture.

    Args:
        home: The home.
        x_m: East coordinate of the eye.
        y_m: North coordinate of the eye.
        heading_degrees: Where it looks, clockwise from north.
        width_degrees: How wide the picture is on the floor; 360 for all around.

    Returns:
        Room numbers in order; all rooms if the eye is in none, as in a doorway.
    """
    here = next((index for index, room in enumerate(home.rooms) if _is_inside(room, x_m, y_m)), None)
    if here is None:
        return tuple(range(len(home.rooms)))
    seen = {here}
    sector = Sector(math.radians(90 - heading_degrees), math.radians(min(width_degrees, 360) / 2))
    _look_on(home, (x_m, y_m), (here,), sector, seen)
    return tuple(sorted(seen))


def has_door(room: Room, door: Door) -> bool:
    """Returns whether a door lies in one of a room's walls."""
    if door.is_upright:
        return door.line in (room.west, room.east) and room.south <= door.low and door.high <= room.north
    return door.line in (room.south, room.north) and room.west <= door.low and door.high <= room.east


def _is_inside(room: Room, x_m: float, y_m: float) -> bool:
    inside_x = room.west * _METRE + _WALL_M < x_m < room.east * _METRE - _WALL_M
    return inside_x and room.south * _METRE + _WALL_M < y_m < room.north * _METRE - _WALL_M


def _look_on(home: Home, eye: tuple[float, float], path: tuple[int, ...], sector: Sector, seen: set[int]) -> None:
    """Adds the rooms seen through the doors of the last room of a path, and through theirs."""
    for door in home.doors:
        if not has_door(home.rooms[path[-1]], door):
            continue
        narrower = _through(eye, door, sector)
        for beyond, room in enumerate(home.rooms):
            if narrower is not None and beyond not in path and has_door(room, door):
                seen.add(beyond)
                _look_on(home, eye, (*path, beyond), narrower, seen)


def _through(eye: tuple[float, float], door: Door, sector: Sector) -> Sector | None:
    """Returns what of a sector passes a door, or None if nothing does."""
    line, low, high = door.line * _METRE, door.low * _METRE, door.high * _METRE
    ends = ((line, low), (line, high)) if door.is_upright else ((low, line), (high, line))
    first, last = sorted(_wrapped(math.atan2(y - eye[1], x - eye[0]) - sector.middle) for x, y in ends)
    if last - first > math.pi:  # the door is behind: it spans from `last` on, past the back, to `first`
        if sector.half >= math.pi:
            first, last = last, first + 2 * math.pi
        elif last < sector.half:
            first, last = last, sector.half
        elif first > -sector.half:
            first, last = -sector.half, first
        else:
            return None
    elif sector.half < math.pi:
        first, last = max(first, -sector.half), min(last, sector.half)
    return Sector(sector.middle + (first + last) / 2, (last - first) / 2) if first <= last else None


def _wrapped(angle: float) -> float:
    """Returns an angle within minus pi and pi."""
    return math.remainder(angle, 2 * math.pi)
