"""Questions about drawn scenes and clips, and their sources, whose settings are part of every sample id."""

from __future__ import annotations

import hashlib
import re
import string
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np

from vlm_envs.content.seeded import draw_seed
from vlm_envs.errors import ConfigError, LevelError
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.responses.answers import AnswerKey, AnswerKind
from vlm_envs.validation import as_names, require_choice, require_positive, require_range

_MAX_DRAFTS = 16

SeenT = TypeVar("SeenT")


class Shown(Protocol):
    """A scene or a clip."""

    @property
    def digest(self) -> str:
        """Hash of its description."""


ShownT = TypeVar("ShownT", bound=Shown)


@dataclass(frozen=True)
class Question(Generic[SeenT]):
    """A question about a scene or a clip.

    Attributes:
        key: The question text, without options, and its answer.
        evidence: Things that the answer depends on: indices in a scene, or index and frame in a clip.
        facts: True sentences that imply the answer.
    """

    key: AnswerKey
    evidence: tuple[SeenT, ...]
    facts: str


@dataclass(frozen=True)
class Template:
    """A question template.

    Attributes:
        name: Name in reports.
        kind: Kind of its answer keys.
    """

    name: str
    kind: AnswerKind


TemplateT = TypeVar("TemplateT", bound=Template)


def choice(rng: np.random.Generator, question: str, right: str, wrong: Sequence[str]) -> AnswerKey:
    """Returns the key of a multiple-choice question: the right option and wrong ones, in random order."""
    options = [right, *wrong]
    order = rng.permutation(len(options))
    shown = tuple(options[index] for index in order)
    letter = string.ascii_uppercase[shown.index(right)]
    return AnswerKey(kind="choice", answers=(letter,), options=shown, question=question)


def number_key(question: str, answer: int) -> AnswerKey:
    """Returns the key of a count."""
    return AnswerKey(kind="number", answers=(str(answer),), question=question)


@dataclass(frozen=True)
class Asked(Generic[ShownT]):
    """A scene or a clip, and a question about it."""

    shown: ShownT
    question: Question[Any]
    category: str

    @property
    def digest(self) -> str:
        """Hash of the scene or clip, the question, and its options."""
        content = hashlib.blake2b(digest_size=16)
        for part in (self.shown.digest, self.question.key.question, *self.question.key.options):
            content.update(part.encode() + b"\0")
        return content.hexdigest()

    def sample(self, sample_id: str, images: Iterable[Any], evidence: Iterable[Evidence], **more: Any) -> Sample:
        """Returns the question as a sample."""
        return Sample(
            sample_id=sample_id,
            question=self.question.key.question,
            key=self.question.key,
            category=self.category,
            digest=self.digest,
            images=tuple(images),
            evidence=tuple(evidence),
            facts=self.question.facts,
            **more,
        )


class DrawnSource(ABC, Generic[ShownT]):
    """A source that draws samples from seeds.

    Attributes:
        name: Name of its samples, and prefix of their ids.
        id_pattern: Pattern of ids; the last group is the seed.
        example: An example id.
        remedy: Suggestion if no sample is found.
    """

    name: ClassVar[str]
    id_pattern: ClassVar[re.Pattern[str]]
    example: ClassVar[str]
    remedy: ClassVar[str]

    @classmethod
    @abstractmethod
    def of_arguments(cls, arguments: Sequence[str]) -> Self:
        """Returns the source with the settings in an id."""

    @abstractmethod
    def sample_id(self, seed: int) -> str:
        """Returns the id of a seed's sample: the settings of the source, and the seed."""

    @abstractmethod
    def asked(self, seed: int) -> Asked[ShownT] | None:
        """Returns the question of a seed; None if nothing suitable was found."""

    @abstractmethod
    def sample(self, asked: Asked[ShownT], sample_id: str) -> Sample:
        """Returns a question as a sample, with boxes and points of the evidence."""

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split; a hash of its content decides the split. Nothing is rendered.

        Args:
            rng: The only source of randomness.
            split: `"train"`, `"val"` or `"test"`.

        Raises:
            GenerationError: If no sample of the split was found; no settings are known to cause this.
        """
        seed, asked = draw_seed(rng, split, self.asked, lambda asked: asked.digest, self.name, self.remedy)
        return self.sample(asked, self.sample_id(seed))

    @classmethod
    def found(cls, sample_id: str) -> Sample:
        """Returns the sample with an id, from a source of this class with any settings.

        Raises:
            LevelError: If the id is not valid.
        """
        match = cls.id_pattern.fullmatch(sample_id) if isinstance(sample_id, str) else None
        if match is None:
            raise LevelError(f"The id of a {cls.name} looks like {cls.example}; got {str(sample_id)[:120]!r}.")
        *arguments, digits = match.groups()
        try:
            source = cls.of_arguments(arguments)
        except ConfigError as error:
            raise LevelError(f"{sample_id[:200]!r} is not the id of a {cls.name}: {error}") from error
        seed = int(digits)
        if seed >= 2**63 or source.sample_id(seed) != sample_id:
            raise LevelError(
                f"The id of a {cls.name} looks like {cls.example}, without leading zeros; got {sample_id[:200]!r}."
            )
        asked = source.asked(seed)
        if asked is None:
            raise LevelError(f"The seed in {sample_id!r} does not produce a {cls.name}. Use ids from samples.")
        return source.sample(asked, sample_id)


def draw_asked(
    rng: np.random.Generator,
    category: str,
    draft: Callable[[], Any],
    show: Callable[[Any], ShownT | None],
    num_tries: int,
) -> Asked[ShownT] | None:
    """Drafts questions until one can be asked about a scene or clip drawn for it.

    The answer is fixed before scenes or clips are tried, so that hard-to-place answers are not rarer.

    Args:
        rng: The only source of randomness.
        category: Category of the question, optionally followed by the name of a template.
        draft: Drafts a question. Its `ask` draws wording and options, or returns None if it cannot be asked.
        show: Draws a scene or clip for a draft; None if none was found.
        num_tries: Maximum number of scenes or clips per draft.
    """
    for _ in range(_MAX_DRAFTS):
        drafted = draft()
        for _ in range(num_tries):
            shown = show(drafted)
            question = drafted.ask(rng, shown) if shown is not None else None
            if shown is not None and question is not None:
                return Asked(shown, question, category.partition(":")[0])
    return None


def question_names(templates: Mapping[str, Sequence[Template]]) -> tuple[str, ...]:
    """Returns the available names: categories, and single templates such as `place:quarter`."""
    single = (f"{category}:{template.name}" for category in templates for template in templates[category])
    return (*templates, *single)


def templates_named(templates: Mapping[str, Sequence[TemplateT]], name: str) -> list[TemplateT]:
    """Returns the templates of a category, or the single template that the name specifies."""
    category, _, single = name.partition(":")
    return [template for template in templates[category] if single in ("", template.name)]


def bounded_range(what: str, value: tuple[int, int] | int, least: int, largest: int) -> tuple[int, int]:
    """Validates a range, or a single number, against bounds; raises `ConfigError`."""
    low, high = (require_positive(what, number) for number in require_range(what, value))
    if not least <= low <= high <= largest:
        raise ConfigError(f"{what} must be a range within {least} to {largest}; got {low} to {high}.")
    return low, high


def known_names(what: str, names: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """Validates a list of distinct names against the known ones; raises `ConfigError`."""
    chosen = as_names(names)
    for name in chosen:
        require_choice(what, name, known)
    if not chosen or len(set(chosen)) != len(chosen):
        raise ConfigError(f"{what} must list at least one of {', '.join(known)}, without duplicates; got {chosen!r}.")
    return chosen
