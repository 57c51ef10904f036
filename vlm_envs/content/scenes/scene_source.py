"""Samples about scenes: things placed without touching, and a question about them."""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np
from numpy.random import Generator

from vlm_envs.content.random_choice import pick
from vlm_envs.content.scenes.asked import (
    Asked,
    DrawnSource,
    bounded_range,
    draw_asked,
    known_names,
    question_names,
    templates_named,
)
from vlm_envs.content.scenes.brush import FRAME
from vlm_envs.content.scenes.scene import Scene, Thing, filler, limits
from vlm_envs.content.scenes.scene_kinds import KINDS
from vlm_envs.content.scenes.scene_questions import CATEGORIES, TEMPLATES, QuestionDraft, QuestionTemplate
from vlm_envs.content.scenes.scene_rendering import SceneImageRef, scenery_plan
from vlm_envs.content.scenes.settings import SETTINGS
from vlm_envs.content.scenes.settings.setting import Zone
from vlm_envs.content.scenes.sprites import frame_size
from vlm_envs.errors import ConfigError
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.splits import split_of
from vlm_envs.tools.coordinates import PixelRectangle
from vlm_envs.validation import require_positive

_GAP_PX = 3
"""Free pixels between things."""

_TRIES = 12
_MAX_SHARE = 0.3
"""Maximum fraction of the image that frames may cover."""


@dataclass
class Placement:
    """Places things one by one.

    Attributes:
        width: Width of the image.
        height: Height of the image.
        zones: Areas where things may be.
        things: The things placed so far.
    """

    width: int
    height: int
    zones: Sequence[Zone]
    things: list[Thing] = field(default_factory=list)
    _taken: list[PixelRectangle] = field(default_factory=list)
    _clipped: list[Zone] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Clips the zones to the image."""
        self._clipped = [
            replace(
                zone,
                left=max(zone.left, 0),
                top=max(zone.top, 0),
                right=min(zone.right, self.width),
                bottom=min(zone.bottom, self.height),
            )
            for zone in self.zones
        ]

    def add(self, rng: Generator, thing: Thing) -> bool:
        """Places a thing, inside its holder if it has one, else in a zone. Returns False if there is no room."""
        placed = self._within(rng, thing) if thing.inside >= 0 else self._free(rng, thing)
        if placed is None:
            return False
        self.things.append(placed)
        self._taken.append(placed.frame)
        return True

    @property
    def is_full(self) -> bool:
        """Whether things cover the allowed fraction of the image."""
        covered = sum(frame.width * frame.height for frame in self._taken)
        return covered > _MAX_SHARE * self.width * self.height

    def _free(self, rng: Generator, thing: Thing) -> Thing | None:
        width, height = frame_size(thing.kind, thing.size_px)
        place = KINDS[thing.kind].place
        fitting = [
            zone
            for zone in self._clipped
            if place in zone.places and zone.right - zone.left >= width and zone.bottom - zone.top >= height
        ]
        if not fitting:
            return None
        weights = [*accumulate(zone.right - zone.left for zone in fitting)]
        for _ in range(_TRIES):
            zone = fitting[bisect_right(weights, rng.random() * weights[-1])]
            x = int(rng.integers(zone.left, zone.right - width + 1))
            lowest = zone.bottom - height
            y = lowest if zone.standing else int(rng.integers(zone.top, lowest + 1))
            if self._is_free(x - _GAP_PX, y - _GAP_PX, x + width + _GAP_PX, y + height + _GAP_PX):
                return thing.at(x, y)
        return None

    def _is_free(self, left: int, top: int, right: int, bottom: int) -> bool:
        return not any(
            left < other.right and other.left < right and top < other.bottom and other.top < bottom
            for other in self._taken
        )

    def _within(self, rng: Generator, thing: Thing) -> Thing | None:
        """Returns a thing at a position inside its holder; None if it does not fit."""
        holder = self.things[thing.inside]
        holds = KINDS[holder.kind].holds
        if holds is None:
            return None
        unit = holder.size_px / FRAME
        width, height = frame_size(thing.kind, thing.size_px)
        left, top = holder.x + round(holds[0] * unit), holder.y + round(holds[1] * unit)
        right, bottom = holder.x + int(holds[2] * unit) - width, holder.y + int(holds[3] * unit) - height
        if left > right or top > bottom:
            return None
        return replace(thing, x=int(rng.integers(left, right + 1)), y=int(rng.integers(top, bottom + 1)))


KINDS_OF_ANSWERS = ("choice", "exact", "number")
"""Kinds of answer keys that questions about scenes use."""

MIN_SIDE_PX, MAX_SIDE_PX = 96, 8192
"""Smallest side that fits a question's things; largest that tools accept."""

MIN_TARGET_PX = 8
"""Smallest size of a thing that questions ask about."""

_SHAPES = (1.0, 4 / 3, 3 / 2)
"""Aspect ratios, for sides drawn from a range."""

_MAX_SCENES_A_DRAFT = 24


class SceneSource(DrawnSource[Scene]):
    """Questions about generated scenes, with exact answers, boxes, and masks. Its settings are part of every id.

    Args:
        side_px: Smallest and largest side of an image, or one side. A single side gives square images. For a
            range, the longer side is drawn from it, and the shorter one is half to all of that where the
            range allows.
        target_px: Smallest and largest longer side of the things that questions ask about, or one size. Some
            kinds have a larger minimum at which they are recognizable: 17 pixels for a bicycle, 24 for a
            clock that has to be read.
        max_objects: Maximum number of things in a scene, which also never cover more than 30% of it. A
            question's own things are always there.
        categories: Question categories from `CATEGORIES`, equally likely, or single templates, such as
            `attribute:time_choice`.
        kinds: Kinds of answer keys: `choice`, `exact`, `number`.
        settings: Kinds of scenery, from `SETTINGS`.

    Raises:
        ConfigError: If an argument is out of range, or no question of some category can be asked with these
            settings.
    """

    name = "scene"
    id_pattern = re.compile(
        r"scene:side=(\d{1,5})-(\d{1,5}),target=(\d{1,4})-(\d{1,4}),things=(\d{1,4})"
        r",ask=([a-z_:+]{1,400}),key=([a-z+]{1,80}),in=([a-z+]{1,80}):(\d{1,19})"
    )
    example = "scene:side=2000-8000,target=8-40,things=40,ask=existence+count,key=exact+number,in=street+desk:123"
    remedy = "Use larger pictures, smaller targets or fewer categories."

    def __init__(
        self,
        *,
        side_px: tuple[int, int] | int = (2000, 8000),
        target_px: tuple[int, int] | int = (8, 40),
        max_objects: int = 40,
        categories: Iterable[str] = CATEGORIES,
        kinds: Iterable[str] = KINDS_OF_ANSWERS,
        settings: Iterable[str] = tuple(SETTINGS),
    ) -> None:
        self.side_px = bounded_range("side_px", side_px, MIN_SIDE_PX, MAX_SIDE_PX)
        self.target_px = bounded_range("target_px", target_px, MIN_TARGET_PX, self.side_px[0] // 4)
        self.max_objects = max_objects
        require_positive("max_objects", max_objects)
        self.categories = known_names("categories", categories, question_names(TEMPLATES))
        self.kinds = known_names("kinds", kinds, KINDS_OF_ANSWERS)
        self.settings = known_names("settings", settings, tuple(SETTINGS))
        if silent := [category for category in self.categories if not self.templates(category)]:
            raise ConfigError(
                f"Questions of category {', '.join(silent)} cannot be asked with target_px={self.target_px} and "
                f"kinds={self.kinds}. Allow larger targets (at least 12 px) or more kinds, or remove the category."
            )

    def templates(self, category: str) -> tuple[QuestionTemplate, ...]:
        """Returns the usable templates of a category, or the single template that it names."""
        return tuple(
            template
            for template in templates_named(TEMPLATES, category)
            if template.kind in self.kinds and template.can_be_asked(self.target_px)
        )

    def sample_id(self, seed: int) -> str:
        """Returns the id of a seed's sample: the settings of the source, and the seed."""
        sides, targets = (f"{low}-{high}" for low, high in (self.side_px, self.target_px))
        names = ",".join(
            f"{name}={'+'.join(values)}"
            for name, values in (("ask", self.categories), ("key", self.kinds), ("in", self.settings))
        )
        return f"{self.name}:side={sides},target={targets},things={self.max_objects},{names}:{seed}"

    @classmethod
    def of_arguments(cls, arguments: Sequence[str]) -> SceneSource:
        """Returns the source with the settings in an id."""
        low, high, least, largest, number = map(int, arguments[:5])
        categories, kinds, settings = (names.split("+") for names in arguments[5:])
        return cls(
            side_px=(low, high),
            target_px=(least, largest),
            max_objects=number,
            categories=categories,
            kinds=kinds,
            settings=settings,
        )

    def asked(self, seed: int) -> Asked[Scene] | None:
        """Returns the question of a seed; None if no suitable scene was found."""
        rng = np.random.default_rng(seed)
        size = _size(self, rng)
        category = pick(rng, self.categories)
        template = pick(rng, self.templates(category))
        bounds = limits(self.target_px, min(size))
        return draw_asked(
            rng,
            category,
            lambda: template.draft(rng, bounds),
            lambda draft: _scene(self, rng, size, draft),
            _MAX_SCENES_A_DRAFT,
        )

    def sample(self, asked: Asked[Scene], sample_id: str) -> Sample:
        """Returns a question as a sample, with boxes and points of the evidence."""
        scene = asked.shown
        evidence = (
            Evidence(label=scene.things[index].name, box=scene.box(index), point=scene.point(index))
            for index in asked.question.evidence
        )
        return asked.sample(sample_id, (SceneImageRef(scene),), evidence)

    def find(self, sample_id: str) -> Sample:
        """Returns the sample with an id, from a source of scenes with any settings; raises `LevelError` if invalid."""
        return find_sample(sample_id)

    def split_of(self, sample_id: str) -> str:
        """Returns the split of an id, by a hash of the scene and the question; raises as `find`."""
        return split_of(self.find(sample_id).digest.encode())


find_sample = functools.lru_cache(maxsize=64)(SceneSource.found)
"""Returns the sample with an id of any `SceneSource`; raises `LevelError` if the id is invalid."""


def _size(source: SceneSource, rng: Generator) -> tuple[int, int]:
    low, high = source.side_px
    longer = int(rng.integers(low, high + 1))
    shorter = longer if low == high else max(low, round(longer / pick(rng, _SHAPES)))
    return (longer, shorter) if low == high or rng.random() < 0.7 else (shorter, longer)


def _scene(source: SceneSource, rng: Generator, size: tuple[int, int], draft: QuestionDraft) -> Scene | None:
    """Returns a scene with a draft's things and random others; None if something did not fit."""
    width, height = size
    setting = pick(rng, source.settings)
    scenery_seed = int(rng.integers(2**32))
    zones = scenery_plan(setting, width, height, scenery_seed).zones()
    placement = Placement(width, height, zones)
    if not all(placement.add(rng, thing) for thing in draft.things):
        return None
    bounds = limits(source.target_px, min(width, height))
    for _ in range(int(rng.integers(source.max_objects // 2, source.max_objects + 1)) - len(draft.things)):
        if placement.is_full:
            break
        other = filler(rng, bounds, draft.reserved)
        if other is not None:
            placement.add(rng, other)
    return Scene(width=width, height=height, setting=setting, scenery_seed=scenery_seed, things=tuple(placement.things))
