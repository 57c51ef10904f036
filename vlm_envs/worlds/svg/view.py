"""What an agent sees: the target and, beside it, what it drew last."""

from __future__ import annotations

from functools import lru_cache
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from vlm_envs.parts import View
from vlm_envs.responses.formats import WITHOUT_SYMBOLS
from vlm_envs.validation import require_choice
from vlm_envs.worlds.svg.descriptions import describe
from vlm_envs.worlds.svg.renderer import Renderer
from vlm_envs.worlds.svg.shapes import Shape, shapes_of, view_box_of
from vlm_envs.worlds.svg.state import SvgState

_PAPER, _STRIPE, _INK, _BORDER = (236, 236, 240), (226, 226, 232), (120, 120, 132), (150, 150, 160)
_EMPTY, _BROKEN = "no drawing yet", "broken drawing"


class SvgStateDict(TypedDict):
    """A state as plain data; boxes are left, top, right and bottom in units of each drawing's own `viewBox`.

    Attributes:
        target_shapes: What the target shows, in the order it is drawn.
        drawing_shapes: What the last drawing shows; None before the first and after a broken one.
        similarity: How alike they are, 0 to 1.
        viewbox: The target's (x, y, width, height).
    """

    target_shapes: list[Shape]
    drawing_shapes: list[Shape] | None
    similarity: float
    viewbox: list[float]


class SvgView(View[SvgState]):
    """Pictures and texts of SVG states.

    Args:
        renderer: Draws both halves of the picture; its size is that of each half.
    """

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer

    def image(self, state: SvgState) -> NDArray[np.uint8]:
        """Returns target and last drawing side by side, uint8[size_px, 2 * size_px, 3]."""
        size_px = self.renderer.size_px
        picture = np.empty((size_px, 2 * size_px, 3), np.uint8)
        picture[:, :size_px] = self._half(state.target)
        picture[:, size_px:] = _sign(_EMPTY, size_px) if state.drawing is None else self._half(state.drawing)
        picture[:, size_px] = _BORDER
        return picture

    def _half(self, markup: str) -> NDArray[np.uint8]:
        """Returns a drawing, or a sign that there is none."""
        pixels = self.renderer.render(markup).pixels
        return _sign(_BROKEN, self.renderer.size_px) if pixels is None else pixels

    def structured(self, state: SvgState) -> SvgStateDict:
        """Returns the state as plain data."""
        drawable = state.drawing is not None and state.error is None
        return {
            "target_shapes": shapes_of(state.target) or [],
            "drawing_shapes": shapes_of(state.drawing or "") if drawable else None,
            "similarity": state.similarity,
            "viewbox": list(view_box_of(state.target) or ()),
        }

    def describe(self, state: SvgState, representation: str) -> str:
        """Returns both drawings in words; raises `ConfigError` for an unknown representation."""
        return describe(state, require_choice("representation", representation, WITHOUT_SYMBOLS))

    def close(self) -> None:
        """Lets go of the drawing process."""
        self.renderer.close()


@lru_cache(maxsize=8)
def _sign(words: str, size_px: int) -> NDArray[np.uint8]:
    """Returns striped grey paper with words on it, unlike any drawing."""
    picture = Image.new("RGB", (size_px, size_px), _PAPER)
    canvas = ImageDraw.Draw(picture)
    stripe_px = max(2, size_px // 28)
    for start in range(-size_px, size_px, 4 * stripe_px):
        canvas.line([(start, size_px), (start + size_px, 0)], fill=_STRIPE, width=stripe_px)
    font = ImageFont.load_default(max(6, size_px // 12))
    canvas.text((size_px / 2, size_px / 2), words, fill=_INK, font=font, anchor="mm")
    return np.asarray(picture)
