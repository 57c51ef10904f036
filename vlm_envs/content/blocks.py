"""Questions about a few colored blocks on a board, which the smallest models can learn to see in minutes.

A board is 112 pixels on a side and has four columns of four cells; some columns contain a block, placed
within one cell. With 14-pixel patches merged two by two into a token, a cell is one visual token.
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
"""Columns of a board, and rows per column."""

SHADES = 200, 240
"""Smallest and largest red, green, and blue values of a board."""


@dataclass(frozen=True)
class LoneBlock:
    """A block on a board.

    Attributes:
        cell_px: Side of a cell, even.
    column: Column of the block's cell, from 0.
    row: Row of the block's cell, from 0.
    side_px: Side of the block, even.
    shade: Color of the board.
    """

    cell_px: int
    column: int
    row: int
    side_px: int
    shade: RGB

    @property
    def space(self) -> OriginalPixels:
        """The board's pixel space."""
        return OriginalPixels(NUM_CELLS * self.cell_px, NUM_CELLS * self.cell_px)

    @property
    def middle(self) -> Point[OriginalPixels]:
        """The center of the block."""
        x, y = (cell * self.cell_px + self.cell_px // 2 for cell in (self.column, self.row))
        return Point(x, y, self.space)

    @property
    def digest(self) -> str:
        """Content that distinguishes the block from others on boards of the same size."""
        return f"{self.column},{self.row},{self.side_px},{self.shade}"

    def in_middle(self, side_px: int) -> Box[OriginalPixels]:
        """Returns the centered square of an even side length."""
        (x, y), radius = (self.middle.x, self.middle.y), side_px // 2
        return Box(x - radius, y - radius, x + radius, y + radius, self.space)

    def drawn(self, color: RGB) -> PixelArray:
        """Returns the board with the block in a color, uint8[H, W, 3]."""
        pixels = np.empty((self.space.height, self.space.width, 3), np.uint8)
        pixels[:] = np.full((self.space.width, 3), self.shade)  # row by row, which is faster than pixel by pixel
        part(pixels, self.in_middle(self.side_px))[:] = color
        return pixels


def lone_block(rng: np.random.Generator, cell_px: int, block_px: tuple[int, int]) -> LoneBlock:
    """Draws a random block.

    Args:
        rng: The only source of randomness.
        cell_px: Side of a cell, even.
        block_px: Smallest and largest side of a block, even.
    """
    column, row = rng.integers(NUM_CELLS, size=2).tolist()
    red, green, blue = rng.integers(SHADES[0], SHADES[1] + 1, size=3).tolist()
    side_px = 2 * int(rng.integers(block_px[0] // 2, block_px[1] // 2 + 1))
    return LoneBlock(cell_px, column, row, side_px, (red, green, blue))


def part(pixels: PixelArray, box: Box[OriginalPixels]) -> PixelArray:
    """Returns a writable view of a box's pixels; the box has integer coordinates."""
    return pixels[int(box.y1) : int(box.y2), int(box.x1) : int(box.x2)]


Asks = Literal["count", "leftmost"]

CELL_PX, BLOCK_PX = 28, 20
"""Sides of a cell and a block."""

BLOCK_COLORS = ("red", "green", "blue", "yellow", "purple", "orange")
"""Names of the block colors."""

_BOARD_RGB = np.array((226, 222, 214))
_NUMBERS = ("no", "one", "two", "three", "four")
_ID = re.compile(r"blocks:(count|leftmost):(\d{1,19})(?::said:(\d))?", flags=re.ASCII)


def counted_blocks() -> BlockSource:
    """Returns questions about the number of blocks."""
    return BlockSource("count")


def leftmost_blocks() -> BlockSource:
    """Returns questions about the color of the leftmost block."""
    return BlockSource("leftmost")


def mistaken_counts() -> BlockSource:
    """Returns counting questions whose answers are wrong six times out of ten, for imitation learning."""
    return BlockSource("count", mistake_rate=0.6)


def mistaken_blocks() -> BlockSource:
    """Returns leftmost-block questions that describe another block half the time, for imitation learning.

    Boards with a single block are always answered correctly, so about 70% of all answers are correct.
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
    """Questions about boards of one to four blocks, each number equally likely; no two blocks share a column.

    Attributes:
        asks: `count` for the number of blocks, or `leftmost` for the color of the leftmost one.
        mistake_rate: Probability that the answer and evidence describe another number of blocks, or another
            block, where there is one. A model that imitates such samples sees well but answers wrongly at the
            same rate.
    """

    asks: Asks
    mistake_rate: float = 0.0
    name = "blocks"

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split; a hash of its content decides the split.

        Args:
            rng: The only source of randomness.
            split: `"train"`, `"val"` or `"test"`.
        """
        seed, blocks = draw_seed(rng, split, _blocks, partial(_digest, self.asks), self.name)
        return _sample(self.asks, seed, blocks, self._said(seed, len(blocks)))

    def find(self, sample_id: str) -> Sample:
        """Returns the sample with an id, from any source of blocks.

        Raises:
            LevelError: If the id is malformed, or asserts something impossible for its board.
        """
        asks, seed, said = _read(sample_id)
        blocks = _blocks(seed)
        if said is not None and said not in _sayable(asks, len(blocks)):
            raise LevelError(f"Expected a possible answer for {len(blocks)} blocks; got {said}: {sample_id[:80]!r}.")
        return _sample(asks, seed, blocks, _truth(asks, len(blocks)) if said is None else said)

    def split_of(self, sample_id: str) -> str:
        """Returns the split of the sample with an id; raises as `find`."""
        asks, seed, _ = _read(sample_id)
        return split_of(_digest(asks, _blocks(seed)).encode())

    def _said(self, seed: int, num_blocks: int) -> int:
        """Returns the answer to give for a seed: the true one, or a random mistake."""
        truth = _truth(self.asks, num_blocks)
        others = [answer for answer in _sayable(self.asks, num_blocks) if answer != truth]
        rng = np.random.default_rng([seed, 1])
        return others[rng.integers(len(others))] if others and rng.random() < self.mistake_rate else truth


def _sayable(asks: Asks, num_blocks: int) -> range:
    """Returns the possible answers: a count, or the index of a block from the left."""
    return range(1, NUM_CELLS + 1) if asks == "count" else range(num_blocks)


def _truth(asks: Asks, num_blocks: int) -> int:
    return num_blocks if asks == "count" else 0


def _sample(asks: Asks, seed: int, blocks: tuple[_Block, ...], said: int) -> Sample:
    """Returns a question about blocks whose key and evidence assert the answer `said`."""
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
    """Returns the blocks of a seed, from left to right."""
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
    """Returns an id's question, its seed, and the answer it asserts in place of the true one."""
    match = _ID.fullmatch(sample_id)
    if match is None:
        raise LevelError(f"Expected an id such as blocks:count:123; got {sample_id[:80]!r}.")
    said = None if match[3] is None else int(match[3])
    return ("count" if match[1] == "count" else "leftmost"), int(match[2]), said
