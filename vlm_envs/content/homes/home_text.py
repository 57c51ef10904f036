"""Conversion of homes to and from plain data; external input is validated field by field."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Any

from vlm_envs.content.homes.home import KINDS, WALL_HEIGHT_CM, Door, Home, Room, Thing, has_door, sides_of
from vlm_envs.content.homes.home_generator import ROOM_KINDS
from vlm_envs.content.homes.mesh_primitives import COLORS, FLOORS, WALLS
from vlm_envs.errors import LevelError

MAX_ROOMS, MAX_DOORS, MAX_THINGS = 12, 24, 250
MAX_SIDE = 100
"""Largest extent of a home in lattice steps: 25 m."""

_MAX_CM = MAX_SIDE * 25

Allowed = int | Collection[str] | None
"""Allowed values of a field: an integer up to a limit, a name from a collection, or (None) a boolean."""

_ROOM: Mapping[str, Allowed] = {
    "kind": ROOM_KINDS,
    **dict.fromkeys(("west", "south", "east", "north"), MAX_SIDE),
    "wall": WALLS,
    "floor": FLOORS,
}
_DOOR: Mapping[str, Allowed] = {"is_upright": None, **dict.fromkeys(("line", "low", "high"), MAX_SIDE)}
_THING: Mapping[str, Allowed] = {
    "kind": KINDS,
    "x_cm": _MAX_CM,
    "y_cm": _MAX_CM,
    "z_cm": WALL_HEIGHT_CM,
    "turn": 3,
    "color": COLORS,
}


def home_data(home: Home) -> dict[str, Any]:
    """Returns a home as lists of plain values, in the order of the classes' fields."""
    return {
        "rooms": [[getattr(room, name) for name in _ROOM] for room in home.rooms],
        "doors": [[getattr(door, name) for name in _DOOR] for door in home.doors],
        "things": [[getattr(thing, name) for name in _THING] for thing in home.things],
    }


def read_home(content: Any) -> Home:
    """Parses a home from plain data, the inverse of `home_data`.

    Args:
        content: Any parsed JSON value.

    Raises:
        LevelError: If it is not a home, or is too large.
    """
    if not isinstance(content, dict) or set(content) != {"rooms", "doors", "things"}:
        raise LevelError("A home needs exactly the keys 'rooms', 'doors' and 'things'.")
    rooms = tuple(Room(**values) for values in _read_items(content["rooms"], "room", MAX_ROOMS, _ROOM))
    if not rooms:
        raise LevelError("A home needs at least one room.")
    for room in rooms:
        if room.east - room.west < 2 or room.north - room.south < 2:
            raise LevelError(f"A room must be at least two lattice steps wide and deep; got {list(sides_of(room))}.")
    for first, second in itertools.combinations(rooms, 2):
        one, other = sides_of(first), sides_of(second)
        if one.meets(other):
            raise LevelError(f"Rooms may share walls but not floor; {list(one)} and {list(other)} overlap.")
    doors = tuple(Door(**values) for values in _read_items(content["doors"], "door", MAX_DOORS, _DOOR))
    for door in doors:
        if door.low >= door.high:
            raise LevelError(f"A door's low must be less than its high; got {door.low} and {door.high}.")
        if not any(has_door(room, door) for room in rooms):
            raise LevelError(f"Every door must lie in a wall of a room; {door} does not.")
    things = tuple(Thing(**values) for values in _read_items(content["things"], "thing", MAX_THINGS, _THING))
    return Home(rooms=rooms, doors=doors, things=things)


def read_whole(value: Any, what: str, low: int, high: int) -> int:
    """Returns an integer after checking its bounds.

    Raises:
        LevelError: If the value is not an integer from `low` to `high`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise LevelError(f"{what} must be an integer from {low} to {high}; got {_short(value)}.")
    return value


def _read_items(content: Any, what: str, most: int, fields: Mapping[str, Allowed]) -> list[dict[str, Any]]:
    """Returns the fields of each item by name."""
    if not isinstance(content, list) or len(content) > most:
        raise LevelError(f"'{what}s' must be a list of at most {most} lists; got {_short(content)}.")
    for item in content:
        if not isinstance(item, list) or len(item) != len(fields):
            raise LevelError(f"A {what} must be a list [{', '.join(fields)}]; got {_short(item)}.")
    return [
        {name: _read(value, f"A {what}'s {name}", fields[name]) for name, value in zip(fields, item, strict=True)}
        for item in content
    ]


def _read(value: Any, what: str, allowed: Allowed) -> Any:
    if isinstance(allowed, int):
        return read_whole(value, what, 0, allowed)
    if allowed is None and not isinstance(value, bool):
        raise LevelError(f"{what} must be true or false; got {_short(value)}.")
    if allowed is not None and (not isinstance(value, str) or value not in allowed):
        raise LevelError(f"{what} must be one of {', '.join(allowed)}; got {_short(value)}.")
    return value


def _short(value: Any) -> str:
    """Returns a value as text short enough for a message."""
    text = f"{value!r}" if not isinstance(value, int) or abs(value) < 10**12 else "a huge number"
    return text if len(text) <= 80 else text[:80] + "…"
