"""Upscalers: what enlarges a crop before the model looks at it again.

Mags-RL gives this to a super-resolution agent. Lanczos resampling is the default, since it needs no weights;
`agents.perception.super_resolution` has the paper's network, which needs torch, behind the same protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

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

    _METHOD: ClassVar[Image.Resampling]
    factor: int = 2

    def __post_init__(self) -> None:
        require_positive("factor", self.factor)

    def upscale(self, picture: Picture) -> Picture:
        """Returns the enlarged picture."""
        return resized(picture, picture.width * self.factor, picture.height * self.factor, self._METHOD)


@dataclass(frozen=True)
class LanczosUpscaler(_Resampling):
    """Lanczos resampling; the default super-resolution agent."""

    _METHOD = Image.Resampling.LANCZOS


@dataclass(frozen=True)
class BicubicUpscaler(_Resampling):
    """Bicubic resampling; ARM-Thinker's zoom-in tool."""

    _METHOD = Image.Resampling.BICUBIC
