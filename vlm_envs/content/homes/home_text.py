"""Homes as plain data and back; what comes from outside is checked field by field."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from vlm_envs.content.homes.home import KINDS, WALL_HEIGHT_CM, Door, Home, Room, Thing, has_door, sides_of
from vlm_envs.content.homes.home_generator import ROOM_KINDS
from vlm_envs.content.homes.mesh_primitives import COLORS, FLOORS, WALLS
from vlm_envs.errors import LevelError

MAX_ROOMS, MAX_DOORS, MAX_THINGS = 12, 24, 250
MAX_SIDE = 100
"""Largest extent of a home in lattice steps: 25 m."""

_MAX_CM = MAX_SIDE * 25
_ROOM = ("kind", "west", "south", "east", "north", "wall", "floor")
_DOOR = ("is_upright", "line", "low", "high")
_THING = ("kind", "x_cm", "y_cm", "z_cm", "turn", "color")

ItemT = TypeVar("ItemT")


def home_data(home: Home) -> dict[str, Any]:
    """Returns a home as lists of plain values, in the order of the classes' fields."""
    return {
        "rooms": [[getattr(room, name) for name in _ROOM] for room in home.rooms],
        "doors": [[getattr(door, name) for name in _DOOR] for door in home.doors],
        "things": [[getattr(thing, name) for name in _THING] for thing in home.things],
    }


def read_home(content: Any) -> Home:
    """Returns the home that plain data describes, the inverse of `home_data`.

    Args:
        content: What a JSON text held; anything at all.

    Raises:
        LevelError: If it is not a home, or one too large.
    """
    if not isinstance(content, dict) or set(content) != {"rooms", "doors", "things"}:
        raise LevelError("A home needs exactly the keys 'rooms', 'doors' and 'things'.")
    rooms = _read_list(content["rooms"], "rooms", MAX_ROOMS, _read_room)
    if not rooms:
        raise LevelError("A home needs at least one room.")
    for first, second in itertools.combinations(rooms, 2):
        one, other = sides_of(first), sides_of(second)
        if one.meets(other):
            raise LevelError(f"Rooms may share walls but not floor; {list(one)} and {list(other)} overlap.")
    doors = _read_list(content["doors"], "doors", MAX_DOORS, _read_door)
    for door in doors:
        if not any(has_door(room, door) for room in rooms):
            raise LevelError(f"Every door must lie in a wall of a room; {door} does not.")
    return Home(
        rooms=rooms,
        doors=doors,
        things=_read_list(content["things"], "things", MAX_THINGS, _read_thing),
    )


def read_whole(value: Any, what: str, low: int, high: int) -> int:
    """Returns a whole number within bounds.

    Raises:
        LevelError: If it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise LevelError(f"{what} must be a whole number from {low} to {high}; got {_short(value)}.")
    return value


def read_name(value: Any, what: str, known: Iterable[str]) -> str:
    """Returns a known name.

    Raises:
        LevelError: If it is unknown.
    """
    names = list(known)
    if not isinstance(value, str) or value not in names:
        raise LevelError(f"{what} must be one of {', '.join(names)}; got {_short(value)}.")
    return value


def _read_list(content: Any, what: str, most: int, read: Callable[[list[Any]], ItemT]) -> tuple[ItemT, ...]:
    if not isinstance(content, list) or len(content) > most or not all(isinstance(item, list) for item in content):
        raise LevelError(f"{what!r} must be a list of at most {most} lists; got {_short(content)}.")
    return tuple(read(item) for item in content)


def _fields(item: list[Any], names: tuple[str, ...], what: str) -> dict[str, Any]:
    if len(item) != len(names):
        raise LevelError(f"A {what} is [{', '.join(names)}]; got {_short(item)}.")
    return dict(zip(names, item, strict=True))


def _read_room(item: list[Any]) -> Room:
    values = _fields(item, _ROOM, "room")
    sides = {side: read_whole(values[side], f"A room's {side}", 0, MAX_SIDE) for side in _ROOM[1:5]}
    if sides["east"] - sides["west"] < 2 or sides["north"] - sides["south"] < 2:
        raise LevelError(f"A room must be at least two lattice steps wide and deep; got {_short(item)}.")
    return Room(
        kind=read_name(values["kind"], "A room's kind", ROOM_KINDS),
        wall=read_name(values["wall"], "A room's wall", WALLS),
        floor=read_name(values["floor"], "A room's floor", FLOORS),
        **sides,
    )


def _read_door(item: list[Any]) -> Door:
    values = _fields(item, _DOOR, "door")
    if not isinstance(values["is_upright"], bool):
        raise LevelError(f"A door's is_upright must be true or false; got {_short(values['is_upright'])}.")
    places = {name: read_whole(values[name], f"A door's {name}", 0, MAX_SIDE) for name in _DOOR[1:]}
    if places["low"] >= places["high"]:
        raise LevelError(f"A door's low must be less than its high; got {_short(item)}.")
    return Door(is_upright=values["is_upright"], **places)


def _read_thing(item: list[Any]) -> Thing:
    values = _fields(item, _THING, "thing")
    return Thing(
        kind=read_name(values["kind"], "A thing's kind", KINDS),
        x_cm=read_whole(values["x_cm"], "A thing's x_cm", 0, _MAX_CM),
        y_cm=read_whole(values["y_cm"], "A thing's y_cm", 0, _MAX_CM),
        z_cm=read_whole(values["z_cm"], "A thing's z_cm", 0, WALL_HEIGHT_CM),
        turn=read_whole(values["turn"], "A thing's turn", 0, 3),
        color=read_name(values["color"], "A thing's colour", COLORS),
    )


def _short(value: Any) -> str:
    """Returns a value as text that fits into a message."""
    text = f"{value!r}" if not isinstance(value, int) or abs(value) < 10**12 else "a huge number"
    return text if len(text) <= 80 else text[:80] + "…"
