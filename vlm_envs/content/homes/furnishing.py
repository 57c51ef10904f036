"""Random furniture: large things along walls and in the middle, small things on top of them, others on walls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from vlm_envs.content.drawing import pick
from vlm_envs.content.homes.free_space import are_rooms_connected
from vlm_envs.content.homes.home import LATTICE_CM, Door, Home, Room, Thing
from vlm_envs.content.homes.kinds import KINDS, WALL_MIDDLE_CM
from vlm_envs.content.homes.rectangles import (
    Rectangle,
    floor_before,
    floor_under,
    footprint_of,
    inner_cm,
    place_at_wall,
    relative_to,
    sides_of,
)
from vlm_envs.content.homes.room_contents import COMPANIONS, FURNISHINGS, UNIQUE
from vlm_envs.errors import GenerationError

NUM_FURNISHING_TRIES = 50
_NUM_PLACES = 16
_WALL_GAP_CM = 2
_GAP_CM = 6
_MIDDLE_CM = 90
"""How far from every wall the middle of the room begins."""
_PASSAGE_CM = 60
"""Free floor kept before the front of what stands at a wall, and on both sides of a door."""


@dataclass
class _Furnisher:
    """Things placed so far, and the floor they need; only things of some kinds are."""

    rng: np.random.Generator
    rooms: tuple[Room, ...]
    kinds: Collection[str]
    things: list[Thing] = field(default_factory=list)
    taken: list[Rectangle] = field(default_factory=list)
    kept_free: list[Rectangle] = field(default_factory=list)
    wall_taken: list[Rectangle] = field(default_factory=list)

    def color(self, kind: str) -> str:
        """Returns a colour, preferably one that no other thing of the kind has."""
        used = {thing.color for thing in self.things if thing.kind == kind}
        colors = [color for color in KINDS[kind].colors if color not in used] or KINDS[kind].colors
        return pick(self.rng, colors)

    def has(self, kind: str) -> bool:
        """Returns whether there is a thing of a kind."""
        return any(thing.kind == kind for thing in self.things)

    def fits(self, footprint: Rectangle, room: Room) -> bool:
        """Returns whether floor is free: within the walls, apart from things, off the ways kept free."""
        if not footprint.is_within(inner_cm(room)):
            return False
        if any(footprint.meets(other, _GAP_CM) for other in self.taken):
            return False
        return not any(footprint.meets(other) for other in self.kept_free)

    def stand(self, thing: Thing, passage: Rectangle | None = None) -> None:
        """Places a thing on the floor, and keeps a passage to it free."""
        self.things.append(thing)
        self.taken.append(floor_under(thing))
        if passage is not None:
            self.kept_free.append(passage)

    def along_wall(self, room: Room, kind: str) -> None:
        """Stands a thing with its back to a random wall, its front accessible, its companions before it."""
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
                thing = Thing(kind=kind, x_cm=x, y_cm=y, z_cm=0, turn=turn, color=self.color(kind))
                companions = self._companions(thing, room)
                self.stand(thing, None if companions else passage)
                for companion in companions:
                    self.stand(companion)
                return

    def in_middle(self, room: Room, kind: str) -> None:
        """Stands a thing away from the walls, with its companions."""
        inner = inner_cm(room)
        for _ in range(_NUM_PLACES):
            turn = int(self.rng.integers(4))
            x = self._between(inner.west + _MIDDLE_CM, inner.east - _MIDDLE_CM)
            y = self._between(inner.south + _MIDDLE_CM, inner.north - _MIDDLE_CM)
            if self.fits(footprint_of(kind, x, y, turn), room):
                thing = Thing(kind=kind, x_cm=x, y_cm=y, z_cm=0, turn=turn, color=self.color(kind))
                for each in (thing, *self._companions(thing, room)):
                    self.stand(each)
                return

    def _between(self, low: int, high: int) -> int:
        """Returns a random number from `low` to below `high`, or `low` if there is none."""
        return int(self.rng.integers(low, max(high, low + 1)))

    def _companions(self, thing: Thing, room: Room) -> list[Thing]:
        """Returns the companions of a thing that have room; they may reach under it."""
        placed = []
        colors: dict[str, str] = {}
        for companion in (each for each in COMPANIONS.get(thing.kind, ()) if each.kind in self.kinds):
            x, y = relative_to(thing, companion.right_cm, companion.ahead_cm)
            turn = (thing.turn + companion.turn) % 4
            if self.fits(footprint_of(companion.kind, x, y, turn), room):
                color = colors.setdefault(companion.kind, self.color(companion.kind))
                placed.append(Thing(kind=companion.kind, x_cm=x, y_cm=y, z_cm=0, turn=turn, color=color))
        return placed

    def on_tops(self, kinds: Iterable[str], supports: Sequence[Thing]) -> None:
        """Puts small things on furniture, apart from each other."""
        taken: list[Rectangle] = []
        for kind in kinds:
            if kind == "Television":
                places = [each for each in supports if each.kind == "TVStand"]
            else:
                places = [each for each in supports if each.kind != "TVStand"]
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
        self.things.append(Thing(kind=kind, x_cm=x, y_cm=y, z_cm=height, turn=support.turn, color=self.color(kind)))
        return True

    def on_wall(self, room: Room, kind: str) -> None:
        """Hangs a thing where neither a door nor tall furniture is."""
        inner = inner_cm(room)
        width, depth, height = KINDS[kind].size_cm
        bottom = WALL_MIDDLE_CM[kind] - height // 2
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
            self.things.append(Thing(kind=kind, x_cm=x, y_cm=y, z_cm=bottom, turn=turn, color=self.color(kind)))
            return

    def _is_behind_something_tall(self, place: Rectangle, bottom: int) -> bool:
        return any(
            thing.z_cm + KINDS[thing.kind].size_cm[2] > bottom - 5
            and KINDS[thing.kind].place != "wall"
            and place.meets(floor_under(thing), 10)
            for thing in self.things
        )

    def _is_outer_wall(self, room: Room, turn: int) -> bool:
        """Returns whether nothing but the outside is behind the wall that a turn faces away from."""
        behind = floor_before(sides_of(room), (turn + 2) % 4, 1)
        return not any(behind.meets(sides_of(other)) for other in self.rooms if other is not room)


def furnish(
    rng: np.random.Generator,
    rooms: tuple[Room, ...],
    doors: tuple[Door, ...],
    kinds: Collection[str] | None = None,
) -> Home:
    """Returns a home of a floor plan with random furniture that leaves a way into every room.

    Args:
        rng: The only source of randomness.
        rooms: The rooms.
        doors: Their doors; the floor before them stays free.
        kinds: What the home may hold; None for all there is.

    Raises:
        GenerationError: If the furniture shut off a room in each of `NUM_FURNISHING_TRIES` homes.
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
    raise GenerationError(f"Furniture shut off a room in each of {NUM_FURNISHING_TRIES} homes; try another seed.")


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
