"""Questions about the dot on a block: invisible on the board as a small model sees it, clear when enlarged.

A board is 448 pixels on a side and has four columns of four cells. One cell contains a block with a dot of
another color at its center. Shown at 112 pixels, a cell is one visual token and the dot is two pixels wide.
Board shades and block sizes vary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vlm_envs.content.blocks import BLOCK_COLORS, LoneBlock, lone_block, part
from vlm_envs.content.colors import COLORS
from vlm_envs.content.seeded import SeededSource, exact
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.tools.pictures import Picture

CELL_PX, DOT_PX = 112, 8
"""Sides of a cell and of the dot, which is square."""

BLOCK_PX = 80, 108
"""Smallest and largest side of a block; sides are even."""

QUESTION = "What colour is the dot on the block?"


def dotted_blocks() -> SeededSource:
    """Returns questions about the color of the dot on a block."""
    return SeededSource("dots", digest=lambda seed: _block(seed).digest, sample=_sample)


@dataclass(frozen=True)
class _DottedBlock:
    color: str
    dot: str
    block: LoneBlock

    @property
    def digest(self) -> str:
        return f"{self.dot} dot,{self.color} block,{self.block.digest}"


def _sample(seed: int) -> Sample:
    dotted = _block(seed)
    return Sample(
        sample_id=f"dots:{seed}",
        question=QUESTION,
        key=exact(QUESTION, dotted.dot),
        category="attribute",
        digest=dotted.digest,
        images=(_drawn(dotted),),
        evidence=(Evidence(label=f"{dotted.dot} dot", box=dotted.block.in_middle(DOT_PX), point=dotted.block.middle),),
        facts=f"The dot on the block is {dotted.dot}.",
    )


def _block(seed: int) -> _DottedBlock:
    rng = np.random.default_rng(seed)
    color, dot = rng.permutation(len(BLOCK_COLORS))[:2].tolist()
    return _DottedBlock(BLOCK_COLORS[color], BLOCK_COLORS[dot], lone_block(rng, CELL_PX, BLOCK_PX))


def _drawn(dotted: _DottedBlock) -> Picture:
    pixels = dotted.block.drawn(COLORS[dotted.color])
    part(pixels, dotted.block.in_middle(DOT_PX))[:] = COLORS[dotted.dot]
    return Picture(pixels)
