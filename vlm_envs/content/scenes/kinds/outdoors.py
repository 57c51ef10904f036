"""Vehicles, toys and what flies."""

from __future__ import annotations

import math

from vlm_envs.content.scenes.brush import Brush
from vlm_envs.content.scenes.colors import CHALK, INK, shade
from vlm_envs.content.scenes.kinds.kind import Kind, ThingStyle

_GLASS = (190, 224, 242)


def _kite(brush: Brush, style: ThingStyle) -> None:
    brush.polygon([(44, 0), (84, 28), (44, 70), (4, 28)], style.color)
    brush.polygon([(44, 0), (84, 28), (44, 28)], shade(style.color))
    brush.polygon([(44, 28), (44, 70), (4, 28)], shade(style.color))
    brush.line([(44, 70), (34, 80), (50, 88), (40, 97)], 4, INK)


def _boat(brush: Brush, style: ThingStyle) -> None:
    brush.line([(48, 4), (48, 68)], 5, INK)
    brush.polygon([(53, 6), (53, 60), (94, 60)], style.color)
    brush.polygon([(43, 14), (43, 60), (12, 60)], shade(style.color))
    brush.polygon([(0, 66), (100, 66), (82, 94), (18, 94)], style.color)


def _bicycle(brush: Brush, style: ThingStyle) -> None:
    for x in (20, 80):
        brush.ring(x, 46, 20, 5, INK)
    frame = [(20, 46), (36, 20), (68, 20), (46, 46), (20, 46)]
    brush.line(frame, 6, style.color)
    brush.line([(33, 12), (46, 46)], 6, style.color)
    brush.line([(64, 6), (80, 46)], 6, style.color)
    brush.line([(26, 9), (40, 9)], 6, INK)
    brush.line([(64, 5), (76, 4)], 5, INK)


def _car(brush: Brush, style: ThingStyle) -> None:
    brush.polygon([(20, 26), (32, 2), (68, 2), (84, 26)], style.color)
    brush.polygon([(28, 24), (36, 8), (48, 8), (48, 24)], _GLASS)
    brush.polygon([(53, 8), (65, 8), (75, 24), (53, 24)], _GLASS)
    brush.rect(0, 22, 100, 46, style.color, radius=8)
    for x in (24, 76):
        brush.disc(x, 45, 12, INK)
        brush.disc(x, 45, 5, (170, 172, 178))


def _balloon(brush: Brush, style: ThingStyle) -> None:
    brush.line([(30, 68), (36, 80), (26, 88), (31, 99)], 3.5, INK)
    brush.ellipse(30, 34, 30, 34, style.color)
    brush.polygon([(30, 64), (38, 75), (22, 75)], style.color)
    brush.ellipse(19, 20, 6, 10, shade(style.color))


def _ball(brush: Brush, style: ThingStyle) -> None:
    brush.disc(50, 50, 49, style.color)
    brush.arc(10, 50, 40, 290, 70, 7, shade(style.color))
    brush.arc(90, 50, 40, 110, 250, 7, shade(style.color))


def _star(brush: Brush, style: ThingStyle) -> None:
    points = []
    for index in range(10):
        radius = 50 if index % 2 == 0 else 20
        angle = math.radians(36 * index - 90)
        points.append((50 + radius * math.cos(angle), 52 + radius * math.sin(angle)))
    brush.polygon(points, style.color)


def _rocket(brush: Brush, style: ThingStyle) -> None:
    brush.polygon([(14, 82), (25, 99), (36, 82)], (255, 170, 40))
    brush.polygon([(12, 50), (0, 84), (14, 78)], shade(style.color))
    brush.polygon([(38, 50), (50, 84), (36, 78)], shade(style.color))
    brush.polygon([(25, 0), (40, 30), (40, 82), (10, 82), (10, 30)], style.color)
    brush.disc(25, 38, 8, _GLASS)


def _anchor(brush: Brush, style: ThingStyle) -> None:
    brush.ring(42, 13, 13, 7, style.color)
    brush.rect(37, 22, 47, 92, style.color)
    brush.rect(18, 32, 66, 42, style.color)
    brush.arc(42, 56, 40, 10, 170, 10, style.color)
    brush.polygon([(0, 48), (16, 66), (0, 74)], style.color)
    brush.polygon([(84, 48), (68, 66), (84, 74)], style.color)


def _flag(brush: Brush, style: ThingStyle) -> None:
    brush.rect(2, 0, 9, 99, INK)
    brush.polygon([(9, 4), (40, 10), (76, 4), (76, 50), (40, 56), (9, 50)], style.color)


def _clock(brush: Brush, style: ThingStyle) -> None:
    brush.disc(50, 50, 50, style.color)
    brush.disc(50, 50, 39, CHALK)
    for hour in range(0, 12, 3):
        angle = math.radians(30 * hour - 90)
        brush.disc(50 + 34 * math.cos(angle), 50 + 34 * math.sin(angle), 2.6, INK)
    for turn, length, width in ((style.minutes / 720, 19, 8.5), (style.minutes % 60 / 60, 35, 4.5)):
        angle = math.radians(360 * turn - 90)
        tip = (50 + length * math.cos(angle), 50 + length * math.sin(angle))
        brush.line([(50, 50), tip], width, INK)


def _sign(brush: Brush, style: ThingStyle) -> None:
    brush.rect(46, 50, 54, 80, (110, 112, 116))
    brush.rect(0, 0, 100, 56, style.color, radius=6)
    brush.rect(5, 6, 95, 50, CHALK, radius=3)
    brush.text(9, 10, 91, 46, style.text, INK)


OUTDOORS = (
    Kind(name="kite", paint=_kite, width=88, place="air", legible_px=12),
    Kind(name="boat", paint=_boat, height=94, place="water", legible_px=12, also=("ship", "sailboat")),
    Kind(name="bicycle", paint=_bicycle, height=67, legible_px=17, also=("bike",)),
    Kind(name="car", paint=_car, height=58, legible_px=13, also=("automobile",)),
    Kind(name="balloon", paint=_balloon, width=60, place="air", legible_px=12),
    Kind(name="ball", paint=_ball, legible_px=9),
    Kind(name="star", paint=_star, place="air", legible_px=10, turns=False),
    Kind(name="rocket", paint=_rocket, width=50, place="air", legible_px=13, turns=False),
    Kind(name="anchor", paint=_anchor, width=84, place="water", legible_px=14, turns=False),
    Kind(name="flag", paint=_flag, width=78, legible_px=10),
    Kind(name="clock", paint=_clock, place="wall", legible_px=14, turns=False),
    Kind(name="sign", paint=_sign, height=80, legible_px=16, also=("signboard",), turns=False),
)
"""Everything of out of doors, clocks and signs."""
