"""Short videos of things that move over a scene with a colored line, with exactly known events.

A clip is a description, like a scene. Every frame is a scene with the same scenery, so frames share the
boxes, masks, and labels of scenes. Frames are counted from 1, as in Argos (F1 at t = 0).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from vlm_envs.content.colors import CHALK, COLORS, INK
from vlm_envs.content.scenes.scene import Scene, Thing
from vlm_envs.content.scenes.scene_labels import label_mask
from vlm_envs.content.scenes.scene_rendering import render_region
from vlm_envs.content.scenes.sprites import Mask, sprite
from vlm_envs.errors import ConfigError
from vlm_envs.tools.coordinates import PixelRectangle
from vlm_envs.tools.data_files import BoundedCache
from vlm_envs.tools.pictures import Picture

FRAMES_PER_SECOND = 2
"""Frames are half a second apart."""

CACHE_BYTES = 128 * 1024 * 1024
"""Maximum bytes of frames cached per process; the most recent clip is kept regardless of size."""

LINE_HALF_PX = 2
"""Distance of a line's edge from its middle, without its outline of one pixel."""


@dataclass(frozen=True, kw_only=True)
class Mover:
    """A thing that rests, moves in a straight line, and rests again.

    Attributes:
        thing: The thing at its starting position.
        to: Column and row of its frame's corner at the end.
        first: Last frame at the starting position, counted from 1.
        last: First frame at the end position.
    """

    thing: Thing
    to: tuple[int, int]
    first: int
    last: int

    def at(self, frame: int) -> Thing:
        """Returns the thing at its position in a frame."""
        return self.thing.at(*self.place(frame))

    def place(self, frame: int) -> tuple[int, int]:
        """Returns the column and row of its corner in a frame of the clip."""
        span = self.last - self.first
        done = min(max(frame - self.first, 0), span)
        x, y = self.thing.x, self.thing.y
        # Integer arithmetic, so that every machine rounds alike
        return x + (self.to[0] - x) * done // span, y + (self.to[1] - y) * done // span


@dataclass(frozen=True, kw_only=True)
class Clip:
    """The description of a video.

    Attributes:
        width: Columns.
        height: Rows.
        setting: A key of `SETTINGS`.
        scenery_seed: Seed of the scenery.
        num_frames: Number of frames, half a second apart.
        line_color: Color of the line.
        line_upright: Whether the line is vertical rather than horizontal.
        line_at: Column or row of its middle. Middles of things are multiples of 0.5, so they never equal it
            plus 0.25.
        movers: In drawing order; no two share both color and kind.
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

    @property
    def axis(self) -> int:
        """The axis along which things cross the line: 0 for a vertical line, 1 for a horizontal one."""
        return 0 if self.line_upright else 1

    @property
    def digest(self) -> str:
        """BLAKE2 of the description, 32 hexadecimal digits; nothing is rendered."""
        written = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(written.encode(), digest_size=16).hexdigest()

    def scene(self, frame: int) -> Scene:
        """Returns the scene of a frame, without the line.

        Raises:
            ConfigError: If there is no such frame.
        """
        if not 1 <= frame <= self.num_frames:
            raise ConfigError(f"The clip has frames 1 to {self.num_frames}; got {frame!r}.")
        things = tuple(mover.at(frame) for mover in self.movers)
        return self._with(things)

    def time_s(self, frame: int) -> float:
        """Returns the time of a frame, in seconds."""
        return (frame - 1) / FRAMES_PER_SECOND

    def nearest_frame(self, time_s: float) -> int | None:
        """Returns the frame nearest to a time; None if it is more than half a frame outside the clip."""
        frame = round(time_s * FRAMES_PER_SECOND) + 1 if abs(time_s) < 1e6 else 0
        return frame if 1 <= frame <= self.num_frames else None

    def middle(self, index: int, frame: int) -> tuple[float, float]:
        """Returns the middle of a mover in a frame of the clip."""
        x, y = self.movers[index].place(frame)
        width, height = self.movers[index].thing.size
        return x + width / 2, y + height / 2

    def side(self, index: int, frame: int) -> int:
        """Returns -1 if a mover's middle is left of or above the line's, 1 if it is right of or below it."""
        return 1 if self.middle(index, frame)[self.axis] > self.line_at + 0.25 else -1

    def is_clear(self, index: int, frame: int) -> bool:
        """Returns whether a mover does not touch the line in a frame."""
        start = self.movers[index].place(frame)[self.axis]
        stop = start + self.movers[index].thing.size[self.axis]
        return stop <= self.line_at - LINE_HALF_PX or start > self.line_at + LINE_HALF_PX

    def crossing(self, index: int) -> int | None:
        """Returns the last frame before a mover's middle passes the line, counted from 1; None if it never does."""
        ahead = (frame for frame in range(1, self.num_frames) if self.side(index, frame) != self.side(index, frame + 1))
        return next(ahead, None)

    def frames(self) -> npt.NDArray[np.uint8]:
        """Returns the pixels of all frames, uint8[num_frames, height, width, 3]."""
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
        """Returns bool[height, width], True where the line and its outline are visible in a frame."""
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


@dataclass(frozen=True)
class FrameImageRef:
    """A frame as an image that is drawn on demand, together with the others of its clip.

    Attributes:
        clip: The description.
        frame: The frame, counted from 1.
    """

    clip: Clip
    frame: int

    @property
    def width(self) -> int:
        """Columns."""
        return self.clip.width

    @property
    def height(self) -> int:
        """Rows."""
        return self.clip.height

    @property
    def digest(self) -> str:
        """Hash of the clip's description and the frame number."""
        return hashlib.blake2b(f"{self.clip.digest} {self.frame}".encode(), digest_size=16).hexdigest()

    def picture(self) -> Picture:
        """Returns the pixels, drawn unless they are still cached."""
        return _pictures.get(self.clip, lambda: tuple(map(Picture, self.clip.frames())))[self.frame - 1]


_pictures: BoundedCache[tuple[Picture, ...]] = BoundedCache(
    CACHE_BYTES, size_of=lambda pictures: sum(picture.pixels.nbytes for picture in pictures)
)


def clip_masks(clip: Clip) -> Callable[[str, int | None, float | None], Mask | None]:
    """Returns a function from labels and frames to exact masks, for judges of points in videos.

    Args:
        clip: The clip.

    Returns:
        A function from a label, a frame (counted from 1; None if unknown) and a time in seconds (None if
        unknown; the frame takes precedence) to bool[height, width], all False for things that are not there.
        It returns None if the label has no meaning or there is no such frame.
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
