"""Colours by the names that instructions use."""

from __future__ import annotations

from collections.abc import Mapping

from vlm_envs.content.colors import RGB

COLORS: Mapping[str, RGB] = {
    "red": (200, 44, 44),
    "orange": (235, 134, 36),
    "yellow": (240, 205, 60),
    "green": (62, 148, 74),
    "blue": (48, 96, 190),
    "purple": (126, 70, 158),
    "pink": (234, 140, 172),
    "brown": (128, 82, 48),
    "oak": (188, 142, 92),
    "white": (240, 240, 236),
    "grey": (142, 146, 152),
    "black": (48, 48, 54),
    "turquoise": (54, 172, 170),
    "cream": (238, 222, 184),
    "gold": (212, 168, 60),
}
"""What a thing may be painted in: name to sRGB, 0 to 255."""

WALLS: Mapping[str, RGB] = {
    "chalk": (222, 220, 212),
    "sand": (222, 204, 172),
    "sage": (186, 202, 178),
    "sky": (184, 204, 222),
    "rose": (224, 194, 190),
    "lilac": (204, 194, 220),
    "lemon": (230, 222, 172),
}
"""Wall paints: paler than any thing, so that things stand out."""

FLOORS: Mapping[str, tuple[RGB, RGB]] = {
    "light_planks": ((192, 158, 116), (182, 146, 104)),
    "dark_planks": ((136, 98, 66), (126, 90, 60)),
    "grey_planks": ((164, 158, 150), (154, 148, 140)),
    "white_tiles": ((206, 208, 210), (186, 190, 194)),
    "blue_tiles": ((168, 186, 202), (148, 166, 184)),
    "green_carpet": ((132, 146, 120), (128, 142, 116)),
    "beige_carpet": ((190, 176, 152), (186, 172, 148)),
}
"""Floors: the two colours their planks, tiles or stripes alternate between."""

WOOD: RGB = (164, 116, 70)
DARK_WOOD: RGB = (104, 70, 44)
STEEL: RGB = (180, 184, 190)
IRON: RGB = (84, 86, 92)
BLACK: RGB = (34, 34, 38)
WHITE: RGB = (244, 244, 242)
PAPER: RGB = (236, 230, 212)
GLASS: RGB = (172, 212, 236)
SCREEN: RGB = (40, 66, 104)
WATER: RGB = (150, 204, 228)
LEAF: RGB = (58, 138, 62)
LIGHT: RGB = (255, 240, 176)
FLAME: RGB = (255, 176, 40)
CEILING: RGB = (236, 236, 232)
TRIM: RGB = (246, 244, 238)
