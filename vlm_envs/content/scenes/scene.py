"""A scene: what is where, as a value. Boxes, masks and answers come from it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace

import numpy as np

from vlm_envs.content.scenes.sprites import Appearance, Mask, bounds, frame_size, innermost, silhouette
from vlm_envs.tools.coordinates import Box, OriginalPixels, PixelRectangle, Point


@dataclass(frozen=True, kw_only=True, slots=True)
class Thing(Appearance):
    """One thing in its place.

    Attributes:
        x: Left column of its frame.
        y: Top row of its frame.
        inside: Index of the thing it lies in; -1 for none.
    """

    x: int = 0
    y: int = 0
    inside: int = -1

    @property
    def name(self) -> str:
        """Colour and noun, such as `red mug`."""
        return f"{self.color} {self.kind}"

    @property
    def appearance(self) -> Appearance:
        """What decides its pixels."""
        return Appearance(**{field.name: getattr(self, field.name) for field in fields(Appearance)})

    @property
    def frame(self) -> PixelRectangle:
        """The pixels its frame covers; none of it is drawn outside."""
        width, height = frame_size(self.kind, self.size_px)
        return PixelRectangle(self.x, self.y, self.x + width, self.y + height)

    def at(self, x: int, y: int) -> Thing:
        """Returns the same thing somewhere else."""
        return replace(self, x=x, y=y)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """A picture's description.

    Attributes:
        width: Columns.
        height: Rows.
        setting: A key of `SETTINGS`.
        scenery_seed: What the setting's scenery is drawn by; nothing in it is of a kind that questions ask about.
        things: In the order they are drawn. Frames do not touch, but for things that lie in others.
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
        """Returns the indices of the things of a kind and a colour, any where none is given."""
        return tuple(
            index
            for index, thing in enumerate(self.things)
            if kind in (None, thing.kind) and color in (None, thing.color)
        )

    def box(self, index: int) -> Box[OriginalPixels]:
        """Returns the smallest box around a thing's pixels, those another thing hides included."""
        thing = self.things[index]
        left, top, right, bottom = bounds(silhouette(thing.appearance))
        x, y = thing.x, thing.y
        return Box(float(x + left), float(y + top), float(x + right), float(y + bottom), self.space)

    def point(self, index: int) -> Point[OriginalPixels]:
        """Returns the middle of a pixel deep inside a thing, where nothing hides it.

        The thing must be seen at all, which placement sees to.
        """
        thing = self.things[index]
        column, row = innermost(self._seen(index))
        return Point(thing.x + column + 0.5, thing.y + row + 0.5, self.space)

    def mask(self, *indices: int) -> Mask:
        """Returns bool[height, width]: the pixels in which any of several things is seen; all False for none."""
        whole = np.zeros((self.height, self.width), np.bool_)
        for index in indices:
            frame = self.things[index].frame
            whole[frame.top : frame.bottom, frame.left : frame.right] |= self._seen(index)
        return whole

    def _seen(self, index: int) -> Mask:
        """Returns a thing's silhouette less what things drawn later hide, in its frame."""
        frame = self.things[index].frame
        seen = silhouette(self.things[index].appearance).copy()
        for later in self.things[index + 1 :]:
            over = later.frame
            top, bottom = max(frame.top, over.top), min(frame.bottom, over.bottom)
            left, right = max(frame.left, over.left), min(frame.right, over.right)
            if top < bottom and left < right:
                part = silhouette(later.appearance)[
                    top - over.top : bottom - over.top, left - over.left : right - over.left
                ]
                seen[top - frame.top : bottom - frame.top, left - frame.left : right - frame.left] &= ~part
        return seen

    def to_json(self) -> str:
        """Returns the description as JSON, equal for equal scenes."""
        return json.dumps(
            {
                **{name: getattr(self, name) for name in _SCENE_FIELDS},
                "things": [{key: getattr(thing, name) for key, name in _THING_FIELDS} for thing in self.things],
            },
            sort_keys=True,
            separators=(",", ":"),
        )


_SCENE_FIELDS = tuple(field.name for field in fields(Scene) if field.name != "things")
# Digests, and with them splits, stay as they were first written, so the key of a color does too.
_THING_FIELDS = tuple(("colour" if field.name == "color" else field.name, field.name) for field in fields(Thing))
