"""What a setting is: where things may be, the scenery around them, the ground below."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from vlm_envs.content.colors import RGB
from vlm_envs.content.scenes.kinds.kind import Place
from vlm_envs.content.scenes.settings.strokes import Stroke
from vlm_envs.tools.coordinates import PixelRectangle

Pixels = npt.NDArray[np.uint8]

EVERYWHERE: frozenset[Place] = frozenset(("ground", "wall", "air", "water"))


@dataclass(frozen=True, slots=True)
class Zone:
    """A rectangle in which things may be.

    Attributes:
        left: First column.
        top: First row.
        right: Column after the last.
        bottom: Row after the last.
        places: What kinds of place it is.
        standing: Whether things stand on its lower edge; else they are anywhere in it.
    """

    left: int
    top: int
    right: int
    bottom: int
    places: frozenset[Place] = EVERYWHERE
    standing: bool = False


PlanT = TypeVar("PlanT")


@dataclass(frozen=True, kw_only=True)
class Setting(Generic[PlanT]):
    """A way to make scenery.

    Zones are asked for at every draw, strokes only when somebody looks; both are read off one plan, so they agree.

    Attributes:
        plan: From width, height and a generator to the outline of the scenery; cheap.
        zones: Where things may be.
        strokes: The scenery, in the order it is drawn; the generator is one of its own.
        ground: The pixels below the scenery of a region: uint8[rows, columns, 3], a function of position alone.
    """

    plan: Callable[[int, int, np.random.Generator], PlanT]
    zones: Callable[[PlanT], tuple[Zone, ...]]
    strokes: Callable[[PlanT, np.random.Generator], Iterator[Stroke]]
    ground: Callable[[PlanT, PixelRectangle], Pixels]


AnySetting = Setting[Any]


def grain(region: PixelRectangle, color: RGB, seed: int, *, strength: int = 6, stretch: int = 1) -> Pixels:
    """Returns a colour with a fine grain that repeats every 256 pixels.

    Args:
        region: Whose pixels.
        color: The mean colour.
        seed: Of the grain.
        strength: Most levels by which a pixel is lighter or darker.
        stretch: Columns that share a grain, for the look of fibres.

    Returns:
        uint8[rows, columns, 3].
    """
    tile = np.random.default_rng(seed).integers(-strength, strength + 1, (256, 256 // stretch), dtype=np.int16)
    tile = np.repeat(tile, stretch, axis=1)
    colored = np.clip(np.array(color, np.int16) + tile[..., None], 0, 255).astype(np.uint8)
    rows = np.arange(region.top, region.bottom) % 256
    columns = np.arange(region.left, region.right) % 256
    pixels: Pixels = colored.take(rows, axis=0).take(columns, axis=1)
    return pixels


def between(rng: np.random.Generator, low: float, high: float) -> float:
    """Returns a number between two."""
    return float(low + (high - low) * rng.random())


def spans(rng: np.random.Generator, total: float, low: float, high: float) -> list[tuple[float, float]]:
    """Returns stretches from start to stop, each between two lengths, that fill a length; the last may be shorter."""
    found, at = [], 0.0
    while at < total:
        stop = min(total, at + between(rng, low, high))
        if total - stop < low / 2:
            stop = total
        found.append((at, stop))
        at = stop
    return found
