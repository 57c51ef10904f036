"""Questions about a few coloured blocks on a board: what the smallest models can learn to see in minutes.

A board is 112 pixels a side and has four columns of four cells; in some columns a block lies somewhere within one cell.
With patches of 14 pixels, two by two a token, a cell is what one visual token sees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from vlm_envs.content.colors import COLORS, RGB
from vlm_envs.content.seeded import draw_seed
from vlm_envs.errors import LevelError
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.splits import split_of
from vlm_envs.tools.coordinates import Box, OriginalPixels, Point
from vlm_envs.tools.pictures import Picture, PixelArray

NUM_CELLS = 4
"""Columns of a board, and rows."""

SHADES = 200, 240
"""Least and largest red, green and blue of a board."""


@dataclass(frozen=True)
class LoneBlock:
    """A block on a board.

    Attributes:
        cell_px: Side of a cell, even.
        column: Of the block's cell, from 0.
        row: Likewise.
        side_px: Side of the block, even.
        shade: Colour of the board.
    """

    cell_px: int
    column: int
    row: int
    side_px: int
    shade: RGB

    @property
    def space(self) -> OriginalPixels:
        """The board's pixels."""
        return OriginalPixels(NUM_CELLS * self.cell_px, NUM_CELLS * self.cell_px)

    @property
    def middle(self) -> Point[OriginalPixels]:
        """Middle of the block."""
        x, y = (cell * self.cell_px + self.cell_px // 2 for cell in (self.column, self.row))
        return Point(x, y, self.space)

    @property
    def digest(self) -> str:
        """What tells it from others on boards of the same size."""
        return f"{self.column},{self.row},{self.side_px},{self.shade}"

    def in_middle(self, side_px: int) -> Box[OriginalPixels]:
        """Returns the square of an even side about the block's middle."""
        (x, y), radius = (self.middle.x, self.middle.y), side_px // 2
        return Box(x - radius, y - radius, x + radius, y + radius, self.space)

    def drawn(self, color: RGB) -> PixelArray:
        """Returns uint8[H, W, 3], the board with the block in a colour."""
        pixels = np.empty((self.space.height, self.space.width, 3), np.uint8)
        pixels[:] = np.full((self.space.width, 3), self.shade)  # row by row, which is faster than pixel by pixel
        part(pixels, self.in_middle(self.side_px))[:] = color
        return pixels


def lone_block(rng: np.random.Generator, cell_px: int, block_px: tuple[int, int]) -> LoneBlock:
    """Draws a block.

    Args:
        rng: The only source of chance.
        cell_px: Side of a cell, even.
        block_px: Least and largest side of a block, even.
    """
    column, row = rng.integers(NUM_CELLS, size=2).tolist()
    red, green, blue = rng.integers(SHADES[0], SHADES[1] + 1, size=3).tolist()
    side_px = 2 * int(rng.integers(block_px[0] // 2, block_px[1] // 2 + 1))
    return LoneBlock(cell_px, column, row, side_px, (red, green, blue))


def part(pixels: PixelArray, box: Box[OriginalPixels]) -> PixelArray:
    """Returns the pixels of a box of whole numbers, which may be written to."""
    return pixels[int(box.y1) : int(box.y2), int(box.x1) : int(box.x2)]


Asks = Literal["count", "leftmost"]

CELL_PX, BLOCK_PX = 28, 20
"""Sides of a cell and of a block."""

BLOCK_COLORS = ("red", "green", "blue", "yellow", "purple", "orange")
"""Colours of blocks."""

_BOARD_RGB = np.array((226, 222, 214))
_NUMBERS = ("no", "one", "two", "three", "four")
_ID = re.compile(r"blocks:(count|leftmost):(\d{1,19})(?::said:(\d))?", flags=re.ASCII)


def counted_blocks() -> BlockSource:
    """Returns questions of how many blocks there are."""
    return BlockSource("count")


def leftmost_blocks() -> BlockSource:
    """Returns questions of the colour of the block furthest to the left."""
    return BlockSource("leftmost")


def mistaken_counts() -> BlockSource:
    """Returns questions of how many blocks there are whose answers are wrong in six of ten cases, for imitation."""
    return BlockSource("count", mistake_rate=0.6)


def mistaken_blocks() -> BlockSource:
    """Returns questions of the leftmost block which take another one for it in half of the cases, for imitation.

    Where there is but one, it is that one; so of all answers some seven in ten are right.
    """
    return BlockSource("leftmost", mistake_rate=0.5)


@dataclass(frozen=True)
class _Block:
    color: str
    x: int
    y: int

    @property
    def box(self) -> Box[OriginalPixels]:
        space = OriginalPixels(NUM_CELLS * CELL_PX, NUM_CELLS * CELL_PX)
        return Box(self.x, self.y, self.x + BLOCK_PX, self.y + BLOCK_PX, space)


@dataclass(frozen=True)
class BlockSource:
    """Questions about boards of one to four blocks, each number as often; no two in one column.

    Attributes:
        asks: For the number of blocks (`count`), or for the colour of the leftmost one (`leftmost`).
        mistake_rate: How often what is said to be true is so of another number of blocks, or of another block, with
            that one's box, where there is another. Who imitates it sees well, and answers as often wrong.
    """

    asks: Asks
    mistake_rate: float = 0.0
    name = "blocks"

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split, to which it belongs by a hash of its content.

        Args:
            rng: The only source of chance.
            split: `"train"`, `"val"` or `"test"`.
        """
        seed, blocks = draw_seed(rng, split, _blocks, partial(_digest, self.asks), self.name)
        return _sample(self.asks, seed, blocks, self._said(seed, len(blocks)))

    def find(self, sample_id: str) -> Sample:
        """Returns the sample of an id, whichever source of blocks drew it.

        Raises:
            LevelError: If the id is none of blocks.
        """
        asks, seed, said = _read(sample_id)
        blocks = _blocks(seed)
        if said is not None and said not in _sayable(asks, len(blocks)):
            raise LevelError(f"Of {len(blocks)} blocks nobody says {said}: {sample_id[:80]!r}.")
        return _sample(asks, seed, blocks, _truth(asks, len(blocks)) if said is None else said)

    def split_of(self, sample_id: str) -> str:
        """Returns the split of the sample of an id; raises as `find`."""
        asks, seed, _ = _read(sample_id)
        return split_of(_digest(asks, _blocks(seed)).encode())

    def _said(self, seed: int, num_blocks: int) -> int:
        """Returns what is said of the blocks of a seed."""
        truth = _truth(self.asks, num_blocks)
        others = [answer for answer in _sayable(self.asks, num_blocks) if answer != truth]
        rng = np.random.default_rng([seed, 1])
        return others[rng.integers(len(others))] if others and rng.random() < self.mistake_rate else truth


def _sayable(asks: Asks, num_blocks: int) -> range:
    """Returns what can be said of so many blocks: a number, or which of them is meant, from the left."""
    return range(1, NUM_CELLS + 1) if asks == "count" else range(num_blocks)


def _truth(asks: Asks, num_blocks: int) -> int:
    return num_blocks if asks == "count" else 0


def _sample(asks: Asks, seed: int, blocks: tuple[_Block, ...], said: int) -> Sample:
    """Returns a question about blocks, and what is said to be true of them."""
    if asks == "count":
        question, answer, shown = "How many blocks are there?", str(said), blocks
        facts = f"There {'is' if said == 1 else 'are'} {_NUMBERS[said]} block{'s' if said > 1 else ''}."
    else:
        block = blocks[said]
        question, answer, shown = "What colour is the block furthest to the left?", block.color, (block,)
        facts = f"The block furthest to the left is {block.color}."
    space = blocks[0].box.space
    mistake = "" if said == _truth(asks, len(blocks)) else f":said:{said}"
    return Sample(
        sample_id=f"{BlockSource.name}:{asks}:{seed}{mistake}",
        question=question,
        key=AnswerKey(kind="number" if asks == "count" else "exact", answers=(answer,), question=question),
        category="count" if asks == "count" else "attribute",
        digest=f"{_digest(asks, blocks)}{mistake}",
        images=(_drawn(blocks),),
        evidence=tuple(
            Evidence(
                label=f"{block.color} block",
                box=block.box,
                point=Point(block.x + BLOCK_PX // 2, block.y + BLOCK_PX // 2, space),
            )
            for block in shown
        ),
        facts=facts,
    )


def _blocks(seed: int) -> tuple[_Block, ...]:
    """Returns the blocks of a seed, from the left."""
    rng = np.random.default_rng(seed)
    columns = sorted(rng.permutation(NUM_CELLS)[: rng.integers(1, NUM_CELLS + 1)].tolist())
    room = CELL_PX - BLOCK_PX + 1
    return tuple(
        _Block(
            color=BLOCK_COLORS[rng.integers(len(BLOCK_COLORS))],
            x=column * CELL_PX + int(rng.integers(room)),
            y=int(rng.integers(NUM_CELLS)) * CELL_PX + int(rng.integers(room)),
        )
        for column in columns
    )


def _drawn(blocks: tuple[_Block, ...]) -> Picture:
    side = NUM_CELLS * CELL_PX
    pixels = np.empty((side, side, 3), np.uint8)
    pixels[:] = _BOARD_RGB
    for block in blocks:
        pixels[block.y : block.y + BLOCK_PX, block.x : block.x + BLOCK_PX] = COLORS[block.color]
    return Picture(pixels)


def _digest(asks: str, blocks: tuple[_Block, ...]) -> str:
    return " ".join((asks, *(f"{block.color},{block.x},{block.y}" for block in blocks)))


def _read(sample_id: str) -> tuple[Asks, int, int | None]:
    """Returns what an id asks, its seed, and what it says in place of the truth."""
    match = _ID.fullmatch(sample_id)
    if match is None:
        raise LevelError(f"Expected an id of blocks, such as blocks:count:123; got {sample_id[:80]!r}.")
    said = None if match[3] is None else int(match[3])
    return ("count" if match[1] == "count" else "leftmost"), int(match[2]), said
