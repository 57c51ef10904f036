"""Random homes: a floor plan cut into rooms with doors, and furniture that leaves every room reachable.

The plan alone decides the split of its homes, so evaluations use no floor plan of training.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from numpy.random import Generator

from vlm_envs.content.data_tables import data_table
from vlm_envs.content.homes.home import (
    KINDS,
    LATTICE_CM,
    Door,
    Home,
    Rectangle,
    Room,
    Thing,
    floor_before,
    floor_under,
    footprint_of,
    inner_cm,
    place_at_wall,
    plan_bytes,
    relative_to,
    sides_of,
)
from vlm_envs.content.homes.home_space import are_rooms_connected
from vlm_envs.content.homes.mesh_primitives import FLOORS, WALLS
from vlm_envs.content.random_choice import pick
from vlm_envs.errors import GenerationError
from vlm_envs.splits import split_of

ROOM_KINDS = ("living_room", "kitchen", "bedroom", "study", "bathroom")
"""Purposes of rooms; if there is a bathroom, it is the smallest room."""

NUM_PLAN_TRIES = 500
_NUM_ROOMS = (2, 3, 4)
_MIN_SIDE, _MAX_SIDE = 11, 19
_DOOR_WIDTH = 4
_DOOR_MARGIN = 2


def draw_plan(rng: Generator, split: str) -> tuple[tuple[Room, ...], tuple[Door, ...]]:
    """Returns the rooms and doors of a random home of a split.

    Args:
        rng: The only source of randomness.
        split: `"train"`, `"val"` or `"test"`; the plan's content belongs to it.

    Returns:
        Two to four rooms with different purposes, all connected by doors.

    Raises:
        GenerationError: If `NUM_PLAN_TRIES` attempts produced no plan of the split.
    """
    for _ in range(NUM_PLAN_TRIES):
        rectangles = _cut(rng, int(rng.choice(_NUM_ROOMS)))
        doors = _doors(rng, rectangles)
        rooms = _named(rng, rectangles)
        if split_of(plan_bytes(rooms, doors)) == split:
            return rooms, doors
    raise GenerationError(f"No floor plan of split {split!r} in {NUM_PLAN_TRIES} attempts; try another seed.")


def _cut(rng: Generator, num_rooms: int) -> list[Rectangle]:
    """Returns two rectangles side by side, each of which may be cut once across."""
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
            # An uncut room has its own depth, so that it is not as deep as two rooms
            rectangles.append(column._replace(north=min(depth, int(rng.integers(_MIN_SIDE + 3, _MAX_SIDE + 2)))))
            continue
        middle = int(rng.integers(_MIN_SIDE, depth - _MIN_SIDE + 1))
        rectangles += [column._replace(north=middle), column._replace(south=middle)]
    return rectangles


def _doors(rng: Generator, rectangles: list[Rectangle]) -> tuple[Door, ...]:
    """Returns a door in every shared wall that is long enough; such walls connect all rooms."""
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


def _named(rng: Generator, rectangles: list[Rectangle]) -> tuple[Room, ...]:
    """Turns rectangles into rooms with a purpose, a paint, and a floor."""
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


@dataclass(frozen=True, kw_only=True)
class Companion:
    """A thing that stands in a fixed relation to another.

    Attributes:
        kind: Its kind.
        right_cm: Distance to the right of the other thing's middle, from that thing's perspective.
        ahead_cm: Distance ahead of the other thing's middle.
        turn: Turn relative to the other thing.
    """

    kind: str
    right_cm: int
    ahead_cm: int
    turn: int


_ROOMS = data_table(__file__, "rooms.toml")

COMPANIONS: Mapping[str, tuple[Companion, ...]] = {
    kind: tuple(Companion(**companion) for companion in companions) for kind, companions in _ROOMS["companions"].items()
}
"""Companions of each kind of furniture, placed with it where there is space."""


@dataclass(frozen=True, kw_only=True)
class Furnishing:
    """Contents of a kind of room. Entries are tried in order and omitted if they do not fit.

    Attributes:
        along_walls: Kinds that stand with their backs to a wall.
        in_middle: Kinds that stand away from the walls.
        in_corners: Small kinds that stand anywhere along a wall.
        on_tops: Kinds that stand on furniture.
        on_walls: Kinds that hang on walls.
    """

    along_walls: Sequence[str]
    in_middle: Sequence[str] = ()
    in_corners: Sequence[str] = ()
    on_tops: Sequence[str]
    on_walls: Sequence[str]


FURNISHINGS: Mapping[str, Furnishing] = {room: Furnishing(**kinds) for room, kinds in _ROOMS["furnishings"].items()}
"""Contents of each kind of room."""

UNIQUE: Collection[str] = _ROOMS["unique"]
"""Kinds that occur at most once per home."""

NUM_FURNISHING_TRIES = 50
_NUM_PLACES = 16
_WALL_GAP_CM = 2
_GAP_CM = 6
_MIDDLE_CM = 90
"""Distance of the middle of a room from its walls."""
_PASSAGE_CM = 60
"""Depth of the floor kept free in front of furniture at a wall, and on both sides of a door."""


@dataclass
class _Furnisher:
    """Places things of the given kinds, and keeps track of the floor they occupy and need."""

    rng: Generator
    rooms: tuple[Room, ...]
    kinds: Collection[str]
    things: list[Thing] = field(default_factory=list)
    taken: list[Rectangle] = field(default_factory=list)
    kept_free: list[Rectangle] = field(default_factory=list)
    wall_taken: list[Rectangle] = field(default_factory=list)

    def color(self, kind: str) -> str:
        """Returns a color, preferably one that no other thing of the kind has."""
        used = {thing.color for thing in self.things if thing.kind == kind}
        colors = [color for color in KINDS[kind].colors if color not in used] or KINDS[kind].colors
        return pick(self.rng, colors)

    def thing(self, kind: str, place: tuple[int, int], turn: int, z_cm: int = 0) -> Thing:
        """Returns a new thing at a position."""
        return Thing(kind=kind, x_cm=place[0], y_cm=place[1], z_cm=z_cm, turn=turn, color=self.color(kind))

    def has(self, kind: str) -> bool:
        """Returns whether there is a thing of this kind."""
        return any(thing.kind == kind for thing in self.things)

    def fits(self, footprint: Rectangle, room: Room) -> bool:
        """Returns whether an area is inside the walls, clear of things, and off the passages."""
        if not footprint.is_within(inner_cm(room)):
            return False
        if any(footprint.meets(other, _GAP_CM) for other in self.taken):
            return False
        return not any(footprint.meets(other) for other in self.kept_free)

    def stand(self, thing: Thing, passage: Rectangle | None = None) -> None:
        """Adds a thing on the floor, and reserves a passage to it."""
        self.things.append(thing)
        self.taken.append(floor_under(thing))
        if passage is not None:
            self.kept_free.append(passage)

    def along_wall(self, room: Room, kind: str) -> None:
        """Places a thing with its back to a random wall, its front accessible, along with its companions."""
        inner = inner_cm(room)
        width, depth, _ = KINDS[kind].size_cm
        for _ in range(_NUM_PLACES):
            turn = int(self.rng.integers(4))
            low, high = (inner.west, inner.east) if turn % 2 == 0 else (inner.south, inner.north)
            spare = high - low - width
            if spare < 0:
                continue
            along = low + width // 2 + int(self.rng.integers(spare // 5 + 1)) * 5
            x, y = place_at_wall(inner, turn, along, depth // 2 + _WALL_GAP_CM)
            footprint = footprint_of(kind, x, y, turn)
            passage = floor_before(footprint, turn, _PASSAGE_CM)
            if self.fits(footprint, room) and not any(passage.meets(other) for other in self.taken):
                thing = self.thing(kind, (x, y), turn)
                companions = self._companions(thing, room)
                self.stand(thing, None if companions else passage)
                for companion in companions:
                    self.stand(companion)
                return

    def in_middle(self, room: Room, kind: str) -> None:
        """Places a thing away from the walls, along with its companions."""
        inner = inner_cm(room)
        for _ in range(_NUM_PLACES):
            turn = int(self.rng.integers(4))
            x = self._between(inner.west + _MIDDLE_CM, inner.east - _MIDDLE_CM)
            y = self._between(inner.south + _MIDDLE_CM, inner.north - _MIDDLE_CM)
            if self.fits(footprint_of(kind, x, y, turn), room):
                thing = self.thing(kind, (x, y), turn)
                for item in (thing, *self._companions(thing, room)):
                    self.stand(item)
                return

    def _between(self, low: int, high: int) -> int:
        """Returns a random number in [low, high), or `low` if that range is empty."""
        return int(self.rng.integers(low, max(high, low + 1)))

    def _companions(self, thing: Thing, room: Room) -> list[Thing]:
        """Returns the companions that fit next to a thing; they may reach under it."""
        placed = []
        colors: dict[str, str] = {}
        for companion in (companion for companion in COMPANIONS.get(thing.kind, ()) if companion.kind in self.kinds):
            x, y = relative_to(thing, companion.right_cm, companion.ahead_cm)
            turn = (thing.turn + companion.turn) % 4
            if self.fits(footprint_of(companion.kind, x, y, turn), room):
                color = colors.setdefault(companion.kind, self.color(companion.kind))
                placed.append(Thing(kind=companion.kind, x_cm=x, y_cm=y, z_cm=0, turn=turn, color=color))
        return placed

    def on_tops(self, kinds: Iterable[str], supports: Sequence[Thing]) -> None:
        """Places small things on furniture, apart from each other."""
        taken: list[Rectangle] = []
        for kind in kinds:
            if kind == "Television":
                places = [support for support in supports if support.kind == "TVStand"]
            else:
                places = [support for support in supports if support.kind != "TVStand"]
            for _ in range(_NUM_PLACES if places else 0):
                support = pick(self.rng, places)
                if self._put_on(kind, support, taken):
                    break

    def _put_on(self, kind: str, support: Thing, taken: list[Rectangle]) -> bool:
        width, depth, _ = KINDS[support.kind].size_cm
        own_width, own_depth, _ = KINDS[kind].size_cm
        spare_x, spare_y = width - own_width, depth - own_depth
        if spare_x < 0 or spare_y < 0:
            return False
        right = int(self.rng.integers(-(spare_x // 2), spare_x // 2 + 1)) if kind != "Television" else 0
        ahead = int(self.rng.integers(-(spare_y // 2), spare_y // 2 + 1)) if kind != "Television" else 0
        x, y = relative_to(support, right, ahead)
        footprint = footprint_of(kind, x, y, support.turn)
        if any(footprint.meets(other, 3) for other in taken):
            return False
        taken.append(footprint)
        height = KINDS[support.kind].top_cm or 0
        self.things.append(self.thing(kind, (x, y), support.turn, height))
        return True

    def on_wall(self, room: Room, kind: str) -> None:
        """Hangs a thing on a free stretch of wall, clear of doors and tall furniture."""
        inner = inner_cm(room)
        width, depth, height = KINDS[kind].size_cm
        bottom = KINDS[kind].middle_cm - height // 2
        for _ in range(_NUM_PLACES):
            turn = int(self.rng.integers(4))
            if kind == "Window" and not self._is_outer_wall(room, turn):
                continue
            low, high = (inner.west, inner.east) if turn % 2 == 0 else (inner.south, inner.north)
            along = self._between(low + width // 2 + 10, high - width // 2 - 10)
            x, y = place_at_wall(inner, turn, along, depth // 2)
            place = footprint_of(kind, x, y, turn)
            if not place.is_within(inner) or any(place.meets(other, 15) for other in self.wall_taken):
                continue
            if self._is_behind_something_tall(place, bottom):
                continue
            self.wall_taken.append(place)
            self.things.append(self.thing(kind, (x, y), turn, bottom))
            return

    def _is_behind_something_tall(self, place: Rectangle, bottom: int) -> bool:
        return any(
            thing.z_cm + KINDS[thing.kind].size_cm[2] > bottom - 5
            and KINDS[thing.kind].place != "wall"
            and place.meets(floor_under(thing), 10)
            for thing in self.things
        )

    def _is_outer_wall(self, room: Room, turn: int) -> bool:
        """Returns whether the wall behind a thing with this turn borders no other room."""
        behind = floor_before(sides_of(room), (turn + 2) % 4, 1)
        return not any(behind.meets(sides_of(other)) for other in self.rooms if other is not room)


def furnish(
    rng: Generator,
    rooms: tuple[Room, ...],
    doors: tuple[Door, ...],
    kinds: Collection[str] | None = None,
) -> Home:
    """Furnishes a floor plan at random, keeping every room reachable.

    Args:
        rng: The only source of randomness.
        rooms: The rooms.
        doors: Their doors; the floor in front of them stays free.
        kinds: Kinds the home may contain; None for all.

    Raises:
        GenerationError: If furniture blocked a room in each of `NUM_FURNISHING_TRIES` attempts.
    """
    for _ in range(NUM_FURNISHING_TRIES):
        furnisher = _Furnisher(rng, rooms, KINDS if kinds is None else kinds)
        for door in doors:
            furnisher.kept_free.append(_way_through(door))
            furnisher.wall_taken.append(_way_through(door))
        for room in rooms:
            _furnish_room(furnisher, room)
        home = Home(rooms=rooms, doors=doors, things=tuple(furnisher.things))
        if are_rooms_connected(home):
            return home
    raise GenerationError(f"Furniture blocked a room in {NUM_FURNISHING_TRIES} attempts; try another seed.")


def _furnish_room(furnisher: _Furnisher, room: Room) -> None:
    furnishing, rng, start = FURNISHINGS[room.kind], furnisher.rng, len(furnisher.things)

    def wanted(kinds: Sequence[str], share: float = 1.0) -> list[str]:
        kinds = [kind for kind in kinds if kind in furnisher.kinds]
        shuffled = [kinds[index] for index in rng.permutation(len(kinds))] if share < 1 else list(kinds)
        chosen = shuffled[: max(1, round(len(kinds) * share))] if kinds else []
        return [kind for kind in chosen if kind not in UNIQUE or not furnisher.has(kind)]

    for kind in wanted(furnishing.along_walls):
        furnisher.along_wall(room, kind)
    for kind in wanted(furnishing.in_middle):
        furnisher.in_middle(room, kind)
    for kind in wanted(furnishing.in_corners, 0.75):
        furnisher.along_wall(room, kind)
    supports = [thing for thing in furnisher.things[start:] if KINDS[thing.kind].top_cm is not None]
    furnisher.on_tops(wanted(furnishing.on_tops, 0.8), supports)
    for kind in wanted(furnishing.on_walls):
        furnisher.on_wall(room, kind)


def _way_through(door: Door) -> Rectangle:
    """Returns the floor on both sides of a door that must stay free."""
    low, high, line = door.low * LATTICE_CM, door.high * LATTICE_CM, door.line * LATTICE_CM
    if door.is_upright:
        return Rectangle(line - _PASSAGE_CM, low, line + _PASSAGE_CM, high)
    return Rectangle(low, line - _PASSAGE_CM, high, line + _PASSAGE_CM)
