"""Homes by hand, for tests."""

from __future__ import annotations

from vlm_envs.content.homes.home import Door, Home, Room, Thing


def room(west: int, east: int, *, kind: str = "kitchen", south: int = 0, north: int = 20) -> Room:
    return Room(kind=kind, west=west, south=south, east=east, north=north, wall="sand", floor="beige_carpet")


def thing(kind: str, x_cm: int, y_cm: int, *, z_cm: int = 0, turn: int = 0, color: str = "red") -> Thing:
    return Thing(kind=kind, x_cm=x_cm, y_cm=y_cm, z_cm=z_cm, turn=turn, color=color)


def one_room(*things: Thing) -> Home:
    """Returns a room of 5 m by 5 m; one can stand from 1 to 19 lattice steps."""
    return Home(rooms=(room(0, 20),), doors=(), things=things)


def two_rooms(*things: Thing) -> Home:
    """Returns two such rooms side by side, with a door from y = 8 to 12 in the wall at x = 20."""
    rooms = room(0, 20), room(20, 40, kind="study")
    return Home(rooms=rooms, doors=(Door(is_upright=True, line=20, low=8, high=12),), things=things)
