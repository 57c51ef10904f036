"""Kinds of things in scenes that questions may ask about, defined in `scene_kinds.toml`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vlm_envs.content.colors import CHALK, INK, RGB, described_color, shade
from vlm_envs.content.data_tables import data_table
from vlm_envs.content.scenes.brush import Brush

Place = Literal["ground", "wall", "air", "water"]
"""Where a thing occurs: standing on the ground, hanging on a wall, in the air, or on water."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of thing; `scene_kinds.toml` describes its attributes."""

    name: str
    shapes: Sequence[Mapping[str, Any]]
    legible_px: int
    width: int = 100
    height: int = 100
    plural: str = ""
    place: Place = "ground"
    also: Sequence[str] = ()
    turns: bool = True
    holds: Sequence[int] | None = None

    @property
    def several(self) -> str:
        """The plural noun."""
        return self.plural or f"{self.name}s"

    def paint(self, brush: Brush, own: RGB, *, text: str, minutes: int) -> None:
        """Draws a thing of this kind.

        Args:
            brush: Draws in a frame whose longer side is 100 units.
            own: The color of the thing.
            text: Text on it; signs only.
            minutes: Past twelve o'clock, 0 to 719; clocks only.
        """
        named = {"own": own, "shade": shade(own), "ink": INK, "chalk": CHALK}
        for shape in self.shapes:
            arguments = {name: value for name, value in shape.items() if name not in ("shape", "color")}
            color = described_color(shape["color"], named)
            match shape["shape"]:
                case "text":
                    brush.text(text=text, color=color, **arguments)
                case "hour_hand":
                    _draw_hand(brush, minutes / 720, color=color, **arguments)
                case "minute_hand":
                    _draw_hand(brush, minutes % 60 / 60, color=color, **arguments)
                case method:
                    getattr(brush, method)(color=color, **arguments)


def _draw_hand(brush: Brush, turn: float, *, length: float, width: float, color: RGB) -> None:
    angle = math.radians(360 * turn - 90)
    tip = (50 + length * math.cos(angle), 50 + length * math.sin(angle))
    brush.line([(50, 50), tip], width, color)


KINDS: Mapping[str, Kind] = {
    name: Kind(name=name, **kind) for name, kind in data_table(__file__, "scene_kinds.toml").items()
}
"""All kinds, by noun."""

HOLDER_KINDS = tuple(name for name, kind in KINDS.items() if kind.holds is not None)
"""Kinds that can contain other things."""

PLAIN_KINDS = tuple(name for name in KINDS if name not in (*HOLDER_KINDS, "clock", "sign"))
"""Kinds whose instances differ only in color."""
