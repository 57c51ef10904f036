"""A town on a slope under a sky: terraces of houses, each with a sidewalk and a road or canal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from vlm_envs.content.colors import RGB, darker, lighter, mixed
from vlm_envs.content.random_choice import pick
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
    spans,
)
from vlm_envs.tools.coordinates import PixelRectangle

_COLORS = palette("street")


@dataclass(frozen=True)
class House:
    """A house: its wall extends from `left` to `right` and from `eaves` down to the sidewalk."""

    left: int
    right: int
    eaves: int
    storey: int


@dataclass(frozen=True)
class Terrace:
    """A row of houses and the street in front of it; rows of pixels from the top down."""

    top: int
    floor: int
    kerb: int
    verge: int
    bottom: int
    canal: bool
    houses: tuple[House, ...]


@dataclass(frozen=True)
class Town:
    """The plan of a town."""

    width: int
    height: int
    horizon: int
    sky: tuple[RGB, RGB]
    seed: int
    terraces: tuple[Terrace, ...]

    def zones(self) -> tuple[Zone, ...]:
        """Returns the areas where things may be."""
        zones = [Zone(0, 0, self.width, round(self.horizon * 0.8), ("air",))]
        for row in self.terraces:
            if row.canal:
                zones.append(Zone(0, row.floor, self.width, row.kerb - 1, ("ground",)))
                zones.append(Zone(0, row.kerb + 1, self.width, row.verge - 1, ("water",)))
                zones.append(Zone(0, row.verge, self.width, row.bottom, ("ground", "air")))
            else:
                zones.append(Zone(0, row.floor, self.width, row.bottom, ("ground", "air")))
            zones += [
                Zone(house.left + 2, house.eaves, house.right - 2, round(row.floor - house.storey * 0.2), ("wall",))
                for house in row.houses
            ]
        return tuple(zones)

    def strokes(self, rng: Generator) -> Strokes:
        """Yields the scenery in drawing order."""
        yield from _clouds(self, rng)
        for row in self.terraces:
            tall = row.bottom - row.top
            yield rect(0, row.top, self.width, row.floor, mixed(_COLORS.grass, _COLORS.haze, 0.4))
            for _ in range(round(self.width / tall * 9)):
                x, y = between(rng, 0, self.width), row.floor - between(rng, 0, tall * 0.1)
                yield from _tree(rng, x, y, tall * between(rng, 0.1, 0.32))
            for house in row.houses:
                yield from _house(rng, house, row)
            yield from _ways(self, row, rng)

    def ground(self, region: PixelRectangle) -> Pixels:
        """Returns the sky: a gradient from the top to the horizon, with a fine grain."""
        share = np.clip(np.arange(region.top, region.bottom) / self.horizon, 0, 1)[:, None]
        high, low = np.array(self.sky[0], float), np.array(self.sky[1], float)
        tones = np.rint(high + (low - high) * share).astype(np.uint8)
        noise = grain(region, (3, 3, 3), self.seed, strength=3)
        noise += tones[:, None, :] - 3  # never wraps: skies are lighter than 3 and darker than 250
        return noise


def plan_street(width: int, height: int, rng: Generator) -> Town:
    """Draws a plan of the town."""
    step = min(height * 0.74, max(150.0, between(rng, 240, 440) * max(1.0, height / 4200)))
    horizon = round(height * between(rng, 0.13, 0.24))
    terraces = tuple(
        _terrace(width, round(horizon + top), round(horizon + bottom), rng)
        for top, bottom in spans(rng, height - horizon, step * 0.85, step * 1.2)
    )
    sky = pick(rng, _COLORS.skies)
    return Town(width, height, horizon, sky, int(rng.integers(2**32)), terraces)


def _terrace(width: int, top: int, bottom: int, rng: Generator) -> Terrace:
    tall = bottom - top
    floor, kerb, verge = top + round(tall * 0.52), top + round(tall * 0.66), top + round(tall * 0.87)
    houses, storey = [], round(tall * 0.21)
    for left, right in spans(rng, width, tall * 0.32, tall * 0.75):
        if rng.random() < 0.82:
            storeys = int(rng.integers(2, 4))
            houses.append(House(round(left), round(right), floor - storeys * storey + round(storey * 0.1), storey))
    return Terrace(top, floor, kerb, verge, bottom, bool(rng.random() < 0.4), tuple(houses))


def _clouds(plan: Town, rng: Generator) -> Strokes:
    for _ in range(4 + plan.width // 500):
        x, y = between(rng, 0, plan.width), between(rng, 0, plan.horizon * 0.7)
        wide = plan.horizon * between(rng, 0.1, 0.3)
        tone = lighter(plan.sky[1], between(rng, 0.2, 0.6))
        for shift in (-0.7, -0.2, 0.3, 0.8):
            yield ellipse(x + wide * shift, y - wide * between(rng, 0, 0.15), wide * 0.6, wide * 0.22, tone)
    hill = mixed(_COLORS.grass, plan.sky[1], 0.45)
    for x in range(0, plan.width + plan.horizon, max(1, plan.horizon)):
        yield ellipse(
            x,
            plan.horizon * 1.1,
            plan.horizon * between(rng, 0.6, 1.3),
            plan.horizon * between(rng, 0.2, 0.4),
            hill,
        )


def _tree(rng: Generator, x: float, floor: float, tall: float) -> Strokes:
    leaves = pick(rng, _COLORS.leaves)
    yield rect(x - tall * 0.05, floor - tall * 0.5, x + tall * 0.05, floor, _COLORS.trunk)
    yield ellipse(x, floor - tall * 0.62, tall * 0.3, tall * 0.36, leaves)
    yield ellipse(x - tall * 0.08, floor - tall * 0.72, tall * 0.17, tall * 0.18, lighter(leaves, 0.16))


def _house(rng: Generator, house: House, row: Terrace) -> Strokes:
    wall, roof = pick(rng, _COLORS.walls), pick(rng, _COLORS.roofs)
    wide, storey = house.right - house.left, house.storey
    rise = min(storey * 0.9, wide * 0.4)
    if rng.random() < 0.75:
        inset = wide * between(rng, 0.04, 0.3)
        eaves = [(house.left - storey * 0.06, house.eaves), (house.right + storey * 0.06, house.eaves)]
        ridge = [(house.right - inset, house.eaves - rise), (house.left + inset, house.eaves - rise)]
        chimney = house.left + wide * between(rng, 0.3, 0.6)
        top = house.eaves - rise * 1.25
        yield rect(chimney, top, chimney + storey * 0.18, house.eaves, darker(wall, 0.25))
        yield polygon([*eaves, *ridge], roof)
        for share in (0.33, 0.66):
            y = house.eaves - rise * share
            yield line(
                [(house.left + inset * share, y), (house.right - inset * share, y)], storey / 50, darker(roof, 0.2)
            )
    else:
        yield rect(house.left, house.eaves - storey * 0.12, house.right, house.eaves, darker(wall, 0.3))
    yield rect(house.left, house.eaves, house.right, row.floor, wall)
    yield rect(house.right - max(1, storey * 0.04), house.eaves, house.right, row.floor, darker(wall, 0.25))
    yield rect(house.left, row.floor - storey * 0.12, house.right, row.floor, darker(wall, 0.3))
    if rng.random() < 0.4:
        yield from _bricks(rng, house, row, darker(wall, 0.12))
    yield from _openings(rng, house, row)


def _bricks(rng: Generator, house: House, row: Terrace, tone: RGB) -> Strokes:
    course = max(3.0, house.storey / 14)
    for _ in range(60):
        x = between(rng, house.left, house.right - 2 * course)
        y = house.eaves + course * int(between(rng, 0, (row.floor - house.eaves) / course - 1))
        yield rect(x, y, x + 2 * course, y + course * 0.8, tone)


def _openings(rng: Generator, house: House, row: Terrace) -> Strokes:
    storey, wide = house.storey, house.right - house.left
    number = max(1, round(wide / (storey * 0.72)))
    door, awning = int(rng.integers(number)), rng.random() < 0.25
    tones = pick(rng, _COLORS.doors), pick(rng, _COLORS.doors)
    pane = storey * 0.2
    y = row.floor - storey
    while y >= house.eaves - storey * 0.2:
        for index in range(number):
            x, ground = house.left + wide * (index + 0.5) / number, y == row.floor - storey
            if ground and index == door:
                yield rect(x - pane * 0.95, row.floor - storey * 0.78, x + pane * 0.95, row.floor, _COLORS.frame)
                yield rect(x - pane * 0.8, row.floor - storey * 0.74, x + pane * 0.8, row.floor, tones[0])
                yield rect(
                    x - pane * 0.5, row.floor - storey * 0.66, x + pane * 0.5, row.floor - storey * 0.45, _COLORS.glass
                )
            else:
                glass = _COLORS.lit if rng.random() < 0.15 else darker(_COLORS.glass, between(rng, 0, 0.35))
                yield from _window(x, y + storey * 0.42, pane, glass)
        if awning and y == row.floor - storey:
            yield from _awning(house, y + storey * 0.1, tones[1])
        y -= storey


def _window(x: float, y: float, pane: float, glass: RGB) -> Strokes:
    bar = max(1.0, pane * 0.12)
    yield rect(x - pane - bar, y - pane * 1.2 - bar, x + pane + bar, y + pane * 1.2 + bar, _COLORS.frame)
    yield rect(x - pane, y - pane * 1.2, x + pane, y + pane * 1.2, glass)
    yield rect(x - bar / 2, y - pane * 1.2, x + bar / 2, y + pane * 1.2, _COLORS.frame)
    yield rect(x - pane, y - bar / 2, x + pane, y + bar / 2, _COLORS.frame)
    yield rect(x - pane * 1.3, y + pane * 1.2 + bar, x + pane * 1.3, y + pane * 1.2 + bar * 3, _COLORS.sill)


def _awning(house: House, y: float, tone: RGB) -> Strokes:
    deep, count = house.storey * 0.2, 12
    step = (house.right - house.left) / count
    for index in range(count):
        x = house.left + step * index
        yield rect(x, y, x + step, y + deep, tone if index % 2 else _COLORS.awning)
    yield rect(house.left, y + deep, house.right, y + deep * 1.12, darker(tone, 0.3))


def _ways(plan: Town, row: Terrace, rng: Generator) -> Strokes:
    tall = row.bottom - row.top
    yield rect(0, row.floor, plan.width, row.kerb, _COLORS.pavement)
    slab = max(6.0, tall * 0.07)
    for index in range(int(plan.width / slab) + 1):
        x = index * slab
        yield line([(x, row.floor), (x - slab * 0.4, row.kerb)], tall / 400, darker(_COLORS.pavement, 0.14))
    yield line(
        [(0, (row.floor + row.kerb) / 2), (plan.width, (row.floor + row.kerb) / 2)],
        tall / 400,
        darker(_COLORS.pavement, 0.14),
    )
    way = _COLORS.water if row.canal else _COLORS.asphalt
    yield rect(0, row.kerb, plan.width, row.verge, way)
    yield rect(0, row.kerb, plan.width, row.kerb + max(1, tall * 0.012), darker(_COLORS.pavement, 0.3))
    middle, dash = (row.kerb + row.verge) / 2, tall * 0.16
    if row.canal:
        for _ in range(round(plan.width / tall * 14)):
            x, y = between(rng, 0, plan.width), between(rng, row.kerb + tall * 0.03, row.verge)
            yield rect(x, y, x + tall * between(rng, 0.03, 0.14), y + max(1, tall * 0.006), lighter(way, 0.22))
    else:
        for index in range(int(plan.width / dash / 2) + 1):
            x = 2 * index * dash
            yield rect(x, middle - tall * 0.007, x + dash, middle + tall * 0.007, _COLORS.lane_marks)
    yield rect(0, row.verge, plan.width, row.bottom, _COLORS.grass)
    for _ in range(round(plan.width / tall * 30)):
        x, y, blade = between(rng, 0, plan.width), between(rng, row.verge + tall * 0.02, row.bottom), tall * 0.02
        yield line([(x, y), (x + blade * 0.4, y - blade)], tall / 300, darker(_COLORS.grass, between(rng, 0.05, 0.3)))
    yield rect(0, row.verge, plan.width, row.verge + max(1, tall * 0.012), darker(_COLORS.pavement, 0.3))
