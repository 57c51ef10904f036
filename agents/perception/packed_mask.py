"""Masks as they are sent and kept: eight pixels in a byte."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, kw_only=True)
class PackedMask:
    """A mask of a picture.

    Attributes:
        bits: Its pixels row by row, the first in the highest bit of the first byte.
        shape: Height and width.
    """

    bits: bytes
    shape: tuple[int, int]

    @classmethod
    def of(cls, mask: npt.NDArray[np.bool_]) -> PackedMask:
        """Returns a mask, bool[height, width], packed."""
        height, width = mask.shape
        return cls(bits=np.packbits(mask).tobytes(), shape=(height, width))

    def unpacked(self) -> npt.NDArray[np.bool_]:
        """Returns bool[height, width]."""
        height, width = self.shape
        bits = np.unpackbits(np.frombuffer(self.bits, np.uint8), count=height * width)
        return bits.astype(np.bool_).reshape(height, width)
