"""Questions about the direction a block slides in: clips that the smallest models can learn to see in minutes.

A clip has four frames of 112 pixels on a side, half a second apart. A block lies in one of the four quarters
and slides into an adjacent one between two of the frames. Shown at 56 pixels, a quarter is one visual token.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vlm_envs.content.blocks import BLOCK_COLORS
from vlm_envs.content.colors import COLORS
from vlm_envs.content.seeded import SeededSource, exact
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.tools.coordinates import Box, OriginalPixels, Point
from vlm_envs.tools.pictures import Picture

NUM_FRAMES = 4
"""Frames of a clip."""

CELL_PX = 56
"""Side of a quarter."""

BLOCK_PX = 40, 54
"""Smallest and largest side of a block; sides are even."""

SHADES = 200, 240
"""Smallest and largest red, green, and blue values of a board."""

WAYS = ("left", "right", "up", "down")
"""Directions a block may slide in."""

QUESTION = "Which way does the block slide?"

_SECONDS_A_FRAME = 0.5


def sliding_blocks() -> SeededSource:
    """Returns questions about the direction a block slides in."""
    return SeededSource("slides", digest=lambda seed: _slide(seed).digest, sample=_sample)


@dataclass(frozen=True)
class _Slide:
    color: str
    way: str
    across: int
    last_before: int
    side_px: int
    shade: tuple[int, int, int]

    @property
    def digest(self) -> str:
        return f"slide {self.way},{self.across},{self.last_before},{self.color},{self.side_px},{self.shade}"

    def cell(self, frame: int) -> tuple[int, int]:
        """Returns the block's column and row in a frame, from 0."""
        there = frame > self.last_before
        along = int(there) if self.way in ("right", "down") else int(not there)
        return (along, self.across) if self.way in ("left", "right") else (self.across, along)

    def box(self, frame: int, space: OriginalPixels) -> Box[OriginalPixels]:
        left, top = (cell * CELL_PX + (CELL_PX - self.side_px) // 2 for cell in self.cell(frame))
        return Box(left, top, left + self.side_px, top + self.side_px, space)

    def quarter(self, frame: int) -> str:
        column, row = self.cell(frame)
        return f"{('upper', 'lower')[row]} {('left', 'right')[column]}"


def _sample(seed: int) -> Sample:
    slide = _slide(seed)
    space = OriginalPixels(2 * CELL_PX, 2 * CELL_PX)
    ends = [(frame, slide.box(frame, space)) for frame in (0, NUM_FRAMES - 1)]
    return Sample(
        sample_id=f"slides:{seed}",
        question=QUESTION,
        key=exact(QUESTION, slide.way),
        category="motion",
        digest=slide.digest,
        images=tuple(_drawn(slide, frame) for frame in range(NUM_FRAMES)),
        times_s=tuple(_SECONDS_A_FRAME * frame for frame in range(NUM_FRAMES)),
        evidence=tuple(
            Evidence(
                label=f"{slide.color} block",
                box=box,
                point=Point(int(box.x1 + box.x2) // 2, int(box.y1 + box.y2) // 2, space),
                image=frame,
            )
            for frame, box in ends
        ),
        facts=f"From the {slide.quarter(0)} to the {slide.quarter(NUM_FRAMES - 1)} quarter: {slide.way}.",
    )


def _slide(seed: int) -> _Slide:
    rng = np.random.default_rng(seed)
    red, green, blue = rng.integers(SHADES[0], SHADES[1] + 1, size=3).tolist()
    return _Slide(
        color=BLOCK_COLORS[rng.integers(len(BLOCK_COLORS))],
        way=WAYS[rng.integers(len(WAYS))],
        across=int(rng.integers(2)),
        last_before=int(rng.integers(NUM_FRAMES - 1)),
        side_px=2 * int(rng.integers(BLOCK_PX[0] // 2, BLOCK_PX[1] // 2 + 1)),
        shade=(red, green, blue),
    )


def _drawn(slide: _Slide, frame: int) -> Picture:
    side = 2 * CELL_PX
    pixels = np.empty((side, side, 3), np.uint8)
    pixels[:] = slide.shade
    box = slide.box(frame, OriginalPixels(side, side))
    pixels[int(box.y1) : int(box.y2), int(box.x1) : int(box.x2)] = COLORS[slide.color]
    return Picture(pixels)
