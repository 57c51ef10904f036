"""Questions about the stripes on a block: nothing of them is left of the board as it is shown, plain enlarged.

A board is 896 pixels a side and has four columns of four cells. In one cell lies a block of some dull colour, in the
middle of the block upright stripes. Shown at 112 pixels a cell is what one visual token sees. A stripe and the ground
beside it are one pixel then, and their mean is the block's colour: boards that differ in stripes alone are shown the
same, to the last bit. A dot can be found by who measures, stripes cannot. In a crop of 64 pixels, shown at 112, a
stripe and its ground are 14 pixels, which is a patch.

For nothing to be left, three things are as they are:

- A stripe lies in the middle of its ground: of eight columns two are three steps off the block's colour, and six are
  one step off to the other side. So sums are exact, in each row. Blocks are dull for there to be room on both sides.
- Contrast fades to the left and to the right by `FADE`. Where stripes end at once, Lanczos resampling leaves up to
  three levels of 255; so it leaves a third of one, which is rounded away.
- Stripes keep six shown pixels off the left and right of the block: edges and stripes are blurred over three each.
  Where levels are not whole, a third of one may tip the balance.
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
"""Sides of a cell and of the square in the middle of the stripes that has to be seen: a crop is twice as wide."""

BLOCK_PX = 192, 216
"""Least and largest side of a block; sides are even."""

STRIPES_PX = 96
"""Side of the square of stripes."""

DULL = 104, 152
"""Least and largest red, green and blue of a block."""

STEPS = np.array((-1, -1, -1, 3, 3, -1, -1, -1))
"""What a stripe and its ground are off the block's colour, column by column, in steps of contrast."""

FADE = 0.16, 0.48, 0.76, 0.92
"""Contrast of the outermost stripes to either side, from without, by that of the others: what leaves least of them."""

QUESTION = "What colour are the narrow stripes on the block?"

_NUM_PLAIN = STRIPES_PX // len(STEPS) - 2 * len(FADE)
_CONTRASTS = np.array((*FADE, *[1.0] * _NUM_PLAIN, *reversed(FADE)))


def striped_blocks() -> SeededSource:
    """Returns questions of the colour of the stripes on a block."""
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
    """Returns uint8[W, 3], a row; stripes of full contrast are within a level of the colour that is named."""
    color = np.array(striped.color)
    contrast = np.rint((COLORS[striped.stripes] - color) / STEPS.max())
    steps = np.rint(_CONTRASTS[:, None, None] * contrast) * STEPS[:, None]
    row: PixelArray = (color + steps.reshape(-1, 3)).astype(np.uint8)
    return row
