"""Questions about a few coloured blocks on a board: what the smallest models can learn to see in minutes.

A board is 112 pixels a side and has four columns of four cells; in some columns a block lies somewhere within one cell.
With patches of 14 pixels, two by two a token, a cell is what one visual token sees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vlm_envs.content.scenes.colors import COLORS
from vlm_envs.errors import GenerationError, LevelError, require_choice
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.splits import SPLITS, split_of
from vlm_envs.tools.coordinates import Box, OriginalPixels, Point
from vlm_envs.tools.pictures import Picture

Asks = Literal["count", "leftmost"]

NUM_CELLS = 4
"""Columns of a board, and rows."""

CELL_PX, BLOCK_PX = 28, 20
"""Sides of a cell and of a block."""

BLOCK_COLORS = ("red", "green", "blue", "yellow", "purple", "orange")
"""Colours of blocks."""

_BOARD_RGB = np.array((226, 222, 214))
_NUMBERS = ("no", "one", "two", "three", "four")
_ID = re.compile(r"blocks:(count|leftmost):(\d{1,19})", flags=re.ASCII)
_MAX_SEEDS = 1000


def counted_blocks() -> BlockSource:
    """Returns questions of how many blocks there are."""
    return BlockSource("count")


def leftmost_blocks() -> BlockSource:
    """Returns questions of the colour of the block furthest to the left."""
    return BlockSource("leftmost")


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
    """

    asks: Asks
    name = "blocks"

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split, to which it belongs by a hash of its content.

        Args:
            rng: The only source of chance.
            split: `"train"`, `"val"` or `"test"`.
        """
        require_choice("split", split, SPLITS)
        for _ in range(_MAX_SEEDS):
            seed = int(rng.integers(2**63))
            blocks = _blocks(seed)
            if split_of(_digest(self.asks, blocks).encode()) == split:
                return self._sample(seed, blocks)
        raise GenerationError(f"No board of split {split!r} was found among {_MAX_SEEDS} seeds.")

    def find(self, sample_id: str) -> Sample:
        """Returns the sample of an id, whichever source of blocks drew it.

        Raises:
            LevelError: If the id is none of blocks.
        """
        asks, seed = _read(sample_id)
        return BlockSource(asks)._sample(seed, _blocks(seed))

    def split_of(self, sample_id: str) -> str:
        """Returns the split of the sample of an id; raises as `find`."""
        asks, seed = _read(sample_id)
        return split_of(_digest(asks, _blocks(seed)).encode())

    def _sample(self, seed: int, blocks: tuple[_Block, ...]) -> Sample:
        first, count = blocks[0], len(blocks)
        if self.asks == "count":
            question, answer = "How many blocks are there?", str(count)
            facts = f"There {'is' if count == 1 else 'are'} {_NUMBERS[count]} block{'s' if count > 1 else ''}."
        else:
            question, answer = "What colour is the block furthest to the left?", first.color
            facts = f"The block furthest to the left is {first.color}."
        space = first.box.space
        return Sample(
            sample_id=f"{self.name}:{self.asks}:{seed}",
            question=question,
            key=AnswerKey(kind="number" if self.asks == "count" else "exact", answers=(answer,), question=question),
            category="count" if self.asks == "count" else "attribute",
            digest=_digest(self.asks, blocks),
            images=(_drawn(blocks),),
            evidence=tuple(
                Evidence(
                    label=f"{block.color} block",
                    box=block.box,
                    point=Point(block.x + BLOCK_PX // 2, block.y + BLOCK_PX // 2, space),
                )
                for block in (blocks if self.asks == "count" else (first,))
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


def _read(sample_id: str) -> tuple[Asks, int]:
    match = _ID.fullmatch(sample_id)
    if match is None:
        raise LevelError(f"Expected an id of blocks, such as blocks:count:123; got {sample_id[:80]!r}.")
    return ("count" if match[1] == "count" else "leftmost"), int(match[2])
