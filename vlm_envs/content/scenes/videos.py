"""Short videos of things that move over a scene with a coloured line in it; what happens in them is known exactly.

A clip is a description, as a scene is: every frame is a scene of its own with the same scenery, so boxes, masks and
labels of frames are those of scenes. Frames are counted from 1, as Argos writes them (F1 at t = 0).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from vlm_envs.content.drawing import pick_several
from vlm_envs.content.scenes.colors import CHALK, COLORS, INK
from vlm_envs.content.scenes.kinds.table import PLAIN_KINDS
from vlm_envs.content.scenes.labels import label_mask
from vlm_envs.content.scenes.rendering import render_region
from vlm_envs.content.scenes.scene import Scene, Thing
from vlm_envs.content.scenes.settings.table import SETTINGS
from vlm_envs.content.scenes.sprites import Mask, frame_size, sprite
from vlm_envs.content.scenes.things import recognisable
from vlm_envs.errors import ConfigError
from vlm_envs.tools.coordinates import PixelRectangle

MIN_FRAMES, MAX_FRAMES = 8, 16
FRAMES_PER_SECOND = 2
"""Frames lie half a second apart."""

LINE_HALF_PX = 2
"""A line is drawn this far to both sides of its middle, with an outline of one pixel."""

_LINE_COLORS = ("red", "yellow", "blue", "white", "pink")
_MIN_SIDE_PX = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Mover:
    """A thing that rests, moves in a straight line, and rests again.

    Attributes:
        thing: It, where it starts.
        to: Column and row of its frame's corner where it ends.
        first: Last frame in which it is where it starts, from 1.
        last: First frame in which it is where it ends.
    """

    thing: Thing
    to: tuple[int, int]
    first: int
    last: int

    def at(self, frame: int) -> Thing:
        """Returns it where it is in a frame."""
        done = min(max(frame - self.first, 0), self.last - self.first)
        span = self.last - self.first
        # Whole numbers throughout, so that every machine rounds alike.
        x, y = (a + (b - a) * done // span for a, b in zip((self.thing.x, self.thing.y), self.to, strict=True))
        return self.thing.at(x, y)


@dataclass(frozen=True, kw_only=True, slots=True)
class Clip:
    """A video's description.

    Attributes:
        width: Columns.
        height: Rows.
        setting: A key of `SETTINGS`.
        scenery_seed: What its scenery is drawn by.
        num_frames: Frames, half a second apart.
        line_color: Of the line.
        line_upright: Whether it goes from top to bottom; else from left to right.
        line_at: Column or row of its middle. Things' middles are multiples of a half and never on a quarter.
        movers: In the order they are drawn; no two of one colour and kind.
    """

    width: int
    height: int
    setting: str
    scenery_seed: int
    num_frames: int
    line_color: str
    line_upright: bool
    line_at: int
    movers: tuple[Mover, ...]

    def scene(self, frame: int) -> Scene:
        """Returns what is where in a frame, the line left out.

        Raises:
            ConfigError: If there is no such frame.
        """
        if not 1 <= frame <= self.num_frames:
            raise ConfigError(f"The clip has frames 1 to {self.num_frames}; got {frame!r}.")
        things = tuple(mover.at(frame) for mover in self.movers)
        return self._with(things)

    def time_s(self, frame: int) -> float:
        """Returns when a frame is shown, in seconds."""
        return (frame - 1) / FRAMES_PER_SECOND

    def nearest_frame(self, time_s: float) -> int | None:
        """Returns the frame shown at a time; None before the first and more than half a frame after the last."""
        frame = round(time_s * FRAMES_PER_SECOND) + 1 if abs(time_s) < 1e6 else 0
        return frame if 1 <= frame <= self.num_frames else None

    def middle(self, index: int, frame: int) -> tuple[float, float]:
        """Returns the middle of a mover's frame of pixels in a frame of the clip."""
        around = self.movers[index].at(frame).frame
        return (around.left + around.right) / 2, (around.top + around.bottom) / 2

    def side(self, index: int, frame: int) -> int:
        """Returns -1 where a mover's middle is left of or above the line's, 1 where it is right of or below it."""
        return 1 if self.middle(index, frame)[0 if self.line_upright else 1] > self.line_at + 0.25 else -1

    def is_clear(self, index: int, frame: int) -> bool:
        """Returns whether a mover's frame of pixels does not touch the line."""
        around, low, high = self.movers[index].at(frame).frame, self.line_at - LINE_HALF_PX, self.line_at + LINE_HALF_PX
        start, stop = (around.left, around.right) if self.line_upright else (around.top, around.bottom)
        return stop <= low or start > high

    def frames(self) -> npt.NDArray[np.uint8]:
        """Returns the pixels of all frames: uint8[num_frames, height, width, 3]."""
        ground = render_region(self._with(()), PixelRectangle(0, 0, self.width, self.height)).copy()
        line = self._line_box(LINE_HALF_PX + 1)
        ground[line] = INK if sum(COLORS[self.line_color]) > 300 else CHALK
        ground[self._line_box(LINE_HALF_PX)] = COLORS[self.line_color]
        pixels = np.empty((self.num_frames, self.height, self.width, 3), np.uint8)
        for frame in range(1, self.num_frames + 1):
            canvas = Image.fromarray(ground)
            for thing in self.scene(frame).things:
                image = sprite(thing.appearance)
                canvas.paste(image, (thing.x, thing.y), image)
            pixels[frame - 1] = np.asarray(canvas)
        return pixels

    def line_mask(self, frame: int) -> Mask:
        """Returns bool[height, width]: the pixels in which the line is seen in a frame, outline included."""
        mask = np.zeros((self.height, self.width), np.bool_)
        mask[self._line_box(LINE_HALF_PX + 1)] = True
        return mask & ~self.scene(frame).mask(*range(len(self.movers)))

    def _line_box(self, reach: int) -> tuple[slice, slice]:
        span = slice(self.line_at - reach, self.line_at + reach + 1)
        return (slice(None), span) if self.line_upright else (span, slice(None))

    def _with(self, things: tuple[Thing, ...]) -> Scene:
        return Scene(
            width=self.width,
            height=self.height,
            setting=self.setting,
            scenery_seed=self.scenery_seed,
            things=things,
        )


def draw_clip(
    rng: np.random.Generator,
    *,
    side_px: int = 224,
    num_movers: tuple[int, int] = (2, 4),
    size_px: tuple[int, int] = (24, 40),
) -> Clip:
    """Draws a clip in which at least the first mover crosses the line.

    Args:
        rng: The only source of chance.
        side_px: Of its frames, which are squares.
        num_movers: Least and most things.
        size_px: Least and largest longer side of a thing.

    Raises:
        ConfigError: If the numbers leave no room for anything.
    """
    if not 1 <= num_movers[0] <= num_movers[1] <= 8:
        raise ConfigError(f"num_movers must be a range within 1 to 8; got {num_movers!r}.")
    if side_px < _MIN_SIDE_PX or not 16 <= size_px[0] <= size_px[1] <= side_px // 5:
        raise ConfigError(
            f"Expected side_px of at least {_MIN_SIDE_PX} and size_px within 16 to a fifth of it; got {side_px} and "
            f"{size_px!r}."
        )
    upright, num_frames = bool(rng.random() < 0.5), int(rng.integers(MIN_FRAMES, MAX_FRAMES + 1))
    line_at = int(rng.integers(side_px * 2 // 5, side_px * 3 // 5))
    kinds = [kind for kind in recognisable(size_px[0]) if kind in PLAIN_KINDS]
    colors = pick_several(rng, tuple(COLORS), int(rng.integers(num_movers[0], num_movers[1] + 1)))
    movers: list[Mover] = []
    for color in colors:
        kind, size = pick_several(rng, kinds, 1)[0], int(rng.integers(size_px[0], size_px[1] + 1))
        movers.append(_mover(rng, kind, color, size, side_px, num_frames, (upright, line_at), crosses=not movers))
    return Clip(
        width=side_px,
        height=side_px,
        setting=pick_several(rng, tuple(SETTINGS), 1)[0],
        scenery_seed=int(rng.integers(2**32)),
        num_frames=num_frames,
        line_color=pick_several(rng, _LINE_COLORS, 1)[0],
        line_upright=upright,
        line_at=line_at,
        movers=tuple(movers),
    )


def clip_masks(clip: Clip) -> Callable[[str, int | None, float | None], Mask | None]:
    """Returns what tells the exact masks of things by label and frame, for judges of points in videos.

    Args:
        clip: The clip.

    Returns:
        From a label, a frame (from 1; None if unknown) and a time in seconds (None if unknown; the frame goes before
        it) to bool[height, width], all False for what is not there; None where words or frame mean nothing.
    """

    def mask(label: str, frame: int | None, time_s: float | None) -> Mask | None:
        number = frame if frame is not None else clip.nearest_frame(time_s) if time_s is not None else None
        if number is None or not 1 <= number <= clip.num_frames:
            return None
        line = re.fullmatch(r"(?:the |a )?(?:(\w+) )?line", " ".join(label.casefold().split()).rstrip("."))
        if line is None:
            return label_mask(clip.scene(number), label)
        if line[1] in (None, clip.line_color):
            return clip.line_mask(number)
        return np.zeros((clip.height, clip.width), np.bool_) if line[1] in COLORS else None

    return mask


def _mover(
    rng: np.random.Generator,
    kind: str,
    color: str,
    size_px: int,
    side_px: int,
    num_frames: int,
    line: tuple[bool, int],
    *,
    crosses: bool,
) -> Mover:
    """Returns a thing that crosses the line, or goes or stays wherever chance will have it."""
    width, height = frame_size(kind, size_px)
    room = side_px - width, side_px - height
    start, end = ([int(rng.integers(0, space + 1)) for space in room] for _ in range(2))
    if crosses:
        axis = 0 if line[0] else 1
        extent = (width, height)[axis]
        near, far = int(rng.integers(0, line[1] - extent + 1)), int(rng.integers(line[1] + 1, room[axis] + 1))
        start[axis], end[axis] = (near, far) if rng.random() < 0.5 else (far, near)
    elif rng.random() < 0.35:
        end = start
    first = int(rng.integers(1, num_frames // 2))
    last = int(rng.integers(first + 2, num_frames + 1))
    thing = Thing(kind=kind, color=color, x=start[0], y=start[1], size_px=size_px)
    return Mover(thing=thing, to=(end[0], end[1]), first=first, last=last)
