"""Markup to pixels, safely: checked here, drawn in another process, kept for the next time."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlm_envs.errors import ConfigError, require_positive
from vlm_envs.spaces import MAX_RESOLUTION
from vlm_envs.tools.cache import BoundedCache
from vlm_envs.worlds.svg.markup import MAX_BYTES, MarkupError, read_markup
from vlm_envs.worlds.svg.painter_process import SHARED, PaintingError

_NUM_KEPT_PIXELS = 16 * 1024 * 1024
_WHITE = 255


@dataclass(frozen=True, slots=True, eq=False)
class Rendering:
    """What became of one piece of markup.

    Attributes:
        pixels: uint8[size_px, size_px, 3] on white, read-only; None when it cannot be drawn.
        error: Why not, for the model to read; None when it was drawn.
    """

    pixels: NDArray[np.uint8] | None = None
    error: str | None = None

    @property
    def num_pixels(self) -> int:
        """What it takes to keep: pixels, or the most that its markup, too, may have."""
        return MAX_BYTES if self.pixels is None else self.pixels.size // 3

    @property
    def is_blank(self) -> bool:
        """Whether nothing can be seen: it was not drawn, or all of it is white."""
        return self.pixels is None or bool((self.pixels == _WHITE).all())


class Renderer:
    """Draws markup as square pictures. Never raises for any markup, and never takes longer than the limit.

    The drawing process is shared by all renderers of a process, and so is what was drawn last. It starts with the
    first drawing, and ends with `close` of the last renderer or with the process. Copies and pickles start anew.

    Args:
        size_px: Side of the pictures in pixels, 16 to 2048.
        timeout_s: Seconds one drawing may take, above 0.

    Raises:
        ConfigError: If an argument is out of range.
    """

    def __init__(self, *, size_px: int = 224, timeout_s: float = 2.0) -> None:
        self.size_px = require_positive("resolution", size_px, minimum=16, maximum=MAX_RESOLUTION)
        if not 0 < timeout_s < float("inf"):
            raise ConfigError(f"render_timeout_s must be a number of seconds above 0; got {timeout_s!r}.")
        self.timeout_s = float(timeout_s)

    def render(self, markup: str) -> Rendering:
        """Returns the picture of any markup, or why there is none; the same object for equal markup while it is kept.

        Raises:
            EngineUnavailableError: If cairosvg is not installed or cannot start.
        """
        _USERS.add(self)
        return _KEPT.get((markup, self.size_px, self.timeout_s), lambda: self._render(markup))

    def _render(self, markup: str) -> Rendering:
        try:
            read_markup(markup)
            content = SHARED.paint(markup.encode(), size_px=self.size_px, timeout_s=self.timeout_s)
        except MarkupError as error:
            return Rendering(error=str(error))
        except PaintingError as error:
            return Rendering(error=f"the renderer cannot draw it: {error}")
        bgra = np.frombuffer(content, np.uint8).reshape(self.size_px, self.size_px, 4)
        pixels = np.ascontiguousarray(bgra[..., 2::-1])
        pixels.flags.writeable = False
        return Rendering(pixels=pixels)

    def close(self) -> None:
        """Ends the drawing process unless other renderers use it; drawing again starts it again."""
        _USERS.discard(self)
        if not _USERS:
            SHARED.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"size_px": self.size_px, "timeout_s": self.timeout_s}


_USERS: weakref.WeakSet[Renderer] = weakref.WeakSet()
_KEPT: BoundedCache[Rendering] = BoundedCache(_NUM_KEPT_PIXELS, size_of=lambda kept: kept.num_pixels)
