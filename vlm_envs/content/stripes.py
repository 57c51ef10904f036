"""Questions about the stripes on a block, which vanish on the board as shown but are clear when enlarged.

A board is 896 pixels on a side and has four columns of four cells. One cell contains a block of some dull
color with vertical stripes in its middle. Shown at 112 pixels, a cell is one visual token. A stripe and the
ground next to it then fall into one pixel, whose mean is the block's color: boards that differ only in their
stripes look identical, to the last bit. Measuring the shown image can therefore reveal a dot, but not
stripes. In a 64-pixel crop shown at 112 pixels, a stripe and its ground are 14 pixels wide, the size of a
patch.

Three properties make the stripes vanish exactly:

- A stripe lies in the middle of its ground: of eight columns, two are three steps off the block's color and
  six are one step off in the other direction, so every row sums to the block's color. Dull blocks leave
  headroom on both sides.
- Contrast fades to the left and right by `FADE`. If stripes ended abruptly, Lanczos resampling would leave up
  to three levels of 255; with the fade, a third of a level remains, which rounding removes.
- Stripes keep six shown pixels away from the left and right edges of the block: edges and stripes are blurred
  over three pixels each. Where levels are fractional, a third of a level could change the rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vlm_envs.content.blocks import BLOCK_COLORS, LoneBlock, lone_block, part
from vlm_envs.content.colors import COLORS, RGB
from vlm_envs.content.seeded import SeededSource, exact
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.tools.pictures import Picture, PixelArray

CELL_PX, EVIDENCE_PX = 224, 32
"""Sides of a cell and of the evidence square in the middle of the stripes; a crop is twice as wide as the latter."""

BLOCK_PX = 192, 216
"""Smallest and largest side of a block; sides are even."""

STRIPES_PX = 96
"""Side of the square of stripes."""

DULL = 104, 152
"""Smallest and largest red, green, and blue values of a block."""

STEPS = np.array((-1, -1, -1, 3, 3, -1, -1, -1))
"""Offset of each column of a stripe and its ground from the block's color, in steps of contrast."""

FADE = 0.16, 0.48, 0.76, 0.92
"""Relative contrast of the outermost stripes on either side, from the outside in; leaves the smallest residue."""

QUESTION = "What colour are the narrow stripes on the block?"

_NUM_PLAIN = STRIPES_PX // len(STEPS) - 2 * len(FADE)
_CONTRASTS = np.array((*FADE, *[1.0] * _NUM_PLAIN, *reversed(FADE)))


def striped_blocks() -> SeededSource:
    """Returns questions about the color of the stripes on a block."""
    return SeededSource("stripes", digest=lambda seed: _block(seed).digest, sample=_sample)


@dataclass(frozen=True)
class _StripedBlock:
    stripes: str
    color: RGB
    block: LoneBlock

    @property
    def digest(self) -> str:
        return f"{self.stripes} stripes,{self.color} block,{self.block.digest}"


def _sample(seed: int) -> Sample:
    striped = _block(seed)
    evidence = Evidence(
        label=f"{striped.stripes} stripes",
        box=striped.block.in_middle(EVIDENCE_PX),
        point=striped.block.middle,
    )
    return Sample(
        sample_id=f"stripes:{seed}",
        question=QUESTION,
        key=exact(QUESTION, striped.stripes),
        category="attribute",
        digest=striped.digest,
        images=(_drawn(striped),),
        evidence=(evidence,),
        facts=f"The stripes on the block are {striped.stripes}.",
    )


def _block(seed: int) -> _StripedBlock:
    rng = np.random.default_rng(seed)
    stripes = BLOCK_COLORS[rng.integers(len(BLOCK_COLORS))]
    red, green, blue = rng.integers(DULL[0], DULL[1] + 1, size=3).tolist()
    return _StripedBlock(stripes, (red, green, blue), lone_block(rng, CELL_PX, BLOCK_PX))


def _drawn(striped: _StripedBlock) -> Picture:
    pixels = striped.block.drawn(striped.color)
    part(pixels, striped.block.in_middle(STRIPES_PX))[:] = _row(striped)
    return Picture(pixels)


def _row(striped: _StripedBlock) -> PixelArray:
    """Returns one row of stripes, uint8[W, 3]; full-contrast stripes are within one level of the named color."""
    color = np.array(striped.color)
    contrast = np.rint((COLORS[striped.stripes] - color) / STEPS.max())
    steps = np.rint(_CONTRASTS[:, None, None] * contrast) * STEPS[:, None]
    row: PixelArray = (color + steps.reshape(-1, 3)).astype(np.uint8)
    return row
