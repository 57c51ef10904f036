"""A map: a coast, fields, woods, lakes, contour lines, roads, and town blocks along them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from vlm_envs.content.colors import RGB, darker, lighter
from vlm_envs.content.random_choice import pick
from vlm_envs.content.scenes.brush import XY
from vlm_envs.content.scenes.settings.setting import (
    Pixels,
    Strokes,
    Zone,
    between,
    ellipse,
    grain,
    line,
    palette,
    polygon,
    rect,
)
from vlm_envs.tools.coordinates import PixelRectangle

_COLORS = palette("map")
_NUM_CELLS = 16


@dataclass(frozen=True)
class MapPlan:
    """The plan of a map, which fixes its coast.

    Attributes:
        width: Columns.
        height: Rows.
        unit: Size of a field, in pixels.
        land: Color of the land.
        seed: Seed of the grain.
        coast: Column of the coast at evenly spaced rows from top to bottom; the sea is to its right.
    """

    width: int
    height: int
    unit: float
    land: RGB
    seed: int
    coast: tuple[int, ...]

    def zones(self) -> tuple[Zone, ...]:
        """Returns the areas where things may be."""
        zones = []
        for cell in range(_NUM_CELLS):
            top, bottom = (self.height * row // _NUM_CELLS for row in (cell, cell + 1))
            reach = self.coast[4 * cell : 4 * cell + 5]
            margin = self.width // 100
            # Strips overlap downward to fit large things; each uses only the coast along its own rows
            zones.append(Zone(0, top, min(reach) - margin, bottom, ("ground", "wall", "air")))
            zones.append(Zone(max(reach) + margin, top, self.width, bottom, ("water",)))
        half = self.height // 2
        for top, bottom, reach in (
            (0, half, self.coast[: 2 * _NUM_CELLS + 1]),
            (half, self.height, self.coast[2 * _NUM_CELLS :]),
        ):
            zones.append(Zone(0, top, min(reach) - self.width // 100, bottom, ("ground", "wall", "air")))
            zones.append(Zone(max(reach) + self.width // 100, top, self.width, bottom, ("water",)))
        return tuple(zone for zone in zones if zone.right > zone.left)

    def strokes(self, rng: Generator) -> Strokes:
        """Yields the scenery in drawing order."""
        columns, rows = math.ceil(self.width / self.unit) + 1, math.ceil(self.height / self.unit) + 1
        for row in range(rows):
            for column in range(columns):
                middle = ((column + between(rng, -0.2, 0.2)) * self.unit, (row + between(rng, -0.2, 0.2)) * self.unit)
                yield from _region(rng, middle, self.unit)
        yield from _roads(self, rng)
        yield from _sea(self, rng)

    def ground(self, region: PixelRectangle) -> Pixels:
        """Returns the pixels below the scenery of a region."""
        return grain(region, self.land, self.seed, strength=3)


def plan_map(width: int, height: int, rng: Generator) -> MapPlan:
    """Draws a plan of the map."""
    unit = min(max(width, height) / 3, max(70.0, between(rng, 120, 280) * max(1.0, max(width, height) / 5000)))
    rows = np.arange(4 * _NUM_CELLS + 1) / (4 * _NUM_CELLS)
    waves = sum(
        between(rng, 0.2, 1.0) / wave * np.sin(math.tau * (wave * rows + rng.random())) for wave in (1, 2, 3, 5, 8, 13)
    )
    coast = width * (between(rng, 0.66, 0.78) + 0.06 * waves)
    return MapPlan(
        width, height, unit, pick(rng, _COLORS.lands), int(rng.integers(2**32)), tuple(int(x) for x in np.rint(coast))
    )


def _region(rng: Generator, middle: XY, unit: float) -> Strokes:
    """Yields the cover of one patch of land."""
    chance = rng.random()
    if chance < 0.3:
        yield polygon(_blob(rng, middle, unit * 0.6, 7), pick(rng, _COLORS.fields))
        x, y = middle
        for index in range(-3, 4):
            start = (x + index * unit * 0.08, y - unit * 0.3)
            yield line([start, (start[0] + unit * 0.12, y + unit * 0.3)], unit / 220, _COLORS.furrows)
    elif chance < 0.52:
        yield polygon(_blob(rng, middle, unit * 0.62, 11), _COLORS.wood)
        for _ in range(16):
            x, y = (position + between(rng, -0.42, 0.42) * unit for position in middle)
            yield ellipse(x, y, unit * 0.032, unit * 0.032, darker(_COLORS.wood, between(rng, 0.1, 0.3)))
    elif chance < 0.6:
        shore = _blob(rng, middle, unit * 0.4, 10)
        yield polygon(shore, _COLORS.sea)
        yield line([*shore, shore[0]], unit / 110, darker(_COLORS.sea, 0.3))
    elif chance < 0.85:
        for ring in range(int(rng.integers(3, 6)), 0, -1):
            rim = _blob(rng, middle, unit * 0.15 * ring, 12, wobble=0.06)
            yield line([*rim, rim[0]], unit / 160, _COLORS.contour)
    else:
        yield from _town(rng, middle, unit)


def _town(rng: Generator, middle: XY, unit: float) -> Strokes:
    block = unit * 0.13
    for row in range(-3, 4):
        for column in range(-3, 4):
            if rng.random() < 0.75:
                x, y = middle[0] + column * block, middle[1] + row * block
                wide, tall = block * between(rng, 0.4, 0.8), block * between(rng, 0.4, 0.8)
                yield rect(x, y, x + wide, y + tall, darker(_COLORS.block, between(rng, 0, 0.25)))


def _blob(rng: Generator, middle: XY, radius: float, corners: int, *, wobble: float = 0.28) -> list[XY]:
    """Returns the corners of a rounded patch."""
    points = []
    for index in range(corners):
        angle, reach = math.tau * index / corners, radius * between(rng, 1 - wobble, 1 + wobble)
        points.append((middle[0] + reach * math.cos(angle), middle[1] + reach * math.sin(angle)))
    return points


def _roads(plan: MapPlan, rng: Generator) -> Strokes:
    number = max(3, round(max(plan.width, plan.height) / plan.unit / 1.6))
    roads = []
    for index in range(number):
        across, at = index % 2 == 0, between(rng, 0, 1)
        points, length = [], plan.width if across else plan.height
        reach, drift = plan.height if across else plan.width, 0.0
        for step in range(math.ceil(length / plan.unit) + 2):
            drift += between(rng, -0.35, 0.35) * plan.unit
            along, aside = step * plan.unit - plan.unit / 2, at * reach + drift
            points.append((along, aside) if across else (aside, along))
        roads.append((points, plan.unit * between(rng, 0.03, 0.075), pick(rng, _COLORS.roads)))
    yield from [line(points, wide * 1.4, darker(color, 0.35)) for points, wide, color in roads]
    yield from [line(points, wide, color) for points, wide, color in roads]


def _sea(plan: MapPlan, rng: Generator) -> Strokes:
    last = len(plan.coast) - 1
    shore = [(float(x), plan.height * index / last) for index, x in enumerate(plan.coast)]
    shore = [(shore[0][0], -9.0), *shore, (shore[-1][0], plan.height + 9.0)]
    for shift, color in (
        (0.0, _COLORS.beach),
        (0.05, lighter(_COLORS.sea, 0.35)),
        (0.2, _COLORS.sea),
        (0.6, darker(_COLORS.sea, 0.06)),
    ):
        moved = [(x + shift * plan.unit, y) for x, y in shore]
        yield polygon([*moved, (plan.width + 9, plan.height + 9), (plan.width + 9, -9)], color)
    for _ in range(round(plan.width * plan.height / plan.unit**2 * 2)):
        y, row = between(rng, 0, plan.height), 0
        row = min(last, int(y / plan.height * last))
        x = between(rng, plan.coast[row] + plan.unit * 0.7, plan.width + plan.unit)
        wave = plan.unit * 0.05
        yield line(
            [(x, y), (x + wave, y - wave / 2), (x + 2 * wave, y), (x + 3 * wave, y - wave / 2)],
            plan.unit / 150,
            lighter(_COLORS.sea, 0.45),
        )
