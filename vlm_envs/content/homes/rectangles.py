"""Level rectangles in centimetres: what things cover, and how places lie to walls and things."""

from __future__ import annotations

from typing import NamedTuple

from vlm_envs.content.homes.home import LATTICE_CM, QUARTERS, WALL_THICKNESS_CM, Room, Thing
from vlm_envs.content.homes.kinds import KINDS

_INSET_CM = WALL_THICKNESS_CM // 2


class Rectangle(NamedTuple):
    """A level rectangle, in centimetres or lattice steps."""

    west: int
    south: int
    east: int
    north: int

    @property
    def area(self) -> int:
        """Its area in the square of the unit."""
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
    """Returns where a room's walls are, in lattice steps."""
    return Rectangle(room.west, room.south, room.east, room.north)


def inner_cm(room: Room) -> Rectangle:
    """Returns the floor between a room's walls."""
    west, south, east, north = (side * LATTICE_CM for side in sides_of(room))
    return Rectangle(west + _INSET_CM, south + _INSET_CM, east - _INSET_CM, north - _INSET_CM)


def floor_under(thing: Thing) -> Rectangle:
    """Returns the floor a thing covers."""
    return footprint_of(thing.kind, thing.x_cm, thing.y_cm, thing.turn)


def footprint_of(kind: str, x_cm: int, y_cm: int, turn: int) -> Rectangle:
    """Returns the floor that a thing of a kind would cover."""
    width, depth, _ = KINDS[kind].size_cm
    if turn % 2 == 1:
        width, depth = depth, width
    return Rectangle(x_cm - width // 2, y_cm - depth // 2, x_cm - width // 2 + width, y_cm - depth // 2 + depth)


def relative_to(thing: Thing, right_cm: int, ahead_cm: int) -> tuple[int, int]:
    """Returns the place to the right of and before a thing's middle, as the thing sees it."""
    (ahead_x, ahead_y), (right_x, right_y) = QUARTERS[thing.turn], QUARTERS[(thing.turn + 1) % 4]
    return (
        thing.x_cm + right_cm * right_x + ahead_cm * ahead_x,
        thing.y_cm + right_cm * right_y + ahead_cm * ahead_y,
    )


def place_at_wall(inner: Rectangle, turn: int, along: int, off: int) -> tuple[int, int]:
    """Returns the place at a distance from the wall that a turn faces away from."""
    return (
        (along, inner.south + off),
        (inner.west + off, along),
        (along, inner.north - off),
        (inner.east - off, along),
    )[turn]


def floor_before(footprint: Rectangle, turn: int, depth: int) -> Rectangle:
    """Returns the floor before the front of a thing."""
    west, south, east, north = footprint
    return (
        Rectangle(west, north, east, north + depth),
        Rectangle(east, south, east + depth, north),
        Rectangle(west, south - depth, east, south),
        Rectangle(west - depth, south, west, north),
    )[turn]
