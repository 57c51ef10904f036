"""A wall of shelves: boards and uprights, rows of books, boxes, and folders, with gaps for things."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from vlm_envs.content.colors import RGB, darker, lighter
from vlm_envs.content.random_choice import pick
from vlm_envs.content.scenes.settings.setting import (
    Pixels,
    Stroke,
    Strokes,
    Zone,
    between,
    grain,
    palette,
    rect,
    spans,
)
from vlm_envs.tools.coordinates import PixelRectangle

_COLORS = palette("shelf")


@dataclass(frozen=True)
class Bay:
    """The space between two uprights on one board: scenery to the left and right of a gap.

    Attributes:
        left: First column between the uprights.
        top: Row below the board above.
        right: Column after the last.
        bottom: Row of the board's upper edge.
        gap: First and last column of the gap for things.
    """

    left: int
    top: int
    right: int
    bottom: int
    gap: tuple[int, int]


@dataclass(frozen=True)
class Shelves:
    """The plan of a wall of shelves."""

    width: int
    height: int
    board: int
    wood: RGB
    wall: RGB
    seed: int
    bays: tuple[Bay, ...]

    def zones(self) -> tuple[Zone, ...]:
        """Returns the areas where things may be."""
        return tuple(Zone(bay.gap[0], bay.top + 2, bay.gap[1], bay.bottom, standing=True) for bay in self.bays)

    def strokes(self, rng: np.random.Generator) -> Strokes:
        """Yields the scenery in drawing order."""
        for bay in self.bays:
            shadow = max(1, self.board // 2)
            yield rect(bay.left, bay.top, bay.right, bay.top + shadow, darker(self.wall, 0.14))
            yield rect(bay.left, bay.top, bay.left + shadow, bay.bottom, darker(self.wall, 0.08))
            yield from _fill(rng, bay, bay.left, bay.gap[0])
            yield from _fill(rng, bay, bay.gap[1], bay.right)
            edge = max(1, self.board // 5)
            yield rect(bay.left - self.board, bay.bottom, bay.right + self.board, bay.bottom + self.board, self.wood)
            yield rect(bay.left, bay.bottom, bay.right, bay.bottom + edge, lighter(self.wood, 0.3))
            yield rect(bay.right, bay.top, bay.right + self.board, bay.bottom, darker(self.wood, 0.12))

    def ground(self, region: PixelRectangle) -> Pixels:
        """Returns the pixels below the scenery of a region."""
        return grain(region, self.wall, self.seed, strength=4)


def plan_shelf(width: int, height: int, rng: np.random.Generator) -> Shelves:
    """Draws a plan of the shelves."""
    step = max(64.0, min(height / 3.2, between(rng, 110, 290) * max(1.0, height / 5000)))
    board = max(4, round(step * 0.06))
    bays = []
    for top, bottom in spans(rng, height, step * 0.75, step * 1.3):
        for left, right in spans(rng, width, step * 1.4, step * 3.2):
            inner = (round(left) + board // 2, round(right) - board // 2)
            room = (inner[1] - inner[0]) * between(rng, 0.3, 0.65)
            start = inner[0] + between(rng, 0, 1) * (inner[1] - inner[0] - room)
            bays.append(Bay(inner[0], round(top), inner[1], round(bottom) - board, (round(start), round(start + room))))
    return Shelves(
        width, height, board, pick(rng, _COLORS.woods), pick(rng, _COLORS.walls), int(rng.integers(2**32)), tuple(bays)
    )


def _fill(rng: np.random.Generator, bay: Bay, left: float, right: float) -> Strokes:
    """Yields books, boxes, and folders from one column to another."""
    height = bay.bottom - bay.top
    while right - left > max(4.0, height * 0.06):
        if rng.random() < 0.16 and right - left > height * 0.6:
            left = yield from _box(rng, left, bay.bottom, height)
        elif rng.random() < 0.12 and right - left > height * 0.6:
            left = yield from _pile(rng, left, bay.bottom, height)
        else:
            left = yield from _book(rng, left, min(right, left + height * between(rng, 0.06, 0.2)), bay.bottom, height)


def _book(
    rng: np.random.Generator, left: float, right: float, floor: float, height: float
) -> Generator[Stroke, None, float]:
    spine, top = pick(rng, _COLORS.spines), floor - height * between(rng, 0.5, 0.86)
    wide = right - left
    yield rect(left, top, right, floor, spine)
    yield rect(right - max(1, wide * 0.14), top, right, floor, darker(spine, 0.3))
    band = lighter(spine, 0.45)
    for share in (0.12, 0.8) if rng.random() < 0.6 else (0.2,):
        y = top + (floor - top) * share
        yield rect(left + wide * 0.1, y, right - wide * 0.2, y + max(1, height * 0.02), band)
    return right


def _box(rng: np.random.Generator, left: float, floor: float, height: float) -> Generator[Stroke, None, float]:
    color, right = pick(rng, _COLORS.boxes), left + height * between(rng, 0.4, 0.6)
    top = floor - height * between(rng, 0.3, 0.6)
    yield rect(left, top, right, floor, color)
    yield rect(left, top, right, top + (floor - top) * 0.22, darker(color, 0.15))
    middle, label = (left + right) / 2, (right - left) * 0.2
    yield rect(
        middle - label,
        top + (floor - top) * 0.45,
        middle + label,
        floor - (floor - top) * 0.3,
        lighter(color, 0.6),
    )
    return right + max(1, height * 0.02)


def _pile(rng: np.random.Generator, left: float, floor: float, height: float) -> Generator[Stroke, None, float]:
    wide, y = height * between(rng, 0.45, 0.6), floor
    for _ in range(int(rng.integers(2, 6))):
        thick, indent = height * between(rng, 0.06, 0.13), wide * between(rng, 0, 0.12)
        spine = pick(rng, _COLORS.spines)
        yield rect(left + indent, y - thick, left + wide, y, spine)
        yield rect(left + indent, y - max(1, thick * 0.2), left + wide, y, darker(spine, 0.3))
        y -= thick
    return left + wide + max(1, height * 0.02)
