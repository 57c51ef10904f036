"""Random clips whose things move as required."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.random import Generator

from vlm_envs.content.colors import COLORS
from vlm_envs.content.random_choice import pick, pick_several
from vlm_envs.content.scenes.asked import bounded_range
from vlm_envs.content.scenes.scene import Thing, recognisable
from vlm_envs.content.scenes.scene_kinds import PLAIN_KINDS
from vlm_envs.content.scenes.settings import SETTINGS
from vlm_envs.content.scenes.sprites import frame_size, silhouette
from vlm_envs.content.scenes.videos import Clip, Mover
from vlm_envs.errors import GenerationError

MIN_SIDE_PX, MAX_SIDE_PX = 64, 896
"""Smallest side that fits a few things; largest at which points in hundredths of a percent hit their pixel."""

MIN_SIZE_PX = 16
"""Smallest size of a thing."""

MIN_FRAMES, MAX_FRAMES = 4, 64
"""Minimum for a thing to rest, move, and rest again; maximum shown at once."""

MAX_MOVERS = 8
"""Each thing has a color of its own."""

_LINE_COLORS = ("red", "yellow", "blue", "white", "pink")
_STILL = 0.35
_MAX_MOVERS_TRIED = 2000
_MAX_CLIPS_TRIED = 200
_MAX_COVERED = 0.25

Want = Callable[[Clip], bool]
"""Whether the only mover of a clip does what is required of it."""


@dataclass(frozen=True, kw_only=True)
class ClipLimits:
    """Limits of random clips.

    Attributes:
        side_px: Side of the frames, which are square.
        num_frames: Minimum and maximum number of frames.
        num_movers: Minimum and maximum number of things.
        size_px: Smallest and largest longer side of a thing.
        settings: Keys of `SETTINGS`.

    Raises:
        ConfigError: If a range is out of bounds.
    """

    side_px: int = 224
    num_frames: tuple[int, int] = (8, 16)
    num_movers: tuple[int, int] = (2, 4)
    size_px: tuple[int, int] = (24, 40)
    settings: tuple[str, ...] = tuple(SETTINGS)

    def __post_init__(self) -> None:
        """Validates the ranges."""
        bounded_range("side_px", self.side_px, MIN_SIDE_PX, MAX_SIDE_PX)
        bounded_range("num_frames", self.num_frames, MIN_FRAMES, MAX_FRAMES)
        bounded_range("num_movers", self.num_movers, 1, MAX_MOVERS)
        bounded_range("size_px", self.size_px, MIN_SIZE_PX, max(MIN_SIZE_PX, self.side_px // 5))


def crosses(clip: Clip) -> bool:
    """Returns whether a clip's first mover clearly crosses the line.

    It does not touch the line in the first and last frames, and its middle is at least 1/50 of the side away
    from the line in the two frames around the crossing.
    """
    ahead = clip.crossing(0)
    if ahead is None or not (clip.is_clear(0, 1) and clip.is_clear(0, clip.num_frames)):
        return False
    return all(abs(clip.middle(0, frame)[clip.axis] - clip.line_at) >= clip.width / 50 for frame in (ahead, ahead + 1))


def keeps_off(clip: Clip) -> bool:
    """Returns whether a clip's first mover never touches the line."""
    return clip.crossing(0) is None and all(clip.is_clear(0, frame) for frame in range(1, clip.num_frames + 1))


def draw_clip(rng: Generator, limits: ClipLimits | None = None, wants: Sequence[Want] = (crosses,)) -> Clip:
    """Draws a clip whose first movers each satisfy a requirement; the others move at random.

    Args:
        rng: The only source of randomness.
        limits: Limits of the clip.
        wants: One requirement per mover. If there are more than the limits allow, the clip has as many movers
            as needed.

    Raises:
        GenerationError: If no clip was found, which is very unlikely if each requirement is possible alone.
    """
    limits = limits or ClipLimits()
    for _ in range(_MAX_CLIPS_TRIED):
        if (clip := try_clip(rng, limits, wants)) is not None:
            return clip
    raise GenerationError(
        f"No clip was found in {_MAX_CLIPS_TRIED} attempts. Use larger frames, or fewer or smaller things."
    )


def try_clip(rng: Generator, limits: ClipLimits, wants: Sequence[Want]) -> Clip | None:
    """Returns a clip as `draw_clip` does; None if this attempt's line or sizes leave no room for it."""
    side = limits.side_px
    empty = Clip(
        width=side,
        height=side,
        setting=pick(rng, limits.settings),
        scenery_seed=int(rng.integers(2**32)),
        num_frames=int(rng.integers(limits.num_frames[0], limits.num_frames[1] + 1)),
        line_color=pick(rng, _LINE_COLORS),
        line_upright=bool(rng.random() < 0.5),
        line_at=int(rng.integers(side * 2 // 5, side * 3 // 5)),
        movers=(),
    )
    fewest = max(len(wants), limits.num_movers[0])
    colors = pick_several(rng, tuple(COLORS), int(rng.integers(fewest, max(fewest, limits.num_movers[1]) + 1)))
    kinds = [kind for kind in recognisable(limits.size_px[0]) if kind in PLAIN_KINDS]
    movers: list[Mover] = []
    for number, color in enumerate(colors):
        size_px = int(rng.integers(limits.size_px[0], limits.size_px[1] + 1))
        thing = Thing(kind=pick(rng, kinds), color=color, size_px=size_px)
        mover = _wanted(rng, empty, thing, wants[number] if number < len(wants) else None)
        if mover is None:
            return None
        movers.append(mover)
    clip = replace(empty, movers=tuple(movers))
    return clip if _all_are_seen(clip) else None


def _wanted(rng: Generator, empty: Clip, thing: Thing, want: Want | None) -> Mover | None:
    for _ in range(_MAX_MOVERS_TRIED):
        mover = _mover(rng, empty, thing)
        if want is None or want(replace(empty, movers=(mover,))):
            return mover
    return None


def _mover(rng: Generator, empty: Clip, thing: Thing) -> Mover:
    """Returns a thing that moves or stays in place."""
    width, height = frame_size(thing.kind, thing.size_px)
    room = empty.width - width, empty.height - height
    start, end = ([int(rng.integers(0, space + 1)) for space in room] for _ in range(2))
    if rng.random() < _STILL:
        end = start
    first = int(rng.integers(1, empty.num_frames - 1))
    last = int(rng.integers(first + 2, empty.num_frames + 1))
    return Mover(thing=thing.at(start[0], start[1]), to=(end[0], end[1]), first=first, last=last)


def _all_are_seen(clip: Clip) -> bool:
    """Returns whether no thing is ever hidden by more than a quarter of its frame, or by half of its pixels."""
    covered = []
    for frame in range(1, clip.num_frames + 1):
        places = [mover.at(frame).frame for mover in clip.movers]
        for below, above in combinations(range(len(places)), 2):
            shared = places[below].overlap(places[above])
            part = shared.width * shared.height / (places[below].width * places[below].height) if shared else 0.0
            if part > _MAX_COVERED:
                return False
            if part > 0.0:
                covered.append((frame, below))
    # Thin things may lose half their pixels to less overlap; this check comes last because it has to draw
    # them
    return all(_is_half_seen(clip, frame, below) for frame, below in dict.fromkeys(covered))


def _is_half_seen(clip: Clip, frame: int, index: int) -> bool:
    whole = np.count_nonzero(silhouette(clip.movers[index].thing.appearance))
    return bool(2 * np.count_nonzero(clip.scene(frame).mask(index)) >= whole)
