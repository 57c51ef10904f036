"""Kinds of things that scenes hold and questions ask about."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from vlm_envs.content.colors import CHALK, INK, RGB, darker, lighter, shade
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


_BEAK = (250, 160, 30)


def _cat(brush: Brush, style: ThingStyle) -> None:
    brush.arc(76, 46, 22, 200, 90, 9, style.color)
    brush.ellipse(52, 72, 30, 27, style.color)
    brush.rect(22, 62, 34, 99, style.color, radius=5)
    brush.rect(44, 70, 56, 99, style.color, radius=5)
    brush.polygon([(4, 2), (22, 14), (8, 30)], style.color)
    brush.polygon([(52, 2), (34, 14), (48, 30)], style.color)
    brush.disc(28, 30, 23, style.color)
    for x in (19, 37):
        brush.disc(x, 27, 5, CHALK)
        brush.disc(x, 27, 2.6, INK)
    brush.polygon([(25, 36), (31, 36), (28, 40)], shade(style.color))


def _fish(brush: Brush, style: ThingStyle) -> None:
    brush.polygon([(66, 28), (99, 2), (92, 28), (99, 56)], shade(style.color))
    brush.ellipse(38, 28, 38, 25, style.color)
    brush.polygon([(34, 4), (56, 0), (52, 14)], shade(style.color))
    brush.disc(18, 22, 6, CHALK)
    brush.disc(18, 22, 3, INK)


def _duck(brush: Brush, style: ThingStyle) -> None:
    brush.polygon([(22, 22), (0, 30), (22, 34)], _BEAK)
    brush.polygon([(70, 50), (99, 36), (92, 62)], style.color)
    brush.ellipse(58, 62, 38, 24, style.color)
    brush.disc(34, 26, 20, style.color)
    brush.rect(24, 28, 48, 58, style.color)
    brush.ellipse(64, 58, 20, 11, shade(style.color))
    brush.disc(29, 21, 4.5, CHALK)
    brush.disc(29, 21, 2.4, INK)


def _butterfly(brush: Brush, style: ThingStyle) -> None:
    for side in (-1, 1):
        brush.ellipse(50 + side * 27, 26, 23, 24, style.color)
        brush.ellipse(50 + side * 22, 62, 18, 20, style.color)
        brush.disc(50 + side * 28, 26, 9, shade(style.color))
        brush.line([(50, 14), (50 + side * 12, 2)], 4, INK)
    brush.ellipse(50, 44, 6, 34, INK)


def _snail(brush: Brush, style: ThingStyle) -> None:
    skin = (206, 176, 130)
    brush.rect(2, 58, 98, 70, skin, radius=6)
    brush.rect(4, 24, 18, 66, skin, radius=6)
    brush.line([(7, 26), (2, 6)], 5, skin)
    brush.line([(15, 26), (20, 6)], 5, skin)
    brush.disc(58, 36, 33, style.color)
    brush.ring(58, 36, 22, 7, shade(style.color))
    brush.disc(58, 36, 7, shade(style.color))


def _mushroom(brush: Brush, style: ThingStyle) -> None:
    brush.rect(32, 44, 62, 98, (238, 226, 200), radius=9)
    brush.pie(47, 52, 47, 180, 360, style.color)
    brush.rect(0, 46, 94, 58, style.color, radius=6)
    for x, y, radius in ((28, 32, 7), (56, 20, 8), (72, 40, 6)):
        brush.disc(x, y, radius, shade(style.color))


def _flower(brush: Brush, style: ThingStyle) -> None:
    green = (66, 140, 60)
    brush.line([(36, 40), (36, 98)], 7, green)
    brush.ellipse(52, 76, 15, 7, green)
    for x, y in ((36, 15), (57, 30), (49, 54), (23, 54), (15, 30)):
        brush.disc(x, y, 15, style.color)
    brush.disc(36, 36, 10, shade(style.color))


CREATURES = (
    Kind(name="cat", paint=_cat, legible_px=14, also=("kitten",)),
    Kind(name="fish", paint=_fish, height=58, plural="fish", place="water", legible_px=13),
    Kind(name="duck", paint=_duck, height=88, place="water", legible_px=13),
    Kind(name="butterfly", paint=_butterfly, height=84, plural="butterflies", place="air", legible_px=13),
    Kind(name="snail", paint=_snail, height=72, legible_px=15),
    Kind(name="mushroom", paint=_mushroom, width=94, legible_px=12),
    Kind(name="flower", paint=_flower, width=74, legible_px=14),
)
"""Every creature."""


def _mug(brush: Brush, style: ThingStyle) -> None:
    brush.ring(72, 46, 27, 11, style.color)
    brush.rect(4, 8, 72, 86, style.color, radius=9)
    brush.ellipse(38, 12, 34, 9, shade(style.color))


def _key(brush: Brush, style: ThingStyle) -> None:
    brush.ring(27, 24, 26, 13, style.color)
    brush.rect(50, 18, 99, 30, style.color)
    brush.rect(76, 28, 84, 46, style.color)
    brush.rect(90, 28, 99, 50, style.color)


def _umbrella(brush: Brush, style: ThingStyle) -> None:
    brush.line([(50, 8), (50, 86)], 6, INK)
    brush.arc(60, 84, 13, 0, 180, 6, INK)
    brush.pie(50, 52, 48, 180, 360, style.color)
    brush.pie(50, 52, 48, 240, 300, shade(style.color))
    for x in (18, 50, 82):
        brush.ellipse(x, 53, 15.5, 6, shade(style.color))
    brush.line([(50, 0), (50, 6)], 5, INK)


def _hat(brush: Brush, style: ThingStyle) -> None:
    brush.ellipse(50, 48, 49, 12, style.color)
    brush.rect(24, 4, 76, 50, style.color, radius=10)
    brush.rect(24, 32, 76, 44, shade(style.color))


def _apple(brush: Brush, style: ThingStyle) -> None:
    brush.disc(32, 60, 30, style.color)
    brush.disc(62, 60, 30, style.color)
    brush.ellipse(47, 70, 34, 29, style.color)
    brush.line([(47, 36), (52, 12)], 7, (96, 60, 30))
    brush.ellipse(69, 16, 17, 9, (74, 140, 60))


def _bell(brush: Brush, style: ThingStyle) -> None:
    brush.disc(45, 90, 10, INK)
    brush.disc(45, 10, 9, style.color)
    brush.pie(45, 40, 32, 180, 360, style.color)
    brush.polygon([(13, 39), (77, 39), (90, 84), (0, 84)], style.color)
    brush.rect(0, 76, 90, 87, shade(style.color), radius=4)


def _lamp(brush: Brush, style: ThingStyle) -> None:
    brush.line([(35, 40), (35, 92)], 7, INK)
    brush.rect(12, 90, 58, 99, INK, radius=4)
    brush.polygon([(20, 2), (50, 2), (70, 50), (0, 50)], style.color)
    brush.polygon([(20, 2), (30, 2), (23, 50), (0, 50)], shade(style.color))


def _chair(brush: Brush, style: ThingStyle) -> None:
    brush.rect(4, 0, 16, 99, style.color, radius=3)
    brush.rect(4, 48, 66, 62, style.color, radius=3)
    brush.rect(54, 56, 66, 99, style.color, radius=3)
    brush.rect(10, 8, 22, 44, shade(style.color), radius=3)


def _bottle(brush: Brush, style: ThingStyle) -> None:
    brush.rect(16, 2, 30, 34, style.color)
    brush.rect(14, 0, 32, 10, shade(style.color))
    brush.rect(2, 32, 44, 99, style.color, radius=10)
    brush.rect(8, 56, 38, 80, lighter(style.color, 0.75))


def _candle(brush: Brush, style: ThingStyle) -> None:
    brush.ellipse(20, 15, 9, 15, (255, 190, 50))
    brush.rect(5, 34, 35, 99, style.color, radius=3)
    brush.line([(20, 26), (20, 36)], 4, INK)
    brush.rect(5, 34, 15, 58, shade(style.color), radius=3)


def _guitar(brush: Brush, style: ThingStyle) -> None:
    brush.rect(20, 4, 28, 60, darker(style.color, 0.5))
    brush.rect(17, 0, 31, 13, INK)
    brush.disc(24, 54, 16, style.color)
    brush.disc(24, 76, 23, style.color)
    brush.disc(24, 64, 8, INK)
    brush.rect(14, 82, 34, 87, INK)


def _crown(brush: Brush, style: ThingStyle) -> None:
    brush.polygon([(4, 70), (0, 14), (26, 42), (50, 4), (74, 42), (100, 14), (96, 70)], style.color)
    brush.rect(4, 58, 96, 70, shade(style.color))
    for x, y in ((4, 13), (50, 7), (96, 13)):
        brush.disc(x, y, 6, shade(style.color))


def _tray(brush: Brush, style: ThingStyle) -> None:
    brush.rect(0, 0, 100, 74, style.color, radius=14)
    brush.rect(8, 8, 92, 66, lighter(style.color, 0.7), radius=9)


def _crate(brush: Brush, style: ThingStyle) -> None:
    brush.rect(0, 0, 100, 84, style.color)
    brush.rect(11, 13, 89, 71, (226, 204, 164))
    for y in (27, 42, 57):
        brush.rect(11, y - 1, 89, y + 1, (196, 168, 124))
    for x in (0, 89):
        brush.rect(x, 0, x + 11, 84, shade(style.color))


GOODS = (
    Kind(name="mug", paint=_mug, height=88, also=("cup",), legible_px=11),
    Kind(name="key", paint=_key, height=52, legible_px=14, place="wall"),
    Kind(name="umbrella", paint=_umbrella, legible_px=13),
    Kind(name="hat", paint=_hat, height=62, legible_px=13),
    Kind(name="apple", paint=_apple, width=94, legible_px=11),
    Kind(name="bell", paint=_bell, width=90, legible_px=13, turns=False),
    Kind(name="lamp", paint=_lamp, width=70, legible_px=13),
    Kind(name="chair", paint=_chair, width=70, legible_px=14),
    Kind(name="bottle", paint=_bottle, width=46, legible_px=13),
    Kind(name="candle", paint=_candle, width=40, legible_px=14),
    Kind(name="guitar", paint=_guitar, width=48, legible_px=16),
    Kind(name="crown", paint=_crown, height=72, legible_px=12),
)
"""Things that questions ask about."""

HOLDERS = (
    Kind(name="tray", paint=_tray, height=74, legible_px=24, turns=False, holds=(12, 11, 88, 63)),
    Kind(name="crate", paint=_crate, height=84, legible_px=24, turns=False, holds=(14, 15, 86, 69)),
)
"""Things that hold others."""


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


KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (*GOODS, *HOLDERS, *CREATURES, *OUTDOORS)}
"""Every kind by its noun."""

PLAIN_KINDS = tuple(kind.name for kind in (*GOODS, *CREATURES, *OUTDOORS) if kind.name not in ("clock", "sign"))
"""Kinds that are told apart by colour alone."""

HOLDER_KINDS = tuple(kind.name for kind in HOLDERS)
"""Kinds that others may lie in."""
