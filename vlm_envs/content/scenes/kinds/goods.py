"""Things of the household: vessels, tools, clothing, fruit."""

from __future__ import annotations

from vlm_envs.content.colors import darker, lighter
from vlm_envs.content.scenes.brush import Brush
from vlm_envs.content.scenes.colors import INK, shade
from vlm_envs.content.scenes.kinds.kind import Kind, ThingStyle


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
