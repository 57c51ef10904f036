"""Scenes: immutable descriptions of things and their positions, from which boxes, masks, and answers follow."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields, replace
from functools import cache

import numpy as np
from numpy.random import Generator

from vlm_envs.content.colors import COLORS
from vlm_envs.content.random_choice import pick
from vlm_envs.content.scenes.brush import DIGITS, LETTERS
from vlm_envs.content.scenes.scene_kinds import KINDS, PLAIN_KINDS
from vlm_envs.content.scenes.sprites import Appearance, Mask, bounds, frame_size, innermost, silhouette
from vlm_envs.tools.coordinates import Box, OriginalPixels, PixelRectangle, Point


@dataclass(frozen=True, kw_only=True)
class Thing(Appearance):
    """A thing with a position.

    Attributes:
        x: Left column of its frame.
        y: Top row of its frame.
        inside: Index of the thing that contains it; -1 for none.
    """

    x: int = 0
    y: int = 0
    inside: int = -1

    @property
    def name(self) -> str:
        """Color and noun, such as `red mug`."""
        return f"{self.color} {self.kind}"

    @property
    def appearance(self) -> Appearance:
        """The properties that determine its pixels."""
        return Appearance(**{field.name: getattr(self, field.name) for field in fields(Appearance)})

    @property
    def frame(self) -> PixelRectangle:
        """The pixels of its frame; the thing is drawn entirely within it."""
        width, height = frame_size(self.kind, self.size_px)
        return PixelRectangle(self.x, self.y, self.x + width, self.y + height)

    def at(self, x: int, y: int) -> Thing:
        """Returns the same thing at another position."""
        return replace(self, x=x, y=y)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The description of an image.

    Attributes:
        width: Columns.
        height: Rows.
        setting: A key of `SETTINGS`.
        scenery_seed: Seed of the scenery, which contains no kinds of things that questions ask about.
        things: In drawing order. Frames do not touch, except for things inside others.
    """

    width: int
    height: int
    setting: str
    scenery_seed: int
    things: tuple[Thing, ...]

    @property
    def space(self) -> OriginalPixels:
        """The coordinate space of its pixels."""
        return OriginalPixels(self.width, self.height)

    @property
    def digest(self) -> str:
        """BLAKE2 of the description, 32 hexadecimal digits; nothing is rendered."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=16).hexdigest()

    def indices(self, *, kind: str | None = None, color: str | None = None) -> tuple[int, ...]:
        """Returns the indices of the things of a kind and a color; None matches any."""
        return tuple(
            index
            for index, thing in enumerate(self.things)
            if kind in (None, thing.kind) and color in (None, thing.color)
        )

    def box(self, index: int) -> Box[OriginalPixels]:
        """Returns the bounding box of a thing's pixels, including those hidden by other things."""
        thing = self.things[index]
        left, top, right, bottom = bounds(silhouette(thing.appearance))
        x, y = thing.x, thing.y
        return Box(float(x + left), float(y + top), float(x + right), float(y + bottom), self.space)

    def point(self, index: int) -> Point[OriginalPixels]:
        """Returns the center of a pixel deep inside the visible part of a thing.

        The thing must be visible, which placement ensures.
        """
        thing = self.things[index]
        column, row = innermost(self._seen(index))
        return Point(thing.x + column + 0.5, thing.y + row + 0.5, self.space)

    def mask(self, *indices: int) -> Mask:
        """Returns bool[height, width], True where any of several things is visible; all False for none."""
        whole = np.zeros((self.height, self.width), np.bool_)
        for index in indices:
            whole[self.things[index].frame.slices()] |= self._seen(index)
        return whole

    def _seen(self, index: int) -> Mask:
        """Returns the visible part of a thing's silhouette, in its frame."""
        frame = self.things[index].frame
        seen = silhouette(self.things[index].appearance).copy()
        for later in self.things[index + 1 :]:
            if hidden := frame.overlap(later.frame):
                seen[hidden.slices(frame)] &= ~silhouette(later.appearance)[hidden.slices(later.frame)]
        return seen

    def to_json(self) -> str:
        """Returns the description as JSON, equal for equal scenes."""
        content = asdict(self)
        for thing in content["things"]:
            # Digests decide splits and must not change, so colors are written under their original key
            thing["colour"] = thing.pop("color")
        return json.dumps(content, sort_keys=True, separators=(",", ":"))


CLOCK_PX, SIGN_PX = KINDS["clock"].legible_px, KINDS["sign"].legible_px
"""Smallest longer sides at which a clock's time and a sign's three letters are legible."""

TIME_STEP_MINUTES = 15
"""Clocks show multiples of a quarter of an hour."""

Trait = tuple[str | None, str | None]
"""A kind and a color; None matches any."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a scene's things.

    Attributes:
        small_px: Smallest and largest longer side of a thing that questions ask about.
        large_px: Largest longer side of other things.
        kinds: Kinds that are recognizable at the largest small size.
    """

    small_px: tuple[int, int]
    large_px: int
    kinds: tuple[str, ...]

    @property
    def plain_kinds(self) -> tuple[str, ...]:
        """Kinds whose instances differ only in color."""
        return tuple(kind for kind in self.kinds if kind in PLAIN_KINDS)


def limits(small_px: tuple[int, int], shorter_side_px: int) -> Limits:
    """Returns the limits of scenes of a given size.

    Args:
        small_px: Smallest and largest longer side of a thing that questions ask about.
        shorter_side_px: Shorter side of the image.
    """
    large = max(small_px[1], min(12 * small_px[1], shorter_side_px // 5))
    return Limits(small_px=small_px, large_px=large, kinds=recognisable(small_px[1]))


def recognisable(size_px: int) -> tuple[str, ...]:
    """Returns the kinds that are recognizable at a size."""
    return tuple(kind.name for kind in KINDS.values() if kind.legible_px <= size_px)


@cache
def colors_of(kind: str) -> tuple[str, ...]:
    """Returns the colors of a kind; the rim of a clock or a sign must differ from its face."""
    return tuple(color for color in COLORS if kind not in ("clock", "sign") or color not in ("white", "grey"))


def small(rng: Generator, limits: Limits, kind: str, color: str) -> Thing:
    """Returns a thing of a size that questions ask about, with a text or a time if its kind has one."""
    low = max(limits.small_px[0], KINDS[kind].legible_px)
    return _made(rng, kind, color, int(rng.integers(low, limits.small_px[1] + 1)))


def sign_text(rng: Generator) -> str:
    """Returns a letter and two digits, or two letters and a digit."""
    shape = (LETTERS, DIGITS, DIGITS) if rng.random() < 0.5 else (LETTERS, LETTERS, DIGITS)
    return "".join(pick(rng, letters) for letters in shape)


def clock_minutes(rng: Generator) -> int:
    """Returns a random time for a clock, in minutes past twelve."""
    return TIME_STEP_MINUTES * int(rng.integers(12 * 60 // TIME_STEP_MINUTES))


def look_alikes(
    rng: Generator, limits: Limits, kind: str, color: str, number: int, reserved: Collection[Trait]
) -> list[Thing]:
    """Returns small distractors that share either the kind or the color of a target, never both.

    Args:
        rng: The only source of randomness.
        limits: Sizes and kinds.
        kind: Kind of the target.
        color: Color of the target.
        number: Number of distractors; fewer if reserved traits leave no choice.
        reserved: Traits that distractors must not have.
    """
    found: list[Thing] = []
    for index in range(number):
        same_kind = index % 2 == 0
        traits = (
            [(kind, other) for other in colors_of(kind) if other != color]
            if same_kind
            else [(other, color) for other in limits.plain_kinds if other != kind]
        )
        free = [trait for trait in traits if not is_reserved(*trait, reserved)]
        if free:
            found.append(small(rng, limits, *pick(rng, free)))
    return found


def filler(rng: Generator, limits: Limits, reserved: Collection[Trait]) -> Thing | None:
    """Returns a small or large thing that no question is about; None if the drawn traits are reserved."""
    kind = pick(rng, limits.kinds)
    colors = colors_of(kind)
    color = pick(rng, colors)
    if is_reserved(kind, color, reserved):
        return None
    if rng.random() < 0.5:
        return small(rng, limits, kind, color)
    # Log-uniform, because nearly all sizes of a uniform draw would be close to the largest
    low, high = np.log(limits.small_px[1]), np.log(limits.large_px + 1)
    return _made(rng, kind, color, int(np.exp(low + (high - low) * rng.random())))


def is_reserved(kind: str, color: str, reserved: Collection[Trait]) -> bool:
    """Returns whether a thing of this kind and color would have a reserved trait."""
    return any(trait in reserved for trait in ((kind, color), (kind, None), (None, color)))


def _made(rng: Generator, kind: str, color: str, size_px: int) -> Thing:
    if kind == "sign":
        return Thing(kind=kind, color=color, size_px=size_px, text=sign_text(rng))
    if kind == "clock":
        return Thing(kind=kind, color=color, size_px=size_px, minutes=clock_minutes(rng))
    mirrored = KINDS[kind].turns and bool(rng.random() < 0.5)
    return Thing(kind=kind, color=color, size_px=size_px, mirrored=mirrored)
