"""Questions about drawn scenes and clips, and their sources, whose arguments are part of every sample id."""

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
        key: The answer, with what is asked (options not included).
        evidence: What the answer rests on: things of a scene by index, or of a clip by index and frame.
        facts: True sentences from which the answer follows.
    """

    key: AnswerKey
    evidence: tuple[SeenT, ...]
    facts: str


@dataclass(frozen=True)
class Template:
    """A way to ask.

    Attributes:
        name: What reports call it.
        kind: Of its keys.
    """

    name: str
    kind: AnswerKind


TemplateT = TypeVar("TemplateT", bound=Template)


def choice(rng: np.random.Generator, question: str, right: str, wrong: Sequence[str]) -> AnswerKey:
    """Returns the key of a choice between the right option and different wrong ones, in random order."""
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
        """Hash of what is shown, of the question, and of its options."""
        content = hashlib.blake2b(digest_size=16)
        for part in (self.shown.digest, self.question.key.question, *self.question.key.options):
            content.update(part.encode() + b"\0")
        return content.hexdigest()

    def sample(self, sample_id: str, images: Iterable[Any], evidence: Iterable[Evidence], **more: Any) -> Sample:
        """Returns it as a sample."""
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
    """A source of samples that are drawn from seeds.

    Attributes:
        name: What its samples are called, which begins their ids.
        id_pattern: Of ids; the last group is the seed.
        example: An id.
        remedy: What to do where no sample is found.
    """

    name: ClassVar[str]
    id_pattern: ClassVar[re.Pattern[str]]
    example: ClassVar[str]
    remedy: ClassVar[str]

    @classmethod
    @abstractmethod
    def of_arguments(cls, arguments: Sequence[str]) -> Self:
        """Returns the source of the arguments in an id."""

    @abstractmethod
    def sample_id(self, seed: int) -> str:
        """Returns the id of the sample of a seed: the arguments of the source, and the seed."""

    @abstractmethod
    def asked(self, seed: int) -> Asked[ShownT] | None:
        """Returns what a seed asks; None where nothing was found that fits."""

    @abstractmethod
    def sample(self, asked: Asked[ShownT], sample_id: str) -> Sample:
        """Returns what is asked as a sample, with boxes and points of the evidence."""

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split, to which it belongs by a hash of its content; nothing is rendered.

        Args:
            rng: The only source of chance.
            split: `"train"`, `"val"` or `"test"`.

        Raises:
            GenerationError: If no sample of the split was found, which no settings are known to lead to.
        """
        seed, asked = draw_seed(rng, split, self.asked, lambda asked: asked.digest, self.name, self.remedy)
        return self.sample(asked, self.sample_id(seed))

    @classmethod
    def found(cls, sample_id: str) -> Sample:
        """Returns the sample of an id that a source of the class gave, of whatever settings.

        Raises:
            LevelError: If no source gives the id.
        """
        match = cls.id_pattern.fullmatch(sample_id) if isinstance(sample_id, str) else None
        if match is None:
            raise LevelError(f"Ids of {cls.name}s look like {cls.example}; got {str(sample_id)[:120]!r}.")
        *arguments, digits = match.groups()
        try:
            source = cls.of_arguments(arguments)
        except ConfigError as error:
            raise LevelError(f"{sample_id[:200]!r} is no id of a {cls.name}: {error}") from error
        seed = int(digits)
        if seed >= 2**63 or source.sample_id(seed) != sample_id:
            raise LevelError(
                f"Ids of {cls.name}s look like {cls.example}, numbers without leading zeros; got {sample_id[:200]!r}."
            )
        asked = source.asked(seed)
        if asked is None:
            raise LevelError(f"No {cls.name} comes of {sample_id!r}: its seed was never drawn. Take ids from samples.")
        return source.sample(asked, sample_id)


def draw_asked(
    rng: np.random.Generator,
    category: str,
    draft: Callable[[], Any],
    show: Callable[[Any], ShownT | None],
    num_tries: int,
) -> Asked[ShownT] | None:
    """Drafts questions until one is found that can be asked about something that was drawn for it.

    The answer is kept while scenes or clips are tried: rarer answers must not be those for which one is found.

    Args:
        rng: The only source of chance.
        category: Of the question, perhaps with the name of the template behind it.
        draft: Drafts a question, whose `ask` draws the wording and options, or None where it cannot be asked.
        show: Draws what a draft needs; None where it was not found.
        num_tries: Most scenes or clips of one draft.
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
    """Returns what sources can be asked for: categories, and single questions of one, such as `place:quarter`."""
    single = (f"{category}:{template.name}" for category in templates for template in templates[category])
    return (*templates, *single)


def templates_named(templates: Mapping[str, Sequence[TemplateT]], name: str) -> list[TemplateT]:
    """Returns the templates of a category, or the one that is named after it."""
    category, _, single = name.partition(":")
    return [template for template in templates[category] if single in ("", template.name)]


def bounded_range(what: str, value: tuple[int, int] | int, least: int, largest: int) -> tuple[int, int]:
    """Returns the least and the largest of a range inside another, or of one number; raises `ConfigError`."""
    low, high = (require_positive(what, number) for number in require_range(what, value))
    if not least <= low <= high <= largest:
        raise ConfigError(f"{what} must be a range within {least} to {largest}; got {low} to {high}.")
    return low, high


def known_names(what: str, names: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """Returns names that an argument lists, each known and there once; raises `ConfigError`."""
    chosen = as_names(names)
    for name in chosen:
        require_choice(what, name, known)
    if not chosen or len(set(chosen)) != len(chosen):
        raise ConfigError(f"{what} must hold at least one of {', '.join(known)}, each once; got {chosen!r}.")
    return chosen
