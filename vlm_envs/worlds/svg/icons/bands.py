"""Icons by difficulty, from one shape to a picture of curved paths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vlm_envs.errors import ConfigError
from vlm_envs.worlds.svg.icons.curved import CURVED
from vlm_envs.worlds.svg.icons.pen import Pen, pick_colors
from vlm_envs.worlds.svg.icons.plain import few_shapes, one_shape
from vlm_envs.worlds.svg.icons.things import THINGS
from vlm_envs.worlds.svg.icons.turning import TURNING

Motif = Callable[[np.random.Generator, Pen], None]

BANDS: dict[int, tuple[Motif, ...]] = {
    1: (one_shape,),
    2: (few_shapes,),
    3: THINGS,
    4: TURNING,
    5: CURVED,
}
"""What each band draws: 1 one shape; 2 two or three shapes; 3 things of plain shapes with strokes; 4 turned, mirrored
and repeated groups; 5 curved paths, some on a badge."""

MIXED = "mixed"
_BADGE_SHARE = 0.25


def check_difficulty(difficulty: object) -> int | str:
    """Returns a difficulty, 1 to 5 or `"mixed"`; raises `ConfigError` for anything else."""
    if difficulty == MIXED or (
        isinstance(difficulty, int) and not isinstance(difficulty, bool) and difficulty in BANDS
    ):
        return difficulty
    raise ConfigError(f"difficulty must be 1, 2, 3, 4, 5 or 'mixed'; got {difficulty!r}.")


def draw_icon(rng: np.random.Generator, difficulty: int | str) -> str:
    """Returns the markup of a random icon of a difficulty, 1 to 5 or `"mixed"`, with `viewBox="0 0 64 64"`.

    It has about 80 characters in band 1, up to 900 in bands 4 and 5.
    """
    band = int(rng.integers(1, len(BANDS) + 1)) if isinstance(difficulty, str) else difficulty
    motifs = BANDS[band]
    motif = motifs[rng.integers(len(motifs))]
    if band <= 2:
        pen = Pen()
    elif band == 5 and rng.random() < _BADGE_SHARE:
        pen = _badge(rng)
    else:
        pen = Pen.somewhere(rng)
    motif(rng, pen)
    return pen.markup()


def _badge(rng: np.random.Generator) -> Pen:
    """Returns a pen that draws inside a badge, which it has drawn already."""
    sheet = Pen()
    (color,) = pick_colors(rng, 1)
    paint = sheet.outline(color, 3, fill=("white", "ivory", "lavender", "mintcream")[rng.integers(4)])
    if rng.random() < 0.5:
        sheet.circle(32, 32, 30, paint)
    else:
        sheet.rect(2, 2, 60, 60, paint, rx=10)
    pen = Pen(scale=0.625, offset=(12, 12))
    pen.elements += sheet.elements
    return pen
