"""The kinds of things: how large they are, where they belong, which colours they come in.

Small things are somewhat larger than life, so that a picture of 255 pixels shows them from across a room.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

Place = Literal["floor", "top", "wall"]

_BRIGHT = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "turquoise", "white")
_CLOTH = ("red", "orange", "green", "blue", "purple", "grey", "turquoise", "cream")
_TIMBER = ("oak", "brown", "white", "black")
_ENAMEL = ("white", "grey", "cream", "turquoise", "red")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectKind:
    """What all things of one name share.

    Attributes:
        place: It stands on the floor, stands on top of furniture, or hangs on a wall.
        size_cm: Width, depth and height when it faces north.
        colors: Colours it comes in.
        is_solid: Whether nothing can be seen through its bounding box.
        top_cm: Height of the top that small things stand on; None where none do.
    """

    place: Place
    size_cm: tuple[int, int, int]
    colors: tuple[str, ...]
    is_solid: bool = False
    top_cm: int | None = None


def _floor(
    width: int, depth: int, height: int, colors: tuple[str, ...], *, solid: bool = True, top: int | None = None
) -> ObjectKind:
    return ObjectKind(place="floor", size_cm=(width, depth, height), colors=colors, is_solid=solid, top_cm=top)


def _small(place: Place, width: int, depth: int, height: int, colors: tuple[str, ...]) -> ObjectKind:
    return ObjectKind(place=place, size_cm=(width, depth, height), colors=colors)


_top, _wall = partial(_small, "top"), partial(_small, "wall")

KINDS: Mapping[str, ObjectKind] = {
    # Furniture
    "Sofa": _floor(180, 85, 80, _CLOTH),
    "ArmChair": _floor(85, 80, 85, _CLOTH),
    "CoffeeTable": _floor(90, 55, 42, _TIMBER, solid=False, top=42),
    "TVStand": _floor(130, 42, 50, _TIMBER, top=50),
    "Bookshelf": _floor(90, 32, 190, _TIMBER),
    "FloorLamp": _floor(42, 42, 160, ("white", "yellow", "red", "green", "blue"), solid=False),
    "HousePlant": _floor(50, 50, 105, ("brown", "white", "blue", "orange"), solid=False),
    "Fridge": _floor(70, 68, 180, _ENAMEL),
    "Stove": _floor(60, 60, 90, ("white", "grey", "black")),
    "CounterTop": _floor(100, 60, 90, ("white", "oak", "blue", "green"), top=90),
    "Sink": _floor(80, 55, 105, ("white", "oak", "grey")),
    "DiningTable": _floor(130, 80, 75, _TIMBER, solid=False, top=75),
    "Chair": _floor(45, 45, 90, ("oak", "brown", "white", "red", "blue", "green"), solid=False),
    "GarbageCan": _floor(38, 38, 60, ("grey", "green", "blue", "black", "red"), solid=False),
    "Bed": _floor(140, 200, 95, _CLOTH),
    "Nightstand": _floor(45, 40, 52, _TIMBER, top=52),
    "Wardrobe": _floor(110, 58, 200, _TIMBER),
    "Dresser": _floor(100, 46, 85, _TIMBER, top=85),
    "Desk": _floor(125, 62, 74, _TIMBER, solid=False, top=74),
    "Toilet": _floor(42, 68, 82, ("white", "pink", "cream"), solid=False),
    "Bathtub": _floor(160, 75, 58, ("white", "pink", "cream", "turquoise")),
    "WashingMachine": _floor(60, 58, 86, ("white", "grey"), top=86),
    # Smaller things on the floor
    "Box": _floor(48, 40, 36, ("oak", "red", "blue", "white"), solid=False),
    "LaundryBasket": _floor(48, 40, 50, ("cream", "blue", "pink", "green"), solid=False),
    "BasketBall": _floor(30, 30, 30, ("orange",), solid=False),
    "Guitar": _floor(40, 14, 105, ("orange", "red", "black"), solid=False),
    "TeddyBear": _floor(44, 38, 58, ("brown", "cream", "pink"), solid=False),
    "Statue": _top(20, 20, 46, ("gold", "white", "black", "turquoise")),
    # On top of furniture
    "Television": _top(95, 16, 62, ("black", "grey")),
    "Laptop": _top(42, 34, 30, ("grey", "black", "white", "red")),
    "Toaster": _top(36, 24, 26, ("grey", "red", "turquoise", "cream")),
    "Microwave": _top(56, 38, 34, ("white", "black", "grey", "red")),
    "Kettle": _top(30, 22, 32, ("red", "white", "blue", "black")),
    "Pot": _top(44, 30, 24, ("grey", "red", "blue", "black")),
    "Bowl": _top(32, 32, 16, _BRIGHT),
    "Mug": _top(24, 17, 18, _BRIGHT),
    "Bottle": _top(13, 13, 42, ("green", "brown", "blue", "red")),
    "Apple": _top(16, 16, 17, ("red", "green", "yellow")),
    "Bread": _top(34, 18, 17, ("oak",)),
    "Vase": _top(24, 24, 56, ("blue", "white", "purple", "turquoise", "orange")),
    "Candle": _top(16, 16, 34, ("white", "red", "cream", "purple")),
    "Book": _top(34, 26, 15, ("red", "blue", "green", "purple", "orange")),
    "TableLamp": _top(32, 32, 50, ("white", "yellow", "red", "green", "blue")),
    "AlarmClock": _top(24, 12, 28, ("red", "blue", "yellow", "black")),
    "Globe": _top(32, 32, 42, ("blue",)),
    "SoapBottle": _top(16, 14, 30, ("green", "pink", "yellow", "turquoise")),
    "RubberDuck": _top(26, 18, 24, ("yellow",)),
    # On walls
    "Painting": _wall(75, 6, 55, ("red", "blue", "green", "orange", "purple")),
    "Clock": _wall(38, 7, 38, ("black", "red", "blue", "oak")),
    "Mirror": _wall(55, 6, 75, ("oak", "gold", "white", "black")),
    "Window": _wall(110, 8, 95, ("white", "oak", "green")),
}
"""Every kind by its name, written as AI2-THOR writes its object types."""

WALL_MIDDLE_CM: Mapping[str, int] = {"Painting": 150, "Clock": 185, "Mirror": 150, "Window": 150}
"""Height of the middle of what hangs on walls."""


@lru_cache(maxsize=1024)
def words_of(kind: str) -> str:
    """Returns a kind's name in words, e.g. `"floor lamp"` for `"FloorLamp"`; works for AI2-THOR's types too."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", kind).lower()
