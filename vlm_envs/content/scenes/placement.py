"""Where things go: in zones that suit them, never touching, or inside what holds them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np

from vlm_envs.content.scenes.brush import FRAME
from vlm_envs.content.scenes.kinds.table import KINDS
from vlm_envs.content.scenes.scene import Thing
from vlm_envs.content.scenes.settings.setting import Zone
from vlm_envs.content.scenes.sprites import frame_size

_GAP_PX = 3
"""Free pixels between things."""

_TRIES = 12
_MAX_SHARE = 0.3
"""Most of the picture that frames may cover."""


@dataclass
class Placement:
    """Things placed so far.

    Attributes:
        width: Of the picture.
        height: Of the picture.
        zones: Where things may be.
        things: In their places.
    """

    width: int
    height: int
    zones: Sequence[Zone]
    things: list[Thing] = field(default_factory=list)
    _taken: list[tuple[int, int, int, int]] = field(default_factory=list)
    _clipped: list[Zone] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Cuts off what of the zones lies outside the picture."""
        self._clipped = [
            replace(
                zone,
                left=max(zone.left, 0),
                top=max(zone.top, 0),
                right=min(zone.right, self.width),
                bottom=min(zone.bottom, self.height),
            )
            for zone in self.zones
        ]

    def add(self, rng: np.random.Generator, thing: Thing) -> bool:
        """Places a thing; False if there is no room. One that lies in another goes into it, whatever the zone."""
        placed = self._within(rng, thing) if thing.inside >= 0 else self._free(rng, thing)
        if placed is None:
            return False
        frame = placed.frame
        self.things.append(placed)
        self._taken.append((frame.left, frame.top, frame.right, frame.bottom))
        return True

    @property
    def is_full(self) -> bool:
        """Whether things cover as much of the picture as they may."""
        covered = sum((right - left) * (bottom - top) for left, top, right, bottom in self._taken)
        return covered > _MAX_SHARE * self.width * self.height

    def _free(self, rng: np.random.Generator, thing: Thing) -> Thing | None:
        width, height = frame_size(thing.kind, thing.size_px)
        place = KINDS[thing.kind].place
        fitting = [
            zone
            for zone in self._clipped
            if place in zone.places and zone.right - zone.left >= width and zone.bottom - zone.top >= height
        ]
        if not fitting:
            return None
        weights = [*accumulate(zone.right - zone.left for zone in fitting)]
        for _ in range(_TRIES):
            zone = fitting[bisect_right(weights, rng.random() * weights[-1])]
            x = int(rng.integers(zone.left, zone.right - width + 1))
            lowest = zone.bottom - height
            y = lowest if zone.standing else int(rng.integers(zone.top, lowest + 1))
            if self._is_free(x - _GAP_PX, y - _GAP_PX, x + width + _GAP_PX, y + height + _GAP_PX):
                return thing.at(x, y)
        return None

    def _is_free(self, left: int, top: int, right: int, bottom: int) -> bool:
        for other_left, other_top, other_right, other_bottom in self._taken:
            if left < other_right and other_left < right and top < other_bottom and other_top < bottom:
                return False
        return True

    def _within(self, rng: np.random.Generator, thing: Thing) -> Thing | None:
        """Returns a thing inside its holder, made smaller only by the caller."""
        holder = self.things[thing.inside]
        holds = KINDS[holder.kind].holds
        if holds is None:
            return None
        unit = holder.size_px / FRAME
        width, height = frame_size(thing.kind, thing.size_px)
        left, top = holder.x + round(holds[0] * unit), holder.y + round(holds[1] * unit)
        right, bottom = holder.x + int(holds[2] * unit) - width, holder.y + int(holds[3] * unit) - height
        if left > right or top > bottom:
            return None
        return replace(thing, x=int(rng.integers(left, right + 1)), y=int(rng.integers(top, bottom + 1)))
