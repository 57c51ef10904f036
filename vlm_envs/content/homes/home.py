"""What a home is: rooms, doors and things, as immutable values with a key of their content.

Lengths are whole numbers, so that equal homes are equal bit by bit: walls and doors in lattice steps of
`LATTICE_CM`, things in centimetres. x runs east, y north, z up. A turn, like a heading, counts quarter turns
clockwise from north; a thing faces where its turn says.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

LATTICE_CM = 25
"""Distance of neighbouring places to stand. Source: the step length of VAGEN, Table 11."""

WALL_HEIGHT_CM = 250
DOOR_HEIGHT_CM = 205
WALL_THICKNESS_CM = 10

Cell = tuple[int, int]
"""A place to stand: (x, y) in lattice steps."""

QUARTERS: tuple[Cell, Cell, Cell, Cell] = ((0, 1), (1, 0), (0, -1), (-1, 0))
"""Unit steps (x, y) to the north, east, south and west: the direction of each turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A rectangle between four walls.

    Attributes:
        kind: What the room is for, e.g. `"kitchen"`.
        west: x of the west wall, in lattice steps; so `south`, `east`, `north`.
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

    def holds(self, cell: Cell) -> bool:
        """Returns whether a place to stand lies between the walls, not on them."""
        return self.west < cell[0] < self.east and self.south < cell[1] < self.north


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A doorway, always open, in a wall between two rooms.

    Attributes:
        is_upright: Whether the wall runs north-south (then `line` is an x) or east-west (then it is a y).
        line: Where the wall is, in lattice steps.
        low: Where along the wall the opening begins, in lattice steps.
        high: Where it ends.
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
        turn: Where it faces: 0 north, 1 east, 2 south, 3 west.
        color: A key of `palette.COLORS`.
    """

    kind: str
    x_cm: int
    y_cm: int
    z_cm: int
    turn: int
    color: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Home:
    """Rooms, doors and things; homes of equal content are equal.

    Attributes:
        rooms: The rooms; those that touch share a wall line.
        doors: The doorways.
        things: What stands and hangs in the rooms.
        key: Digest of the content, equal for equal homes in every process; made, not given.
    """

    rooms: tuple[Room, ...]
    doors: tuple[Door, ...]
    things: tuple[Thing, ...]
    key: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Keys stay as they were first written, whatever the field is called now
        things = repr(self.things).replace("color=", "colour=")
        content = plan_bytes(self.rooms, self.doors) + b"|" + things.encode()
        object.__setattr__(self, "key", hashlib.blake2b(content, digest_size=16).digest())

    # A home is looked up several times a step; hashing and comparing fifty things each time would be felt
    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Home) and self.key == other.key)

    def room_of(self, cell: Cell) -> int | None:
        """Returns the number of the room a place lies in, or None between rooms."""
        return next((index for index, room in enumerate(self.rooms) if room.holds(cell)), None)

    def room_of_thing(self, thing: Thing) -> int | None:
        """Returns the number of the room a thing stands or hangs in."""
        for index, room in enumerate(self.rooms):
            inside_x = room.west * LATTICE_CM <= thing.x_cm <= room.east * LATTICE_CM
            if inside_x and room.south * LATTICE_CM <= thing.y_cm <= room.north * LATTICE_CM:
                return index
        return None


def plan_bytes(rooms: tuple[Room, ...], doors: tuple[Door, ...]) -> bytes:
    """Returns canonical bytes of a floor plan; it decides which split its homes belong to."""
    return repr((rooms, doors)).encode()
