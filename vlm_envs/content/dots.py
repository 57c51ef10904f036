"""Questions about the dot on a block: too small to be seen on the board as a small model is shown it, plain enlarged.

A board is 448 pixels a side and has four columns of four cells. In one cell lies a block, in the middle of the block is
a dot of another colour. Shown at 112 pixels a cell is what one visual token sees, and the dot is two pixels wide.
Boards are of many shades, and blocks of many sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vlm_envs.content.blocks import BLOCK_COLORS
from vlm_envs.content.scenes.colors import COLORS
from vlm_envs.content.seeded import SeededSource
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.tools.coordinates import Box, OriginalPixels, Point
from vlm_envs.tools.pictures import Picture

NUM_CELLS = 4
"""Columns of a board, and rows."""

CELL_PX, DOT_PX = 112, 8
"""Sides of a cell and of a dot, which is square."""

BLOCK_PX = 80, 108
"""Least and largest side of a block; sides are even."""

SHADES = 200, 240
"""Least and largest red, green and blue of a board."""

QUESTION = "What colour is the dot on the block?"

_SIDE_PX = NUM_CELLS * CELL_PX


def dotted_blocks() -> SeededSource:
    """Returns questions of the colour of the dot on a block."""
    return SeededSource("dots", digest=lambda seed: _block(seed).digest, sample=_sample)


@dataclass(frozen=True)
class _DottedBlock:
    color: str
    dot: str
    column: int
    row: int
    side_px: int
    shade: tuple[int, int, int]

    @property
    def middle(self) -> tuple[int, int]:
        return self.column * CELL_PX + CELL_PX // 2, self.row * CELL_PX + CELL_PX // 2

    @property
    def digest(self) -> str:
        return f"{self.dot} dot,{self.color} block,{self.column},{self.row},{self.side_px},{self.shade}"


def _sample(seed: int) -> Sample:
    block = _block(seed)
    (x, y), space = block.middle, OriginalPixels(_SIDE_PX, _SIDE_PX)
    radius = DOT_PX // 2
    return Sample(
        sample_id=f"dots:{seed}",
        question=QUESTION,
        key=AnswerKey(kind="exact", answers=(block.dot,), question=QUESTION),
        category="attribute",
        digest=block.digest,
        images=(_drawn(block),),
        evidence=(
            Evidence(
                label=f"{block.dot} dot",
                box=Box(x - radius, y - radius, x + radius, y + radius, space),
                point=Point(x, y, space),
            ),
        ),
        facts=f"The dot on the block is {block.dot}.",
    )


def _block(seed: int) -> _DottedBlock:
    rng = np.random.default_rng(seed)
    color, dot = rng.permutation(len(BLOCK_COLORS))[:2].tolist()
    column, row = rng.integers(NUM_CELLS, size=2).tolist()
    red, green, blue = rng.integers(SHADES[0], SHADES[1] + 1, size=3).tolist()
    return _DottedBlock(
        color=BLOCK_COLORS[color],
        dot=BLOCK_COLORS[dot],
        column=column,
        row=row,
        side_px=2 * int(rng.integers(BLOCK_PX[0] // 2, BLOCK_PX[1] // 2 + 1)),
        shade=(red, green, blue),
    )


def _drawn(block: _DottedBlock) -> Picture:
    pixels = np.empty((_SIDE_PX, _SIDE_PX, 3), np.uint8)
    pixels[:] = block.shade
    for side, color in ((block.side_px, block.color), (DOT_PX, block.dot)):
        left, top = (place - side // 2 for place in block.middle)
        pixels[top : top + side, left : left + side] = COLORS[color]
    return Picture(pixels)
