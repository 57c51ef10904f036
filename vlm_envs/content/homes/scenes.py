"""A home as triangles, room by room: floor, walls, door frames, things and the shade under them."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from vlm_envs.content.colors import RGB, darker
from vlm_envs.content.homes.furniture_art import FURNITURE_ART
from vlm_envs.content.homes.home import (
    DOOR_HEIGHT_CM,
    LATTICE_CM,
    WALL_HEIGHT_CM,
    WALL_THICKNESS_CM,
    Door,
    Home,
    Room,
    Thing,
)
from vlm_envs.content.homes.kinds import KINDS
from vlm_envs.content.homes.palette import CEILING, COLORS, FLOORS, TRIM, WALLS
from vlm_envs.content.homes.portals import has_door
from vlm_envs.content.homes.primitives import Mesh, box, joined, quad
from vlm_envs.content.homes.rectangles import floor_under
from vlm_envs.content.homes.small_art import SMALL_ART

ART = FURNITURE_ART | SMALL_ART
"""Every kind's drawing."""

BACKED = frozenset(kind for kind in KINDS if KINDS[kind].place == "wall") | {
    "Bookshelf",
    "Fridge",
    "Stove",
    "CounterTop",
    "Sink",
    "Wardrobe",
    "Dresser",
    "Nightstand",
    "TVStand",
    "Bed",
    "WashingMachine",
}
"""Kinds that only ever stand with their backs to a wall: what nobody can see is not drawn."""

_CEILING_M, _DOOR_M = WALL_HEIGHT_CM / 100, DOOR_HEIGHT_CM / 100
_INSET_M = WALL_THICKNESS_CM / 200
_SKIRTING_M = 0.09
_FLOOR_STEP_M = 0.5


@lru_cache(maxsize=2048)
def thing_mesh(kind: str, color: str, turn: int) -> Mesh:
    """Returns a kind's drawing in a colour, turned, at the origin; equal arguments give the same object."""
    mesh = joined(ART[kind](COLORS[color]))
    return (mesh.without_back() if kind in BACKED else mesh).turned(turn)


def room_meshes(home: Home) -> list[list[Mesh]]:
    """Returns the meshes of each room: its shell, and its things by quarters, so that those behind can be left out.

    What stands in no room goes with the first.
    """
    meshes = []
    for number, room in enumerate(home.rooms):
        shell = _shell(home, room) + [_frame(door) for door in home.doors if has_door(room, door)]
        quarters: dict[tuple[bool, bool], list[Mesh]] = {}
        for thing in home.things:
            if (home.room_of_thing(thing) or 0) == number:
                is_east = 2 * thing.x_cm > (room.west + room.east) * LATTICE_CM
                is_north = 2 * thing.y_cm > (room.south + room.north) * LATTICE_CM
                quarters.setdefault((is_east, is_north), []).extend(_placed(home, thing))
        meshes.append([joined(shell), *map(joined, quarters.values())])
    return meshes


def _placed(home: Home, thing: Thing) -> list[Mesh]:
    """Returns a thing where it stands, with a shade on the floor below it."""
    x, y, z = thing.x_cm / 100, thing.y_cm / 100, thing.z_cm / 100
    kind = KINDS[thing.kind]
    if kind.place == "wall":
        z += kind.size_cm[2] / 200
    meshes = [thing_mesh(thing.kind, thing.color, thing.turn).moved(x, y, z)]
    if kind.place == "floor":
        room = home.rooms[home.room_of_thing(thing) or 0]
        sides = floor_under(thing)
        west, south, east, north = (side / 100 for side in sides)
        shade = darker(FLOORS[room.floor][1], 0.28)
        meshes.append(_level((west, south, east, north), 0.012, shade))
    return meshes


def _shell(home: Home, room: Room) -> list[Mesh]:
    """Returns floor, ceiling and walls of a room."""
    west, south, east, north = (side * LATTICE_CM / 100 for side in (room.west, room.south, room.east, room.north))
    ceiling = [
        (west, north, _CEILING_M),
        (east, north, _CEILING_M),
        (east, south, _CEILING_M),
        (west, south, _CEILING_M),
    ]
    meshes = [quad(ceiling, CEILING, (0, 0, -0.4)), *_floor(room.floor, west, south, east, north)]
    paint = WALLS[room.wall]
    for is_upright, line, low, high, inward in (
        (True, room.west, room.south, room.north, 1),
        (True, room.east, room.south, room.north, -1),
        (False, room.south, room.west, room.east, 1),
        (False, room.north, room.west, room.east, -1),
    ):
        gaps = sorted(
            (door.low, door.high)
            for door in home.doors
            if door.is_upright == is_upright and door.line == line and low < door.high and door.low < high
        )
        at = line * LATTICE_CM / 100 + inward * _INSET_M
        meshes += _wall(is_upright, at, inward, low, high, gaps, paint)
    return meshes


def _wall(
    is_upright: bool, at: float, inward: int, low: int, high: int, gaps: list[tuple[int, int]], paint: RGB
) -> list[Mesh]:
    """Returns a wall's inner face: full height between the doors, a lintel above each."""
    meshes, start = [], low
    for gap_low, gap_high in [*gaps, (high, high)]:
        if gap_low > start:
            meshes.append(_upright(is_upright, at, inward, start, gap_low, _SKIRTING_M, _CEILING_M, paint))
            meshes.append(_upright(is_upright, at, inward, start, gap_low, 0, _SKIRTING_M, TRIM))
        if gap_high > gap_low:
            meshes.append(_upright(is_upright, at, inward, gap_low, gap_high, _DOOR_M, _CEILING_M, paint))
        start = max(start, gap_high)
    return meshes


def _upright(
    is_upright: bool, at: float, inward: int, low: int, high: int, bottom: float, top: float, color: RGB
) -> Mesh:
    """Returns a piece of wall that shows inwards."""
    first, last = low * LATTICE_CM / 100, high * LATTICE_CM / 100
    if is_upright:
        ends, normal = ((at, first), (at, last)), (inward, 0, 0)
        order = ends if inward < 0 else ends[::-1]
    else:
        ends, normal = ((first, at), (last, at)), (0, inward, 0)
        order = ends if inward > 0 else ends[::-1]
    # Seen from inside, the wall runs from right to left through `order`
    (x0, y0), (x1, y1) = order[1], order[0]
    return quad([(x0, y0, bottom), (x1, y1, bottom), (x1, y1, top), (x0, y0, top)], color, normal)


def _frame(door: Door) -> Mesh:
    """Returns the white frame around a doorway, as thick as the wall."""
    low, high, line = (value * LATTICE_CM / 100 for value in (door.low, door.high, door.line))
    deep, post, over = 2 * _INSET_M + 0.03, 0.06, 0.04

    def bar(first: float, last: float, bottom: float, top: float) -> Mesh:
        middle = (first + last) / 2
        if door.is_upright:
            return box((line, middle), (deep, last - first), bottom, top, TRIM)
        return box((middle, line), (last - first, deep), bottom, top, TRIM)

    sill = (low, line - _INSET_M, high, line + _INSET_M)
    if door.is_upright:
        sill = (line - _INSET_M, low, line + _INSET_M, high)
    threshold = _level(sill, 0.014, (150, 120, 90))
    # The frame reaches over the wall's edges: where faces only touch, the renderer leaves cracks of single pixels
    posts = [bar(low - over, low + post, 0, _DOOR_M), bar(high - post, high + over, 0, _DOOR_M)]
    return joined([*posts, bar(low - over, high + over, _DOOR_M - post, _DOOR_M + over), threshold])


def _floor(name: str, west: float, south: float, east: float, north: float) -> list[Mesh]:
    """Returns a floor: planks that run north, tiles, or a carpet in two tones."""
    light, dark = FLOORS[name]
    columns = _cuts(west, east, _FLOOR_STEP_M if name.endswith("tiles") else _FLOOR_STEP_M / 2)
    rows = _cuts(south, north, _FLOOR_STEP_M) if name.endswith("tiles") else [south, north]
    if name.endswith("carpet"):
        columns = [west, east]
    return [
        _level((x0, y0, x1, y1), 0.0, light if (i + j) % 2 == 0 else dark)
        for i, (x0, x1) in enumerate(pairwise(columns))
        for j, (y0, y1) in enumerate(pairwise(rows))
    ]


def _cuts(low: float, high: float, step: float) -> list[float]:
    """Returns where a length is cut into steps; the last may be shorter."""
    num_steps = int((high - low) / step + 1e-6)
    cuts = [low + index * step for index in range(num_steps + 1)]
    return cuts if high - cuts[-1] < 1e-6 else [*cuts, high]


def _level(sides: tuple[float, float, float, float], height: float, color: RGB) -> Mesh:
    """Returns a level rectangle (west, south, east, north) that shows upwards."""
    west, south, east, north = sides
    corners = [(west, south, height), (east, south, height), (east, north, height), (west, north, height)]
    return quad(corners, color, (0, 0, 1))
