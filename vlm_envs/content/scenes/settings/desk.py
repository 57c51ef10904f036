"""A desk from above: wooden boards, papers, notebooks, note slips, rulers, pencils, keyboards, and cutting mats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from numpy.random import Generator

from vlm_envs.content.colors import RGB, darker, lighter, mixed
from vlm_envs.content.random_choice import pick
from vlm_envs.content.scenes.brush import XY
from vlm_envs.content.scenes.settings.setting import (
    Pixels,
    Stroke,
    Strokes,
    Zone,
    between,
    grain,
    line,
    palette,
    polygon,
    rect,
)
from vlm_envs.tools.coordinates import PixelRectangle

_COLORS = palette("desk")


class _Spot(NamedTuple):
    """Position and size of an article."""

    middle: XY
    unit: float

    def sheet(self, rng: Generator, width: float, height: float, tilt: float) -> _Sheet:
        """Returns a rectangle of given size in units, rotated at random by up to `tilt`."""
        return _Sheet(self.middle, (self.unit * width, self.unit * height), between(rng, -tilt, tilt))


@dataclass(frozen=True)
class DeskPlan:
    """The plan of a desk, which fixes the size of its articles."""

    width: int
    height: int
    unit: float
    wood: RGB
    seed: int

    def zones(self) -> tuple[Zone, ...]:
        """Returns the areas where things may be."""
        return (Zone(0, 0, self.width, self.height),)

    def strokes(self, rng: Generator) -> Strokes:
        """Yields the scenery in drawing order."""
        board, unit = self.unit * 1.1, self.unit
        for number in range(math.ceil(self.height / board) + 1):
            tone = mixed(self.wood, darker(self.wood, 0.25), float(rng.random()))
            for _ in range(10):  # wood fibers
                y, x = number * board + between(rng, 0, board), between(rng, -0.2, 1) * self.width
                yield line(
                    [(x, y), (x + between(rng, 1, 6) * unit, y + between(rng, -0.02, 0.02) * unit)], unit / 160, tone
                )
            yield rect(0, number * board, self.width, number * board + max(1, unit / 90), darker(self.wood, 0.4))
        articles = (_paper, _paper, _notebook, _slip, _slip, _ruler, _pencil, _pencil, _keyboard, _mat, _cable)
        for row in range(math.ceil(self.height / unit) + 1):
            for column in range(math.ceil(self.width / unit) + 1):
                for _ in range(int(rng.integers(1, 4))):
                    middle = ((column + between(rng, -0.5, 0.5)) * unit, (row + between(rng, -0.5, 0.5)) * unit)
                    article = pick(rng, articles)
                    yield from article(rng, _Spot(middle, unit * between(rng, 0.6, 1.25)))

    def ground(self, region: PixelRectangle) -> Pixels:
        """Returns the pixels below the scenery of a region."""
        return grain(region, self.wood, self.seed, strength=9, stretch=16)


class _Sheet:
    """A possibly rotated rectangle with its own coordinates: `u` along and `v` across, 0 to 1."""

    def __init__(self, middle: XY, size: XY, angle: float) -> None:
        self.middle, self.size = middle, size
        self._along, self._across = math.cos(angle), math.sin(angle)

    def at(self, u: float, v: float) -> XY:
        """Returns a position in the image."""
        x, y = (u - 0.5) * self.size[0], (v - 0.5) * self.size[1]
        return (
            self.middle[0] + x * self._along - y * self._across,
            self.middle[1] + x * self._across + y * self._along,
        )

    def part(self, u1: float, v1: float, u2: float, v2: float, color: RGB) -> Stroke:
        """Returns a rectangular part of the sheet."""
        return polygon([self.at(u1, v1), self.at(u2, v1), self.at(u2, v2), self.at(u1, v2)], color)


def plan_desk(width: int, height: int, rng: Generator) -> DeskPlan:
    """Draws a plan of the desk."""
    longest = max(width, height)
    unit = min(longest / 2.2, max(90.0, between(rng, 200, 400) * max(1.0, longest / 5000)))
    return DeskPlan(width, height, unit, pick(rng, _COLORS.woods), int(rng.integers(2**32)))


def _paper(rng: Generator, spot: _Spot) -> Strokes:
    color, sheet = pick(rng, _COLORS.papers), spot.sheet(rng, 0.62, 0.88, 0.6)
    yield from [sheet.part(0.02, 0.02, 1.02, 1.015, _COLORS.paper_shadow), sheet.part(0, 0, 1, 1, color)]
    if rng.random() < 0.3:
        for index in range(6):
            top = 0.82 - 0.6 * float(rng.random())
            yield sheet.part(0.14 + 0.12 * index, top, 0.22 + 0.12 * index, 0.84, pick(rng, _COLORS.covers))
        return
    for index in range(int(rng.integers(6, 20))):
        v = 0.1 + 0.043 * index
        yield sheet.part(0.1, v, 0.1 + 0.8 * between(rng, 0.5, 1), v + 0.013, _COLORS.text)


def _notebook(rng: Generator, spot: _Spot) -> Strokes:
    cover, sheet = pick(rng, _COLORS.covers), spot.sheet(rng, 0.55, 0.72, 0.8)
    yield from [sheet.part(0.02, 0.02, 1.03, 1.02, darker(cover, 0.5)), sheet.part(0, 0, 1, 1, cover)]
    yield sheet.part(0, 0, 0.12, 1, darker(cover, 0.25))
    yield sheet.part(0.3, 0.18, 0.84, 0.34, lighter(cover, 0.7))
    yield from [sheet.part(-0.03, v / 12, 0.05, v / 12 + 0.02, _COLORS.rings) for v in range(1, 12)]


def _slip(rng: Generator, spot: _Spot) -> Strokes:
    color, sheet = pick(rng, _COLORS.slips), spot.sheet(rng, 0.22, 0.22, 0.5)
    yield from [sheet.part(0.03, 0.03, 1.04, 1.04, _COLORS.slip_shadow), sheet.part(0, 0, 1, 1, color)]
    for v in (0.25, 0.45, 0.65):
        yield sheet.part(0.12, v, 0.12 + 0.7 * between(rng, 0.4, 1), v + 0.05, darker(color, 0.45))


def _ruler(rng: Generator, spot: _Spot) -> Strokes:
    sheet = spot.sheet(rng, 0.95, 0.09, 1.6)
    yield sheet.part(0, 0, 1, 1, _COLORS.ruler)
    yield from [
        sheet.part(u / 30, 0, u / 30 + 0.006, 0.6 if u % 5 == 0 else 0.35, _COLORS.ruler_marks) for u in range(1, 30)
    ]


def _pencil(rng: Generator, spot: _Spot) -> Strokes:
    color, sheet = pick(rng, _COLORS.pencils), spot.sheet(rng, 0.5, 0.032, 3.1)
    yield from [sheet.part(0, 0, 0.86, 1, color), sheet.part(0, 0.6, 0.86, 1, darker(color, 0.25))]
    yield polygon([sheet.at(0.86, 0), sheet.at(1, 0.5), sheet.at(0.86, 1)], _COLORS.pencil_wood)
    yield polygon([sheet.at(0.95, 0.3), sheet.at(1, 0.5), sheet.at(0.95, 0.7)], _COLORS.pencil_lead)
    yield sheet.part(0, 0, 0.07, 1, _COLORS.eraser)


def _keyboard(rng: Generator, spot: _Spot) -> Strokes:
    case = pick(rng, _COLORS.keyboards)
    sheet = spot.sheet(rng, 0.9, 0.32, 0.3)
    cap = lighter(case, 0.22) if sum(case) < 400 else lighter(case, 0.7)
    yield from [sheet.part(0.01, 0.03, 1.01, 1.05, darker(case, 0.6)), sheet.part(0, 0, 1, 1, case)]
    for row in range(4):
        for column in range(14):
            u, v = 0.03 + column * 0.067, 0.08 + row * 0.22
            yield sheet.part(u, v, u + 0.055, v + 0.17, cap)


def _mat(rng: Generator, spot: _Spot) -> Strokes:
    color, sheet = (
        pick(rng, _COLORS.mats),
        _Sheet(spot.middle, (spot.unit, spot.unit * 0.7), 0.0),
    )
    yield from [sheet.part(0, 0, 1, 1, color), sheet.part(0.02, 0.03, 0.98, 0.97, lighter(color, 0.08))]
    yield from [sheet.part(u / 12, 0.03, u / 12 + 0.002, 0.97, lighter(color, 0.3)) for u in range(1, 12)]
    yield from [sheet.part(0.02, v / 8, 0.98, v / 8 + 0.003, lighter(color, 0.3)) for v in range(1, 8)]


def _cable(rng: Generator, spot: _Spot) -> Strokes:
    (x, y), unit = spot
    bends, tone = between(rng, 2, 5), pick(rng, _COLORS.cables)
    points = [(x + unit * (step / 48 - 0.5) * 1.6, y + unit * 0.16 * math.sin(bends * step / 12)) for step in range(49)]
    yield line(points, unit * 0.018, tone)
