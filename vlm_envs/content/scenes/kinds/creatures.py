"""Animals and plants."""

from __future__ import annotations

from vlm_envs.content.scenes.brush import Brush
from vlm_envs.content.scenes.colors import CHALK, INK, shade
from vlm_envs.content.scenes.kinds.kind import Kind, ThingStyle

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
