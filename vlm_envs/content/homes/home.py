"""Homes: rooms, doors, and things as immutable values, identified by a key of their content.

Lengths are whole numbers, so that equal homes are equal bit by bit: walls and doors in lattice steps of `LATTICE_CM`,
things in centimeters. x runs east, y north, z up. A turn, like a heading, counts quarter turns clockwise from north; a
thing faces the direction of its turn. Small things are somewhat larger than life, so that an image of 255 pixels shows
them from across a room.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from vlm_envs.content.data_tables import data_table

Place = Literal["floor", "top", "wall"]


@dataclass(frozen=True, kw_only=True)
class ObjectKind:
    """Properties shared by all things of one name.

    Attributes:
        place: Whether it stands on the floor, stands on top of furniture, or hangs on a wall.
        size_cm: Width, depth, and height when it faces north.
        colors: Colors it comes in.
        is_solid: Whether its bounding box is opaque.
        top_cm: Height of the top that small things stand on; None if nothing stands on it.
        middle_cm: Height of its middle if it hangs on a wall.
        is_backed: Whether it always stands with its back to a wall, so that its back is not drawn.
    """

    place: Place
    size_cm: tuple[int, int, int]
    colors: tuple[str, ...]
    is_solid: bool = False
    top_cm: int | None = None
    middle_cm: int = 0
    is_backed: bool = False


KINDS: Mapping[str, ObjectKind] = {
    name: ObjectKind(**{**kind, "size_cm": tuple(kind["size_cm"]), "colors": tuple(kind["colors"])})
    for name, kind in data_table(__file__, "furniture.toml").items()
}
"""All kinds, by name."""


@lru_cache(maxsize=1024)
def words_of(kind: str) -> str:
    """Returns a kind's name in words, e.g. `"floor lamp"` for `"FloorLamp"`; works for AI2-THOR's types too."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", kind).lower()


LATTICE_CM = 25
"""Distance between neighboring places to stand. Source: the step length of VAGEN, Table 11."""

WALL_HEIGHT_CM = 250
DOOR_HEIGHT_CM = 205
WALL_THICKNESS_CM = 10

Cell = tuple[int, int]
"""A place to stand: (x, y) in lattice steps."""

QUARTERS: tuple[Cell, Cell, Cell, Cell] = ((0, 1), (1, 0), (0, -1), (-1, 0))
"""Unit steps (x, y) to the north, east, south, and west, indexed by turn."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """A rectangle between four walls.

    Attributes:
        kind: Purpose of the room, e.g. `"kitchen"`.
        west: x of the west wall, in lattice steps; the other walls use the same unit.
        south: y of the south wall.
        east: x of the east wall.
        north: y of the north wall.
        wall: Paint, a key of `palette.WALLS`.
        floor: Covering, a key of `palette.FLOORS`.
    """

    kind: str
    west: int
    south: int
    east: int
    north: int
    wall: str
    floor: str

    @property
    def walls(self) -> tuple[tuple[bool, int, int, int], ...]:
        """(is_upright, line, start, end) of the west, east, south, and north walls."""
        return (
            (True, self.west, self.south, self.north),
            (True, self.east, self.south, self.north),
            (False, self.south, self.west, self.east),
            (False, self.north, self.west, self.east),
        )

    def holds(self, cell: Cell) -> bool:
        """Returns whether a place to stand lies strictly between the walls."""
        return self.west < cell[0] < self.east and self.south < cell[1] < self.north


@dataclass(frozen=True, kw_only=True)
class Door:
    """A doorway, always open, in a wall between two rooms.

    Attributes:
        is_upright: Whether the wall runs north-south, so that `line` is an x, or east-west, so that it is a
            y.
        line: Position of the wall, in lattice steps.
        low: Start of the opening along the wall, in lattice steps.
        high: End of the opening.
    """

    is_upright: bool
    line: int
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """One object.

    Attributes:
        kind: A key of `kinds.KINDS`, e.g. `"FloorLamp"`.
        x_cm: East coordinate of its middle.
        y_cm: North coordinate of its middle.
        z_cm: Height of its lowest point.
        turn: Direction it faces: 0 north, 1 east, 2 south, 3 west.
        color: A key of `palette.COLORS`.
    """

    kind: str
    x_cm: int
    y_cm: int
    z_cm: int
    turn: int
    color: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Home:
    """Rooms, doors, and things; homes with equal content compare equal.

    Attributes:
        rooms: The rooms; adjacent rooms share a wall line.
        doors: The doorways.
        things: Everything that stands or hangs in the rooms.
        key: Digest of the content, computed on construction; equal for equal homes in every process.
    """

    rooms: tuple[Room, ...]
    doors: tuple[Door, ...]
    things: tuple[Thing, ...]
    key: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Keys must not change, although the field has been renamed since
        things = repr(self.things).replace("color=", "colour=")
        content = plan_bytes(self.rooms, self.doors) + b"|" + things.encode()
        object.__setattr__(self, "key", hashlib.blake2b(content, digest_size=16).digest())

    # A home is looked up several times per step; hashing and comparing fifty things each time would be too
    # slow
    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Home) and self.key == other.key)

    def room_of(self, cell: Cell) -> int | None:
        """Returns the index of the room a place lies in, or None between rooms."""
        return next((index for index, room in enumerate(self.rooms) if room.holds(cell)), None)

    def room_of_thing(self, thing: Thing) -> int | None:
        """Returns the index of the room a thing stands or hangs in."""
        for index, room in enumerate(self.rooms):
            inside_x = room.west * LATTICE_CM <= thing.x_cm <= room.east * LATTICE_CM
            if inside_x and room.south * LATTICE_CM <= thing.y_cm <= room.north * LATTICE_CM:
                return index
        return None


def plan_bytes(rooms: tuple[Room, ...], doors: tuple[Door, ...]) -> bytes:
    """Returns canonical bytes of a floor plan, which decide the split of its homes."""
    return repr((rooms, doors)).encode()


_INSET_CM = WALL_THICKNESS_CM // 2


class Rectangle(NamedTuple):
    """An axis-aligned rectangle on the floor, in centimeters or lattice steps."""

    west: int
    south: int
    east: int
    north: int

    @property
    def area(self) -> int:
        """Area in squared units."""
        return (self.east - self.west) * (self.north - self.south)

    def meets(self, other: Rectangle, gap: int = 0) -> bool:
        """Returns whether two rectangles overlap or are closer than a gap."""
        apart_x = self.west >= other.east + gap or other.west >= self.east + gap
        return not (apart_x or self.south >= other.north + gap or other.south >= self.north + gap)

    def is_within(self, other: Rectangle) -> bool:
        """Returns whether this rectangle lies inside another."""
        inside_x = other.west <= self.west and self.east <= other.east
        return inside_x and other.south <= self.south and self.north <= other.north


def sides_of(room: Room) -> Rectangle:
    """Returns the positions of a room's walls, in lattice steps."""
    return Rectangle(room.west, room.south, room.east, room.north)


def inner_cm(room: Room) -> Rectangle:
    """Returns the floor between a room's walls, in centimeters."""
    west, south, east, north = (side * LATTICE_CM for side in sides_of(room))
    return Rectangle(west + _INSET_CM, south + _INSET_CM, east - _INSET_CM, north - _INSET_CM)


def floor_under(thing: Thing) -> Rectangle:
    """Returns the floor area a thing covers."""
    return footprint_of(thing.kind, thing.x_cm, thing.y_cm, thing.turn)


def footprint_of(kind: str, x_cm: int, y_cm: int, turn: int) -> Rectangle:
    """Returns the floor area that a thing of a kind would cover."""
    width, depth, _ = KINDS[kind].size_cm
    if turn % 2 == 1:
        width, depth = depth, width
    return Rectangle(x_cm - width // 2, y_cm - depth // 2, x_cm - width // 2 + width, y_cm - depth // 2 + depth)


def relative_to(thing: Thing, right_cm: int, ahead_cm: int) -> tuple[int, int]:
    """Returns the position at an offset to the right and ahead of a thing's middle, from the thing's perspective."""
    (ahead_x, ahead_y), (right_x, right_y) = QUARTERS[thing.turn], QUARTERS[(thing.turn + 1) % 4]
    return (
        thing.x_cm + right_cm * right_x + ahead_cm * ahead_x,
        thing.y_cm + right_cm * right_y + ahead_cm * ahead_y,
    )


def place_at_wall(inner: Rectangle, turn: int, along: int, off: int) -> tuple[int, int]:
    """Returns the position at a distance `off` from the wall behind a thing with this turn."""
    return (
        (along, inner.south + off),
        (inner.west + off, along),
        (along, inner.north - off),
        (inner.east - off, along),
    )[turn]


def floor_before(footprint: Rectangle, turn: int, depth: int) -> Rectangle:
    """Returns the floor in front of a thing."""
    west, south, east, north = footprint
    return (
        Rectangle(west, north, east, north + depth),
        Rectangle(east, south, east + depth, north),
        Rectangle(west, south - depth, east, south),
        Rectangle(west - depth, south, west, north),
    )[turn]


_METRE = LATTICE_CM / 100
_WALL_M = WALL_THICKNESS_CM / 200 + 0.02


class Sector(NamedTuple):
    """A range of directions on the floor, in radians counterclockwise from east.

    Attributes:
        middle: The central direction.
        half: Half the width of the range; pi for all directions.
    """

    middle: float
    half: float


@lru_cache(maxsize=8192)
def rooms_in_view(home: Home, x_m: float, y_m: float, heading_degrees: float, width_degrees: float) -> tuple[int, ...]:
    """Returns the indices of the rooms that may be visible, directly or through doorways.

    A conservative estimate that lets the renderer omit the other rooms: it may include a hidden room but
    never misses a visible one. It is computed on the floor, where a doorway spans an angle, and the view
    through several doorways is the intersection of their angles.

    Args:
        home: The home.
        x_m: East coordinate of the eye.
        y_m: North coordinate of the eye.
        heading_degrees: Viewing direction, clockwise from north.
        width_degrees: Width of the view on the floor; 360 for all directions.

    Returns:
        Room indices in order; all rooms if the eye is outside every room, as in a doorway.
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
    """Adds the rooms visible through the doors of the last room of a path, recursively."""
    for door in home.doors:
        if not has_door(home.rooms[path[-1]], door):
            continue
        narrower = _through(eye, door, sector)
        for beyond, room in enumerate(home.rooms):
            if narrower is not None and beyond not in path and has_door(room, door):
                seen.add(beyond)
                _look_on(home, eye, (*path, beyond), narrower, seen)


def _through(eye: tuple[float, float], door: Door, sector: Sector) -> Sector | None:
    """Returns the part of a sector that passes a door, or None."""
    line, low, high = door.line * _METRE, door.low * _METRE, door.high * _METRE
    ends = ((line, low), (line, high)) if door.is_upright else ((low, line), (high, line))
    first, last = sorted(_wrapped(math.atan2(y - eye[1], x - eye[0]) - sector.middle) for x, y in ends)
    if last - first > math.pi:  # the door is behind the eye: it spans from `last` through the back to `first`
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
    """Returns an angle wrapped to [-pi, pi]."""
    return math.remainder(angle, 2 * math.pi)
