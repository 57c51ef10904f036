"""Samples about clips, drawn from a seed and found again by ids that contain all settings."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

import numpy as np

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
from vlm_envs.content.scenes.clip_drawing import MAX_MOVERS, MAX_SIDE_PX, MIN_SIDE_PX, ClipLimits, try_clip
from vlm_envs.content.scenes.clip_questions import CATEGORIES, TEMPLATES, ClipTemplate
from vlm_envs.content.scenes.settings import SETTINGS
from vlm_envs.content.scenes.videos import Clip, FrameImageRef
from vlm_envs.errors import ConfigError
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.validation import require_range

_MAX_CLIPS_A_DRAFT = 200


class ClipSource(DrawnSource[Clip]):
    """Questions about generated clips, with exact answers, boxes, and masks. Its settings are part of every id.

    Args:
        side_px: Side of the frames, which are square.
        size_px: Smallest and largest longer side of a thing, or one size.
        num_frames: Minimum and maximum number of frames, or one number; frames are half a second apart.
        num_things: Minimum and maximum number of things, or one number. A question that needs more has more.
        categories: Question categories from `CATEGORIES`, equally likely, or single templates, such as
            `place:quarter`.
        settings: Kinds of scenery, from `SETTINGS`.

    Raises:
        ConfigError: If an argument is out of range, or no question of some category can be asked with these
            settings.
    """

    name = "clip"
    id_pattern = re.compile(
        r"clip:side=(\d{1,4}),size=(\d{1,4})-(\d{1,4}),frames=(\d{1,3})-(\d{1,3}),things=(\d)-(\d)"
        r",ask=([a-z_:+]{1,400}),in=([a-z+]{1,80}):(\d{1,19})"
    )
    example = "clip:side=224,size=24-40,frames=8-16,things=2-4,ask=order+time,in=street+desk:123"
    remedy = "Use larger frames, or fewer or smaller things."

    def __init__(
        self,
        *,
        side_px: int = 224,
        size_px: tuple[int, int] | int = (24, 40),
        num_frames: tuple[int, int] | int = (8, 16),
        num_things: tuple[int, int] | int = (2, 4),
        categories: Iterable[str] = CATEGORIES,
        settings: Iterable[str] = tuple(SETTINGS),
    ) -> None:
        self.limits = ClipLimits(
            side_px=bounded_range("side_px", side_px, MIN_SIDE_PX, MAX_SIDE_PX)[0],
            size_px=require_range("size_px", size_px),
            num_frames=require_range("num_frames", num_frames),
            num_movers=bounded_range("num_things", num_things, 1, MAX_MOVERS),
            settings=known_names("settings", settings, tuple(SETTINGS)),
        )
        self.categories = known_names("categories", categories, question_names(TEMPLATES))
        if silent := [category for category in self.categories if not self.templates(category)]:
            raise ConfigError(
                f"Questions of category {', '.join(silent)} cannot be asked with "
                f"num_frames={self.limits.num_frames} "
                f"and num_things={self.limits.num_movers}. Allow at least 6 frames for times and 2 things for "
                "orders "
                "(3 for sequences), or remove the category."
            )

    def templates(self, category: str) -> tuple[ClipTemplate, ...]:
        """Returns the usable templates of a category, or the single template that it names."""
        named = templates_named(TEMPLATES, category)
        return tuple(template for template in named if template.can_be_asked(self.limits))

    def sample_id(self, seed: int) -> str:
        """Returns the id of a seed's sample: the settings of the source, and the seed."""
        limits = self.limits
        sizes, frames, things = (
            f"{low}-{high}" for low, high in (limits.size_px, limits.num_frames, limits.num_movers)
        )
        asked, settings = "+".join(self.categories), "+".join(limits.settings)
        drawn = f"side={limits.side_px},size={sizes},frames={frames},things={things}"
        return f"{self.name}:{drawn},ask={asked},in={settings}:{seed}"

    @classmethod
    def of_arguments(cls, arguments: Sequence[str]) -> ClipSource:
        """Returns the source with the settings in an id."""
        side, least, largest, shortest, longest, fewest, most = map(int, arguments[:7])
        categories, settings = (names.split("+") for names in arguments[7:])
        return cls(
            side_px=side,
            size_px=(least, largest),
            num_frames=(shortest, longest),
            num_things=(fewest, most),
            categories=categories,
            settings=settings,
        )

    def asked(self, seed: int) -> Asked[Clip] | None:
        """Returns the question of a seed; None if no suitable clip was found."""
        rng = np.random.default_rng(seed)
        category = pick(rng, self.categories)
        template = pick(rng, self.templates(category))
        return draw_asked(
            rng,
            category,
            lambda: template.draft(rng, self.limits),
            lambda draft: try_clip(rng, draft.limits, draft.wants),
            _MAX_CLIPS_A_DRAFT,
        )

    def sample(self, asked: Asked[Clip], sample_id: str) -> Sample:
        """Returns a question as a sample, with boxes and points of the evidence."""
        clip, frames = asked.shown, range(1, asked.shown.num_frames + 1)
        images = (FrameImageRef(clip, frame) for frame in frames)
        evidence = (_evidence(clip, mover, frame) for mover, frame in asked.question.evidence)
        return asked.sample(sample_id, images, evidence, times_s=tuple(map(clip.time_s, frames)))

    def find(self, sample_id: str) -> Sample:
        """Returns the sample with an id, from a source of clips with any settings; raises `LevelError` if invalid."""
        return find_sample(sample_id)


def is_clip(sample_id: str) -> bool:
    """Returns whether an id belongs to a `ClipSource`."""
    return sample_id.startswith(f"{ClipSource.name}:")


def find_clip(sample_id: str) -> Clip:
    """Returns the clip of a sample.

    Raises:
        LevelError: If the id does not belong to a clip.
    """
    frame = find_sample(sample_id).images[0]
    assert isinstance(frame, FrameImageRef), "a clip's sample shows its frames"
    return frame.clip


find_sample = functools.lru_cache(maxsize=64)(ClipSource.found)
"""Returns the sample with an id of any `ClipSource`; raises `LevelError` if the id is invalid."""


def _evidence(clip: Clip, mover: int, frame: int) -> Evidence:
    scene = clip.scene(frame)
    name = scene.things[mover].name
    return Evidence(label=name, box=scene.box(mover), point=scene.point(mover), image=frame - 1)
