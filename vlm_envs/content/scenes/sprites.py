"""Things as pixels: drawn at high resolution, outlined, and scaled down."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from vlm_envs.content.colors import CHALK, COLORS, INK
from vlm_envs.content.scenes.brush import FRAME, Brush, outlined
from vlm_envs.content.scenes.scene_kinds import KINDS

Mask = npt.NDArray[np.bool_]

_DRAWN_PX = 256
"""Minimum size at which small things are drawn before they are scaled down."""

_MAX_ENLARGEMENT = 16


@dataclass(frozen=True, kw_only=True)
class Appearance:
    """The properties that determine a thing's pixels.

    Attributes:
        kind: A key of `KINDS`.
        color: A key of `COLORS`.
        size_px: Longer side of its frame.
        text: Text on it; signs only.
        minutes: Time on it, past twelve o'clock; clocks only.
        mirrored: Whether it is mirrored horizontally.
    """

    kind: str
    color: str
    size_px: int
    text: str = ""
    minutes: int = 0
    mirrored: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of its frame."""
        return frame_size(self.kind, self.size_px)


@functools.lru_cache(maxsize=4096)
def frame_size(kind: str, size_px: int) -> tuple[int, int]:
    """Returns the columns and rows of a kind's frame whose longer side is `size_px`."""
    shape, outlines = KINDS[kind], 2 * _outline_px(size_px)
    inner = max(size_px - outlines, 0.0) / FRAME
    return max(1, round(shape.width * inner + outlines)), max(1, round(shape.height * inner + outlines))


@functools.lru_cache(maxsize=256)
def sprite(appearance: Appearance) -> Image.Image:
    """Returns a thing as RGBA pixels of `appearance.size`. The image is cached; do not modify it."""
    width, height = appearance.size
    times = _enlargement(appearance.size_px)
    outline = _outline_px(appearance.size_px) * times
    brush = Brush(width * times, height * times, (max(width, height) * times - 2 * outline) / FRAME, outline)
    color, kind = COLORS[appearance.color], KINDS[appearance.kind]
    kind.paint(brush, color, text=appearance.text, minutes=appearance.minutes)
    canvas = outlined(brush.canvas, round(outline), CHALK if appearance.color == "black" else INK)
    if appearance.mirrored:
        canvas = canvas.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return canvas.resize((width, height), Image.Resampling.BOX) if times > 1 else canvas


@functools.lru_cache(maxsize=256)
def silhouette(appearance: Appearance) -> Mask:
    """Returns bool[rows, columns], read-only: pixels at least half covered by the thing, including its outline."""
    mask: Mask = np.asarray(sprite(appearance))[..., 3] >= 128
    mask.flags.writeable = False
    return mask


def bounds(mask: Mask) -> tuple[int, int, int, int]:
    """Returns left, top, right, bottom of a mask's True pixels, the latter two exclusive; all 0 if there are none."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return 0, 0, 0, 0
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def innermost(mask: Mask) -> tuple[int, int]:
    """Returns the column and row of the first pixel at maximum distance from the mask's edge.

    The edge of the array counts as an edge. The mask must not be empty.
    """
    left = np.pad(mask, 1)
    while True:
        inner = np.zeros_like(left)
        inner[1:-1, 1:-1] = left[1:-1, 1:-1] & left[:-2, 1:-1] & left[2:, 1:-1] & left[1:-1, :-2] & left[1:-1, 2:]
        if not inner.any():
            row, column = divmod(int(left.argmax()), left.shape[1])
            return column - 1, row - 1
        left = inner


def _enlargement(size_px: int) -> int:
    return max(2 if size_px < 4 * _DRAWN_PX else 1, min(_MAX_ENLARGEMENT, math.ceil(_DRAWN_PX / size_px)))


def _outline_px(size_px: int) -> float:
    """Returns the width of the outline: visible on small things, modest on large ones."""
    return min(max(0.7, size_px * 0.03), 6.0)
