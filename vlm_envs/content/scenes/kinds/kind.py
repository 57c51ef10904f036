"""What a kind of thing is: its words, its shape, where it is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from vlm_envs.content.colors import RGB
from vlm_envs.content.scenes.brush import Brush

Place = Literal["ground", "wall", "air", "water"]
"""Where a thing is found: standing, hanging on a wall, in the sky, on water."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ThingStyle:
    """What a kind's painter goes by.

    Attributes:
        color: Of its main part.
        text: Written on it; signs only.
        minutes: Past twelve o'clock, 0 to 719; clocks only.
    """

    color: RGB
    text: str = ""
    minutes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of thing.

    Attributes:
        name: The noun.
        paint: Draws it in a frame whose longer side is 100 units.
        width: Of its frame, in units.
        height: Of its frame, in units; the longer of the two is 100.
        plural: The noun for several; the name with an s if empty.
        place: Where it is found.
        legible_px: Longer side from which on it can be recognised.
        also: Other nouns for it, singular.
        turns: Whether it may be drawn mirrored.
        holds: x1, y1, x2, y2 in units of where another thing may lie inside it; None if nothing may.
    """

    name: str
    paint: Callable[[Brush, ThingStyle], None]
    width: int = 100
    height: int = 100
    plural: str = ""
    place: Place = "ground"
    legible_px: int = 12
    also: tuple[str, ...] = ()
    turns: bool = True
    holds: tuple[int, int, int, int] | None = None

    @property
    def several(self) -> str:
        """The noun for several."""
        return self.plural or f"{self.name}s"
