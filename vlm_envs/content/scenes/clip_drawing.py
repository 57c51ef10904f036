"""Clips drawn by chance, whose movers do what is wanted of them."""

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
"""Least side in which a few things find room; largest in which points in hundredths of a percent hit their pixel."""

MIN_SIZE_PX = 16
"""Least size of a thing."""

MIN_FRAMES, MAX_FRAMES = 4, 64
"""Fewest frames in which a thing rests, moves and rests; most that are shown at once."""

MAX_MOVERS = 8
"""Each has a colour of its own."""

_LINE_COLORS = ("red", "yellow", "blue", "white", "pink")
_STILL = 0.35
_MAX_MOVERS_TRIED = 2000
_MAX_CLIPS_TRIED = 200
_MAX_COVERED = 0.25

Want = Callable[[Clip], bool]
"""Whether a mover does what is wanted of it; it is the only one of the clip."""


@dataclass(frozen=True, kw_only=True)
class ClipLimits:
    """What drawn clips may be.

    Attributes:
        side_px: Of frames, which are squares.
        num_frames: Fewest and most frames.
        num_movers: Fewest and most things.
        size_px: Least and largest longer side of a thing.
        settings: Keys of `SETTINGS`.

    Raises:
        ConfigError: If the numbers leave no room for anything.
    """

    side_px: int = 224
    num_frames: tuple[int, int] = (8, 16)
    num_movers: tuple[int, int] = (2, 4)
    size_px: tuple[int, int] = (24, 40)
    settings: tuple[str, ...] = tuple(SETTINGS)

    def __post_init__(self) -> None:
        """Refuses what cannot be drawn."""
        bounded_range("side_px", self.side_px, MIN_SIDE_PX, MAX_SIDE_PX)
        bounded_range("num_frames", self.num_frames, MIN_FRAMES, MAX_FRAMES)
        bounded_range("num_movers", self.num_movers, 1, MAX_MOVERS)
        bounded_range("size_px", self.size_px, MIN_SIZE_PX, max(MIN_SIZE_PX, self.side_px // 5))


def crosses(clip: Clip) -> bool:
    """Returns whether a clip's first mover clearly crosses the line.

    It is clear of the line at the start and at the end, and a fiftieth of the side off it in both frames between which
    its middle passes.
    """
    ahead = clip.crossing(0)
    if ahead is None or not (clip.is_clear(0, 1) and clip.is_clear(0, clip.num_frames)):
        return False
    return all(abs(clip.middle(0, frame)[clip.axis] - clip.line_at) >= clip.width / 50 for frame in (ahead, ahead + 1))


def keeps_off(clip: Clip) -> bool:
    """Returns whether a clip's first mover never touches the line."""
    return clip.crossing(0) is None and all(clip.is_clear(0, frame) for frame in range(1, clip.num_frames + 1))


def draw_clip(rng: Generator, limits: ClipLimits | None = None, wants: Sequence[Want] = (crosses,)) -> Clip:
    """Draws a clip whose first movers do what is wanted of them, one each; the others do what chance will have.

    Args:
        rng: The only source of chance.
        limits: What it may be.
        wants: At most as many as there may be movers. More movers are drawn where the limits ask for more.

    Raises:
        GenerationError: If none was found, which is hardly possible where each is possible by itself.
    """
    limits = limits or ClipLimits()
    for _ in range(_MAX_CLIPS_TRIED):
        if (clip := try_clip(rng, limits, wants)) is not None:
            return clip
    raise GenerationError(
        f"No clip was found in {_MAX_CLIPS_TRIED} tries. Use larger frames or fewer or smaller things."
    )


def try_clip(rng: Generator, limits: ClipLimits, wants: Sequence[Want]) -> Clip | None:
    """Returns a clip as `draw_clip` does; None where this try's line, or its things' sizes, left no room for it."""
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
    """Returns a thing that goes somewhere or stays."""
    width, height = frame_size(thing.kind, thing.size_px)
    room = empty.width - width, empty.height - height
    start, end = ([int(rng.integers(0, space + 1)) for space in room] for _ in range(2))
    if rng.random() < _STILL:
        end = start
    first = int(rng.integers(1, empty.num_frames - 1))
    last = int(rng.integers(first + 2, empty.num_frames + 1))
    return Mover(thing=thing.at(start[0], start[1]), to=(end[0], end[1]), first=first, last=last)


def _all_are_seen(clip: Clip) -> bool:
    """Returns whether no thing is ever hidden by more than a little of its frame, nor by half of its pixels."""
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
    # Thin things may be hidden by less than that; they are looked at only here, for it takes drawing them.
    return all(_is_half_seen(clip, frame, below) for frame, below in dict.fromkeys(covered))


def _is_half_seen(clip: Clip, frame: int, index: int) -> bool:
    whole = np.count_nonzero(silhouette(clip.movers[index].thing.appearance))
    return bool(2 * np.count_nonzero(clip.scene(frame).mask(index)) >= whole)
