"""Samples about clips: drawn from a seed, found again by an id that says how they were drawn."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vlm_envs.content.random_choice import pick
from vlm_envs.content.scenes.clip_drawing import (
    MAX_FRAMES,
    MAX_MOVERS,
    MAX_SIDE_PX,
    MIN_FRAMES,
    MIN_SIDE_PX,
    MIN_SIZE_PX,
    ClipLimits,
    try_clip,
)
from vlm_envs.content.scenes.clip_questions import CATEGORIES, TEMPLATES, ClipQuestion, ClipTemplate
from vlm_envs.content.scenes.scene_source import bounded_range, known_names
from vlm_envs.content.scenes.settings import SETTINGS
from vlm_envs.content.scenes.videos import Clip, FrameImageRef
from vlm_envs.content.seeded import digest_of, draw_sample, find_asked
from vlm_envs.errors import ConfigError
from vlm_envs.qa.sample import Evidence, Sample

_QUESTIONS = tuple(f"{category}:{template.name}" for category in CATEGORIES for template in TEMPLATES[category])
"""Names of single questions."""

_MAX_DRAFTS = 16
_MAX_CLIPS_A_DRAFT = 200

_ID = re.compile(
    r"clip:side=(\d{1,4}),size=(\d{1,4})-(\d{1,4}),frames=(\d{1,3})-(\d{1,3}),things=(\d)-(\d)"
    r",ask=([a-z_:+]{1,400}),in=([a-z+]{1,80}):(\d{1,19})"
)
_EXAMPLE = "clip:side=224,size=24-40,frames=8-16,things=2-4,ask=order+time,in=street+desk:123"


class ClipSource:
    """Questions about generated clips, with exact answers, boxes and masks. Its arguments are part of every id.

    Args:
        side_px: Side of the frames, which are squares.
        size_px: Least and largest longer side of a thing, or the one size.
        num_frames: Fewest and most frames, or the one number; they lie half a second apart.
        num_things: Fewest and most things, or the one number. A question that needs more has more.
        categories: Of questions, from `CATEGORIES`, each as often as another; or single questions of one, such as
            `place:quarter`, by the names of their templates.
        settings: Of scenery, from `SETTINGS`.

    Raises:
        ConfigError: If an argument is out of range, or no question of some category can be asked under them.
    """

    name = "clip"

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
        side_px, _ = bounded_range("side_px", side_px, MIN_SIDE_PX, MAX_SIDE_PX)
        self.limits = ClipLimits(
            side_px=side_px,
            size_px=bounded_range("size_px", size_px, MIN_SIZE_PX, max(MIN_SIZE_PX, side_px // 5)),
            num_frames=bounded_range("num_frames", num_frames, MIN_FRAMES, MAX_FRAMES),
            num_movers=bounded_range("num_things", num_things, 1, MAX_MOVERS),
            settings=known_names("settings", settings, tuple(SETTINGS)),
        )
        self.categories = known_names("categories", categories, CATEGORIES + _QUESTIONS)
        if silent := [category for category in self.categories if not self.templates(category)]:
            raise ConfigError(
                f"Questions of category {', '.join(silent)} cannot be asked with num_frames={self.limits.num_frames} "
                f"and num_things={self.limits.num_movers}. Allow at least 6 frames for times and 2 things for orders "
                "(3 for sequences), or leave the category out."
            )

    def templates(self, category: str) -> tuple[ClipTemplate, ...]:
        """Returns the ways to ask a question of a category, or the single one that is named behind it."""
        category, _, name = category.partition(":")
        return tuple(
            template
            for template in TEMPLATES[category]
            if name in ("", template.name) and template.can_be_asked(self.limits)
        )

    def sample_id(self, seed: int) -> str:
        """Returns the id of the sample of a seed: the arguments of the source, and the seed."""
        limits = self.limits
        sizes, frames, things = (
            f"{low}-{high}" for low, high in (limits.size_px, limits.num_frames, limits.num_movers)
        )
        asked, settings = "+".join(self.categories), "+".join(limits.settings)
        drawn = f"side={limits.side_px},size={sizes},frames={frames},things={things}"
        return f"{self.name}:{drawn},ask={asked},in={settings}:{seed}"

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split; nothing is rendered.

        Args:
            rng: The only source of chance.
            split: `"train"`, `"val"` or `"test"`; a clip with its question belongs to one, by a hash of its content.

        Raises:
            GenerationError: If no sample of the split was found, which no settings are known to lead to.
        """
        return draw_sample(self, _asked, rng, split, remedy="Use larger frames, or fewer or smaller things.")

    def find(self, sample_id: str) -> Sample:
        """Returns the sample of an id, whichever source of clips drew it.

        Raises:
            LevelError: If the id is none of a clip.
        """
        return find_sample(sample_id)


def is_clip(sample_id: str) -> bool:
    """Returns whether an id is one that a `ClipSource` gives."""
    return sample_id.startswith(f"{ClipSource.name}:")


def find_clip(sample_id: str) -> Clip:
    """Returns the clip that a sample is about.

    Raises:
        LevelError: If the id is none of a clip.
    """
    frame = find_sample(sample_id).images[0]
    assert isinstance(frame, FrameImageRef), "a clip's sample shows its frames"
    return frame.clip


@functools.lru_cache(maxsize=64)
def find_sample(sample_id: str) -> Sample:
    """Returns the sample of an id that a `ClipSource` gave, of whatever settings.

    Raises:
        LevelError: If the id is none of a clip.
    """
    asked = find_asked(sample_id, _ID, _source_of, _asked, what=ClipSource.name, example=_EXAMPLE)
    return asked.sample(sample_id)


def _source_of(arguments: tuple[str, ...]) -> ClipSource:
    """Returns the source of the arguments in an id."""
    side, least, largest, shortest, longest, fewest, most = map(int, arguments[:7])
    categories, settings = (names.split("+") for names in arguments[7:])
    return ClipSource(
        side_px=side,
        size_px=(least, largest),
        num_frames=(shortest, longest),
        num_things=(fewest, most),
        categories=categories,
        settings=settings,
    )


@dataclass(frozen=True)
class _Asked:
    """A clip and a question about it."""

    clip: Clip
    question: ClipQuestion
    category: str

    @property
    def digest(self) -> str:
        """Hash of the clip, the question and its options."""
        return digest_of(self.clip.digest, self.question.text, self.question.key.options)

    def sample(self, sample_id: str) -> Sample:
        """Returns the sample. Boxes and points of the evidence are worked out here: they cost more than the rest."""
        clip, frames = self.clip, range(1, self.clip.num_frames + 1)
        return Sample(
            sample_id=sample_id,
            question=self.question.text,
            key=self.question.key,
            category=self.category,
            digest=self.digest,
            images=tuple(FrameImageRef(clip, frame) for frame in frames),
            times_s=tuple(map(clip.time_s, frames)),
            evidence=tuple(_evidence(clip, mover, frame) for mover, frame in self.question.evidence),
            facts=self.question.facts,
        )


def _evidence(clip: Clip, mover: int, frame: int) -> Evidence:
    scene = clip.scene(frame)
    name = scene.things[mover].name
    return Evidence(label=name, box=scene.box(mover), point=scene.point(mover), image=frame - 1)


def _asked(source: ClipSource, seed: int) -> _Asked | None:
    """Returns what a seed asks; None where no clip was found for what it wants."""
    rng = np.random.default_rng(seed)
    category = pick(rng, source.categories)
    template = pick(rng, source.templates(category))
    for _ in range(_MAX_DRAFTS):
        draft = template.draft(rng, source.limits)
        # The answer is kept while clips are tried: rarer answers must not be those that are found.
        for _ in range(_MAX_CLIPS_A_DRAFT):
            clip = try_clip(rng, draft.limits, draft.wants)
            question = draft.ask(rng, clip) if clip is not None else None
            if clip is not None and question is not None:
                return _Asked(clip, question, category.partition(":")[0])
    return None
