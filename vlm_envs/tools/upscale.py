"""Upscalers: what enlarges a crop before the model looks at it again.

Mags-RL gives this to a super-resolution agent. Lanczos resampling is the default, since it needs no weights;
`agents.perception.super_resolution` has the paper's network, which needs torch, behind the same protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from PIL import Image

from vlm_envs.errors import require_positive
from vlm_envs.tools.pictures import Picture, resized


class Upscaler(Protocol):
    """Enlarges pictures."""

    @property
    def factor(self) -> int:
        """How many times as wide and as high."""
        ...

    def upscale(self, picture: Picture) -> Picture:
        """Returns a picture `factor` times as wide and as high. Never raises for any picture."""
        ...


@dataclass(frozen=True)
class _Resampling:
    """Enlarges by interpolation.

    Attributes:
        factor: How many times as wide and as high; at least 1.
    """

    factor: int = 2

    def __post_init__(self) -> None:
        require_positive("factor", self.factor)

    def _upscale(self, picture: Picture, resample: Image.Resampling) -> Picture:
        return resized(picture, picture.width * self.factor, picture.height * self.factor, resample)


@dataclass(frozen=True)
class LanczosUpscaler(_Resampling):
    """Lanczos resampling; the default super-resolution agent."""

    def upscale(self, picture: Picture) -> Picture:
        """Returns the enlarged picture."""
        return self._upscale(picture, Image.Resampling.LANCZOS)


@dataclass(frozen=True)
class BicubicUpscaler(_Resampling):
    """Bicubic resampling; ARM-Thinker's zoom-in tool."""

    def upscale(self, picture: Picture) -> Picture:
        """Returns the enlarged picture."""
        return self._upscale(picture, Image.Resampling.BICUBIC)
