"""What each kind of room holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Companion:
    """A thing that stands in a fixed relation to another.

    Attributes:
        kind: Its kind.
        right_cm: How far to the right of the other's middle, seen by the other.
        ahead_cm: How far before it.
        turn: Its turn relative to the other's.
    """

    kind: str
    right_cm: int
    ahead_cm: int
    turn: int


COMPANIONS: Mapping[str, tuple[Companion, ...]] = {
    "Sofa": (Companion(kind="CoffeeTable", right_cm=0, ahead_cm=112, turn=0),),
    "Desk": (Companion(kind="Chair", right_cm=-14, ahead_cm=40, turn=2),),
    "DiningTable": (
        Companion(kind="Chair", right_cm=-32, ahead_cm=48, turn=2),
        Companion(kind="Chair", right_cm=32, ahead_cm=-48, turn=0),
    ),
}
"""What belongs to a piece of furniture and stands with it where there is room."""


@dataclass(frozen=True, kw_only=True)
class Furnishing:
    """What a kind of room holds; each entry is tried in order and left out where it does not fit.

    Attributes:
        along_walls: Kinds with their backs to a wall.
        in_middle: Kinds away from the walls.
        in_corners: Small kinds that stand anywhere along a wall.
        on_tops: Kinds for the tops of furniture.
        on_walls: Kinds that hang.
    """

    along_walls: tuple[str, ...]
    in_middle: tuple[str, ...] = ()
    in_corners: tuple[str, ...] = ()
    on_tops: tuple[str, ...]
    on_walls: tuple[str, ...]


FURNISHINGS: Mapping[str, Furnishing] = {
    "kitchen": Furnishing(
        along_walls=("CounterTop", "Fridge", "Stove", "Sink", "CounterTop"),
        in_middle=("DiningTable",),
        in_corners=("GarbageCan",),
        on_tops=("Toaster", "Microwave", "Kettle", "Pot", "Bowl", "Mug", "Bottle", "Apple", "Bread"),
        on_walls=("Clock", "Window"),
    ),
    "living_room": Furnishing(
        along_walls=("Sofa", "TVStand", "Bookshelf", "ArmChair"),
        in_corners=("FloorLamp", "HousePlant", "Guitar", "BasketBall"),
        on_tops=("Television", "Statue", "Vase", "Bowl", "Candle", "Book", "Mug", "Apple"),
        on_walls=("Painting", "Window", "Clock"),
    ),
    "bedroom": Furnishing(
        along_walls=("Bed", "Wardrobe", "Dresser", "Nightstand"),
        in_corners=("TeddyBear", "LaundryBasket", "FloorLamp", "BasketBall"),
        on_tops=("AlarmClock", "TableLamp", "Candle", "Book", "Vase", "Statue"),
        on_walls=("Mirror", "Window", "Painting"),
    ),
    "bathroom": Furnishing(
        along_walls=("Bathtub", "Toilet", "Sink", "WashingMachine"),
        in_corners=("LaundryBasket", "GarbageCan", "HousePlant"),
        on_tops=("SoapBottle", "RubberDuck", "Candle"),
        on_walls=("Mirror", "Window"),
    ),
    "study": Furnishing(
        along_walls=("Desk", "Bookshelf", "Dresser", "ArmChair"),
        in_corners=("GarbageCan", "Box", "HousePlant", "Guitar"),
        on_tops=("Laptop", "Globe", "TableLamp", "Book", "Mug", "Statue", "Bottle"),
        on_walls=("Clock", "Painting", "Window"),
    ),
}
"""What each kind of room holds."""

UNIQUE = (
    "Television",
    "Clock",
    "Sofa",
    "Bed",
    "Fridge",
    "Stove",
    "Laptop",
    "Guitar",
    "BasketBall",
    "FloorLamp",
    "Sink",
)
"""Kinds of which a home has at most one."""
