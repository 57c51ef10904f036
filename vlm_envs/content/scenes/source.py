"""Samples about scenes: drawn from a seed, found again by an id that says how they were drawn."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vlm_envs.content.drawing import pick
from vlm_envs.content.scenes.placement import Placement
from vlm_envs.content.scenes.questions.question import Question, QuestionDraft, QuestionTemplate
from vlm_envs.content.scenes.questions.templates import CATEGORIES, TEMPLATES
from vlm_envs.content.scenes.rendering import SceneImageRef, scenery_plan
from vlm_envs.content.scenes.scene import Scene
from vlm_envs.content.scenes.seeded import digest_of, draw_sample, find_asked
from vlm_envs.content.scenes.settings.table import SETTINGS
from vlm_envs.content.scenes.things import filler, limits
from vlm_envs.errors import ConfigError
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.splits import split_of
from vlm_envs.validation import as_names, require_choice, require_positive, require_range

KINDS_OF_ANSWERS = ("choice", "exact", "number")
"""Kinds of keys that questions about scenes have."""

_QUESTIONS = tuple(f"{category}:{template.name}" for category in CATEGORIES for template in TEMPLATES[category])
"""Names of single questions."""

MIN_SIDE_PX, MAX_SIDE_PX = 96, 8192
"""Least side in which a question's things find room; largest that tools accept."""

MIN_TARGET_PX = 8
"""Least size of a thing that questions ask about."""

_SHAPES = (1.0, 4 / 3, 3 / 2)
"""Longer side by shorter one, where sides are drawn from a range."""

_MAX_DRAFTS = 16
_MAX_SCENES_A_DRAFT = 24

_ID = re.compile(
    r"scene:side=(\d{1,5})-(\d{1,5}),target=(\d{1,4})-(\d{1,4}),things=(\d{1,4})"
    r",ask=([a-z_:+]{1,400}),key=([a-z+]{1,80}),in=([a-z+]{1,80}):(\d{1,19})"
)
_EXAMPLE = "scene:side=2000-8000,target=8-40,things=40,ask=existence+count,key=exact+number,in=street+desk:123"


class SceneSource:
    """Questions about generated scenes, with exact answers, boxes and masks. Its arguments are part of every id.

    Args:
        side_px: Least and largest side of a picture, or the one side of all of them. Where the two are equal all
            pictures are squares; else the longer side is anything between, and the shorter one a half to a whole of it
            where that is in the range.
        target_px: Least and largest longer side of the things that questions ask about, or the one size. Some kinds
            are never drawn at the least sizes, where one could not tell them: a bicycle has at least 17 pixels, a clock
            whose time is asked for 24.
        max_objects: Most things in a scene, and never more than cover three tenths of it; what a question needs is
            there however few they are to be.
        categories: Of questions, from `CATEGORIES`, each as often as another; or single questions of one, such as
            `attribute:time_choice`, by the names of their templates.
        kinds: Of answer keys: `choice`, `exact`, `number`.
        settings: Of scenes, from `SETTINGS`.

    Raises:
        ConfigError: If an argument is out of range, or no question of some category can be asked under them.
    """

    name = "scene"

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
        self.categories = known_names("categories", categories, CATEGORIES + _QUESTIONS)
        self.kinds = known_names("kinds", kinds, KINDS_OF_ANSWERS)
        self.settings = known_names("settings", settings, tuple(SETTINGS))
        if silent := [category for category in self.categories if not self.templates(category)]:
            raise ConfigError(
                f"Questions of category {', '.join(silent)} cannot be asked with target_px={self.target_px} and "
                f"kinds={self.kinds}. Allow larger targets (at least 12 px) or more kinds, or leave the category out."
            )

    def templates(self, category: str) -> tuple[QuestionTemplate, ...]:
        """Returns the ways to ask a question of a category, or the single one that is named behind it."""
        category, _, name = category.partition(":")
        return tuple(
            template
            for template in TEMPLATES[category]
            if name in ("", template.name) and template.kind in self.kinds and template.can_be_asked(self.target_px)
        )

    def sample_id(self, seed: int) -> str:
        """Returns the id of the sample of a seed: the arguments of the source, and the seed."""
        sides, targets = (f"{low}-{high}" for low, high in (self.side_px, self.target_px))
        names = ",".join(
            f"{name}={'+'.join(values)}"
            for name, values in (("ask", self.categories), ("key", self.kinds), ("in", self.settings))
        )
        return f"{self.name}:side={sides},target={targets},things={self.max_objects},{names}:{seed}"

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split; nothing is rendered.

        Args:
            rng: The only source of chance.
            split: `"train"`, `"val"` or `"test"`; a scene with its question belongs to one, by a hash of its content.

        Raises:
            GenerationError: If no sample of the split was found, which no settings are known to lead to.
        """
        return draw_sample(self, _asked, rng, split, remedy="Use larger pictures, smaller targets or fewer categories.")

    def split_of(self, sample_id: str) -> str:
        """Returns the split of an id, by a hash of what it shows and asks; raises as `find`."""
        return split_of(self.find(sample_id).digest.encode())

    def find(self, sample_id: str) -> Sample:
        """Returns the sample of an id, whichever source of scenes drew it.

        Raises:
            LevelError: If the id is none of a scene.
        """
        return find_sample(sample_id)


@functools.lru_cache(maxsize=64)
def find_sample(sample_id: str) -> Sample:
    """Returns the sample of an id that a `SceneSource` gave, of whatever settings.

    Raises:
        LevelError: If the id is none of a scene.
    """
    asked = find_asked(sample_id, _ID, _source_of, _asked, what=SceneSource.name, example=_EXAMPLE)
    return asked.sample(sample_id)


def _source_of(arguments: tuple[str, ...]) -> SceneSource:
    """Returns the source of the arguments in an id."""
    low, high, least, largest, number = map(int, arguments[:5])
    categories, kinds, settings = (names.split("+") for names in arguments[5:])
    return SceneSource(
        side_px=(low, high),
        target_px=(least, largest),
        max_objects=number,
        categories=categories,
        kinds=kinds,
        settings=settings,
    )


@dataclass(frozen=True)
class _Asked:
    """A scene and a question about it."""

    scene: Scene
    question: Question
    category: str

    @property
    def digest(self) -> str:
        """Hash of the scene, the question and its options."""
        return digest_of(self.scene.digest, self.question.text, self.question.key.options)

    def sample(self, sample_id: str) -> Sample:
        """Returns the sample. Boxes and points of the evidence are worked out here: they cost more than the rest."""
        scene, question = self.scene, self.question
        return Sample(
            sample_id=sample_id,
            question=question.text,
            key=question.key,
            category=self.category,
            digest=self.digest,
            images=(SceneImageRef(scene),),
            evidence=tuple(
                Evidence(label=scene.things[index].name, box=scene.box(index), point=scene.point(index))
                for index in question.evidence
            ),
            facts=question.facts,
        )


def _asked(source: SceneSource, seed: int) -> _Asked | None:
    """Returns what a seed asks; None where no scene was found for what it wants."""
    rng = np.random.default_rng(seed)
    width, height = _size(source, rng)
    category = pick(rng, source.categories)
    templates = source.templates(category)
    template = pick(rng, templates)
    bounds = limits(source.target_px, min(width, height))
    for _ in range(_MAX_DRAFTS):
        draft = template.draft(rng, bounds)
        # The answer is kept while scenes are tried: rarer answers must not be those that find room.
        for _ in range(_MAX_SCENES_A_DRAFT):
            scene = _scene(source, rng, (width, height), draft)
            question = draft.ask(rng, scene) if scene is not None else None
            if scene is not None and question is not None:
                return _Asked(scene, question, category.partition(":")[0])
    return None


def _size(source: SceneSource, rng: np.random.Generator) -> tuple[int, int]:
    low, high = source.side_px
    longer = int(rng.integers(low, high + 1))
    shorter = longer if low == high else max(low, round(longer / pick(rng, _SHAPES)))
    return (longer, shorter) if low == high or rng.random() < 0.7 else (shorter, longer)


def _scene(source: SceneSource, rng: np.random.Generator, size: tuple[int, int], draft: QuestionDraft) -> Scene | None:
    """Returns a scene with what a draft needs and other things; None where something did not find room."""
    width, height = size
    setting = pick(rng, source.settings)
    scenery_seed = int(rng.integers(2**32))
    zones = SETTINGS[setting].zones(scenery_plan(setting, width, height, scenery_seed))
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


def bounded_range(what: str, value: tuple[int, int] | int, least: int, largest: int) -> tuple[int, int]:
    """Returns the least and the largest of a range inside another, or of one number; raises `ConfigError`."""
    low, high = (require_positive(what, number) for number in require_range(what, value))
    if not least <= low <= high <= largest:
        raise ConfigError(f"{what} must be a range within {least} to {largest}; got {low} to {high}.")
    return low, high


def known_names(what: str, names: Iterable[str], known: tuple[str, ...]) -> tuple[str, ...]:
    """Returns names that an argument lists, each known and there once; raises `ConfigError`."""
    chosen = as_names(names)
    for name in chosen:
        require_choice(what, name, known)
    if not chosen or len(set(chosen)) != len(chosen):
        raise ConfigError(f"{what} must hold at least one of {', '.join(known)}, each once; got {chosen!r}.")
    return chosen
