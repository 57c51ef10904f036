"""Texts made of simple sentences that can be changed in one respect at a time.

A draft is paragraphs of sentences; what begins and ends its sentences, paragraphs or the whole is kept apart from them,
so sentences can be added, dropped and moved without breaking it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

MAX_FILLERS = 4
"""Most phrases that a sentence is padded with."""


class Level(Enum):
    """What begins or ends alike."""

    SENTENCE = "sentence"
    PARAGRAPH = "paragraph"
    RESPONSE = "response"


class NumberStyle(Enum):
    """How the numbers of a draft are written."""

    WORDS = "words"
    WHOLE = "whole"
    DECIMAL = "decimal"
    PERCENTAGE = "percentage"


@dataclass(frozen=True, slots=True)
class Topic:
    """What a text is about.

    Attributes:
        name: What the task calls it.
        nouns: Things in it.
        fillers: Phrases that may follow any of its sentences.
    """

    name: str
    nouns: tuple[str, ...]
    fillers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence without its beginning and ending.

    Attributes:
        clause: Subject, verb and object, in lower case.
        number: A phrase with a number, or empty.
        fillers: Phrases after it.
        has_opening: Whether the draft's opening stands before it where its level says so.
        has_closing: Whether the draft's closing stands after it where its level says so.
    """

    clause: str
    number: str = ""
    fillers: tuple[str, ...] = ()
    has_opening: bool = True
    has_closing: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A text in the making.

    Attributes:
        topic: What it is about.
        paragraphs: Sentences of each paragraph; none is empty.
        opening: What begins the units of `opening_level`, e.g. "Indeed,"; empty for nothing.
        opening_level: Which units begin so.
        closing: What ends the units of `closing_level`, with the mark, e.g. " today." or "!"; empty for nothing.
        closing_level: Which units end so.
    """

    topic: Topic
    paragraphs: tuple[tuple[Sentence, ...], ...]
    opening: str = ""
    opening_level: Level = Level.SENTENCE
    closing: str = ""
    closing_level: Level = Level.SENTENCE

    @property
    def places(self) -> list[tuple[int, int]]:
        """Paragraph and position of every sentence, in order."""
        return [(row, column) for row, sentences in enumerate(self.paragraphs) for column in range(len(sentences))]

    def opens(self, row: int, column: int) -> bool:
        """Returns whether the opening's level asks for it at a sentence."""
        first = {Level.SENTENCE: True, Level.PARAGRAPH: column == 0, Level.RESPONSE: row == column == 0}
        return bool(self.opening) and first[self.opening_level]

    def closes(self, row: int, column: int) -> bool:
        """Returns whether the closing's level asks for it at a sentence."""
        ends_paragraph = column == len(self.paragraphs[row]) - 1
        ends_response = ends_paragraph and row == len(self.paragraphs) - 1
        last = {Level.SENTENCE: True, Level.PARAGRAPH: ends_paragraph, Level.RESPONSE: ends_response}
        return bool(self.closing) and last[self.closing_level]

    def with_sentence(self, row: int, column: int, sentence: Sentence) -> Draft:
        """Returns the draft with one sentence replaced."""
        sentences = self.paragraphs[row]
        return self.with_paragraph(row, (*sentences[:column], sentence, *sentences[column + 1 :]))

    def with_paragraph(self, row: int, *paragraphs: tuple[Sentence, ...]) -> Draft:
        """Returns the draft with one paragraph replaced by any number of others."""
        return replace(self, paragraphs=(*self.paragraphs[:row], *paragraphs, *self.paragraphs[row + 1 :]))

    def text(self) -> str:
        """Returns the whole text, paragraphs divided by blank lines."""
        return "\n\n".join(
            " ".join(self._sentence_text(row, column) for column in range(len(sentences)))
            for row, sentences in enumerate(self.paragraphs)
        )

    def _sentence_text(self, row: int, column: int) -> str:
        sentence = self.paragraphs[row][column]
        body = " ".join(filter(None, (sentence.clause, sentence.number, *sentence.fillers)))
        opened = self.opens(row, column) and sentence.has_opening
        begun = f"{self.opening} {body}" if opened else body[0].upper() + body[1:]
        closed = self.closes(row, column) and sentence.has_closing
        return begun + (self.closing if closed else ".")


_ADJECTIVES = (
    *("old", "small", "bright", "quiet", "wooden", "narrow", "heavy", "faded", "clean", "broad", "dark", "pale"),
    *("green", "yellow", "dusty", "smooth", "rusty", "tall", "round", "plain"),
)
_VERBS = (
    *("stands beside", "leans against", "rests near", "faces", "hides", "waits behind", "points towards", "touches"),
    *("reflects", "surrounds", "stays close to", "casts a shadow on"),
)
_COMMON_FILLERS = (
    *("in the soft light", "without any hurry", "for most of the day", "under a clear sky", "on the left side"),
    *("on the right side", "as if by chance", "just out of reach", "in plain sight", "at the very edge"),
)
_TOPICS = (
    Topic(
        "a harbour",
        ("boat", "rope", "lantern", "pier", "net", "anchor", "crane", "gull", "barrel", "sail", "buoy", "ladder"),
        ("above the calm water", "between two moored ships", "along the stone quay"),
    ),
    Topic(
        "a market",
        ("basket", "stall", "awning", "scale", "crate", "melon", "bell", "cart", "banner", "jar", "sack", "bench"),
        ("among the waiting customers", "beside the narrow lane", "across the busy square"),
    ),
    Topic(
        "a workshop",
        ("hammer", "lathe", "shelf", "stool", "lamp", "drawer", "plank", "wheel", "clock", "bucket", "vice", "chisel"),
        ("over the crowded bench", "beneath the high window", "behind the heavy door"),
    ),
    Topic(
        "a garden",
        ("hedge", "fountain", "statue", "path", "gate", "pond", "rake", "arbour", "pot", "fence", "swing", "beehive"),
        ("among the tall flowers", "near the mossy wall", "beyond the trimmed lawn"),
    ),
    Topic(
        "a railway station",
        ("train", "platform", "signal", "clock", "suitcase", "bench", "tunnel", "bridge", "poster", "trolley", "rail"),
        ("beside the empty track", "under the iron roof", "past the ticket hall"),
    ),
)
_NUMBER_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "twenty")


def draw_text(rng: np.random.Generator, texts: tuple[str, ...]) -> str:
    """Returns one of several texts."""
    return texts[int(rng.integers(len(texts)))]


def draw_draft(rng: np.random.Generator) -> Draft:
    """Returns a draft of two to four paragraphs of two to four sentences, without numbers."""
    topic = _TOPICS[int(rng.integers(len(_TOPICS)))]
    paragraphs = tuple(
        tuple(draw_sentence(rng, topic) for _ in range(int(rng.integers(2, 5)))) for _ in range(int(rng.integers(2, 5)))
    )
    return Draft(topic=topic, paragraphs=paragraphs)


def draw_sentence(rng: np.random.Generator, topic: Topic) -> Sentence:
    """Returns a sentence about two different things of a topic."""
    first, second = rng.choice(len(topic.nouns), size=2, replace=False)
    subject = f"the {draw_text(rng, _ADJECTIVES)} {topic.nouns[int(first)]}"
    thing = f"the {draw_text(rng, _ADJECTIVES)} {topic.nouns[int(second)]}"
    sentence = Sentence(clause=f"{subject} {draw_text(rng, _VERBS)} {thing}")
    for _ in range(int(rng.integers(0, 3))):
        sentence = padded(rng, topic, sentence)
    return sentence


def padded(rng: np.random.Generator, topic: Topic, sentence: Sentence) -> Sentence:
    """Returns a sentence with one phrase more, of those it does not have; as it is if it has the most."""
    unused = tuple(filler for filler in (*_COMMON_FILLERS, *topic.fillers) if filler not in sentence.fillers)
    if len(sentence.fillers) >= MAX_FILLERS:
        return sentence
    return replace(sentence, fillers=(*sentence.fillers, draw_text(rng, unused)))


def number_phrase(rng: np.random.Generator, style: NumberStyle, precision: int) -> str:
    """Returns a phrase with a number in a style; `precision` counts the decimals of the latter two."""
    if style is NumberStyle.WORDS:
        return f"about {draw_text(rng, _NUMBER_WORDS)} steps away"
    if style is NumberStyle.WHOLE:
        return f"about {int(rng.integers(2, 100))} steps away"
    digits = "".join(str(int(digit)) for digit in rng.integers(0, 10, size=precision))
    number = f"{int(rng.integers(2, 80))}.{digits}"
    return f"about {number} metres away" if style is NumberStyle.DECIMAL else f"across {number}% of the view"


def with_numbers(rng: np.random.Generator, draft: Draft, style: NumberStyle, precision: int) -> Draft:
    """Returns a draft in which two or three sentences have a number."""
    places = draft.places
    for index in rng.permutation(len(places))[: int(rng.integers(2, 4))]:
        row, column = places[int(index)]
        sentence = replace(draft.paragraphs[row][column], number=number_phrase(rng, style, precision))
        draft = draft.with_sentence(row, column, sentence)
    return draft
