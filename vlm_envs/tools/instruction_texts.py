"""Texts that satisfy instruction checks, and small changes that break just one of them.

A draft is paragraphs of sentences; what begins and ends its sentences, paragraphs or the whole is kept apart from them,
so sentences can be added, dropped and moved without breaking it.

A plan has, for every check, what the draft needs beforehand (an opening, numbers in one style), the constraint
that is true of the draft, and a small change that works against it. Whether a change broke the one constraint
and no other is for the caller to see; changes are drawn at random, so that another try may do better.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from vlm_envs.tools.instruction_checkers import Constraint
from vlm_envs.tools.text_profiles import Profile, numerals, paragraphs_of

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
    nouns: Sequence[str]
    fillers: Sequence[str]


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


_TEXTS = tomllib.loads(Path(__file__).with_name("instruction_texts.toml").read_text(encoding="utf-8"))
_TOPICS = [Topic(**topic) for topic in _TEXTS["topics"]]
_ADJECTIVES: list[str] = _TEXTS["adjectives"]
_VERBS: list[str] = _TEXTS["verbs"]
_NUMBER_WORDS: list[str] = _TEXTS["number_words"]
_COMMON_FILLERS: list[str] = _TEXTS["fillers"]
_OPENINGS: list[str] = _TEXTS["openings"]
_CLOSINGS: list[str] = _TEXTS["closings"]
_FORBIDDEN: list[str] = _TEXTS["forbidden"]


def draw_text(rng: np.random.Generator, texts: Sequence[str]) -> str:
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


Rng = np.random.Generator
Disturb = Callable[[Rng, Draft, Constraint, bool], Draft]
"""A small change of a draft against a constraint; the flag says whether counts are to grow or to shrink."""


@dataclass(frozen=True)
class Plan:
    """How one check is planned for.

    Attributes:
        groups: Names of what it is about; two checks that share one do not go together.
        arguments: Draws arguments of the check with which the draft satisfies it.
        disturb: Changes the draft a little against a constraint.
        prepare: Gives the draft what the check is about.
        disturb_all: As `disturb`, of all paragraphs alike, where each is counted; None where that is no other thing.
    """

    groups: frozenset[str]
    arguments: Callable[[Rng, Draft, Profile], dict[str, Any]]
    disturb: Disturb
    prepare: Callable[[Rng, Draft], Draft] = lambda rng, draft: draft
    disturb_all: Disturb | None = None


def _around(rng: Rng, counts: list[int], slack: int, least: int = 1) -> tuple[int, int]:
    """Returns a range that holds all counts, with up to `slack` more on either side."""
    return max(least, min(counts) - int(rng.integers(slack + 1))), max(counts) + int(rng.integers(slack + 1))


def _draw_place(rng: Rng, draft: Draft) -> tuple[int, int, Sentence]:
    """Returns a random sentence and where it stands."""
    row, column = draft.places[int(rng.integers(len(draft.places)))]
    return row, column, draft.paragraphs[row][column]


def _merge_or_split(rng: Rng, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Makes two paragraphs of one, or one of two neighbours."""
    row = int(rng.integers(len(draft.paragraphs)))
    sentences = draft.paragraphs[row]
    if grows:
        middle = int(rng.integers(1, max(2, len(sentences))))
        halves = (sentences[:middle], sentences[middle:])
        return draft.with_paragraph(row, *filter(None, halves))
    merged = (*sentences, *next(iter(draft.paragraphs[row + 1 :]), ()))
    return replace(draft, paragraphs=(*draft.paragraphs[:row], merged, *draft.paragraphs[row + 2 :]))


def _add_or_drop(rng: Rng, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Adds a sentence or drops one, never the last of a paragraph."""
    row, column, _ = _draw_place(rng, draft)
    sentences = draft.paragraphs[row]
    if not grows:
        rest = (*sentences[:column], *sentences[column + 1 :])
        return draft.with_paragraph(row, rest or sentences)
    added = draw_sentence(rng, draft.topic)
    return draft.with_paragraph(row, (*sentences[:column], added, *sentences[column:]))


def _add_or_drop_everywhere(rng: Rng, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Adds a sentence to each paragraph or drops one of each, never the last."""
    changed = []
    for sentences in draft.paragraphs:
        place = int(rng.integers(len(sentences)))
        added = (draw_sentence(rng, draft.topic), sentences[place]) if grows else ()
        rest = (*sentences[:place], *added, *sentences[place + 1 :])
        changed.append(rest or sentences)
    return replace(draft, paragraphs=tuple(changed))


def _pad_or_trim(rng: Rng, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Gives three sentences a phrase more, or takes their phrases away."""
    for _ in range(3):
        row, column, sentence = _draw_place(rng, draft)
        changed = padded(rng, draft.topic, sentence) if grows else replace(sentence, fillers=())
        draft = draft.with_sentence(row, column, changed)
    return draft


def _forbid_some(rng: Rng, draft: Draft, profile: Profile) -> dict[str, Any]:
    chosen = rng.choice(len(_FORBIDDEN), size=int(rng.integers(2, 4)), replace=False)
    return {"substrings": [_FORBIDDEN[int(index)] for index in chosen]}


def _mention(rng: Rng, draft: Draft, word: str) -> Draft:
    """Puts a phrase with a word in place of another phrase of a sentence, if it has one."""
    row, column, sentence = _draw_place(rng, draft)
    phrase = f"beside the {word}"
    if phrase in sentence.fillers:
        return draft
    fillers = (*sentence.fillers[: MAX_FILLERS - 1][1:], phrase)
    return draft.with_sentence(row, column, replace(sentence, fillers=fillers))


def _mention_forbidden(rng: Rng, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Mentions one of the forbidden words."""
    substrings = getattr(constraint.arguments, "substrings", None) or (getattr(constraint.arguments, "substring", ""),)
    return _mention(rng, draft, draw_text(rng, substrings))


def _with_edge(begins: bool, level: Level, rng: Rng, draft: Draft) -> Draft:
    if begins:
        return replace(draft, opening=draw_text(rng, _OPENINGS), opening_level=level)
    return replace(draft, closing=draw_text(rng, _CLOSINGS), closing_level=level)


def _drop_edge(begins: bool, rng: Rng, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Leaves the opening or the closing out once more."""
    places = [place for place in draft.places if (draft.opens if begins else draft.closes)(*place)]
    row, column = places[int(rng.integers(len(places)))]
    sentence = draft.paragraphs[row][column]
    dropped = replace(sentence, has_opening=False) if begins else replace(sentence, has_closing=False)
    return draft.with_sentence(row, column, dropped)


def _keywords(together: bool, rng: Rng, draft: Draft, profile: Profile) -> dict[str, Any]:
    """Draws one to three things of the topic as keywords, and a range of their mentions."""
    nouns, text = draft.topic.nouns, draft.text()
    chosen = rng.choice(len(nouns), size=int(rng.integers(1, 4)), replace=False)
    keywords = [nouns[int(index)] for index in chosen]
    counts = [profile.count_keyword(text, keyword) for keyword in keywords]
    lower, upper = _around(rng, [sum(counts)] if together else counts, 1, least=0)
    return {"keywords": keywords, "lower_bound_times": lower, "upper_bound_times": upper}


def _change_mentions(rng: Rng, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Mentions a keyword once more, or calls one thing by another name."""
    keyword = draw_text(rng, getattr(constraint.arguments, "keywords", ()))
    if grows:
        return _mention(rng, draft, keyword)
    places = [(row, column) for row, column in draft.places if keyword in draft.paragraphs[row][column].clause.split()]
    if not places:
        return draft
    row, column = places[int(rng.integers(len(places)))]
    sentence, other = draft.paragraphs[row][column], draw_text(rng, draft.topic.nouns)
    words = [other if word == keyword else word for word in sentence.clause.split()]
    return draft.with_sentence(row, column, replace(sentence, clause=" ".join(words)))


def _rewrite_number(style: NumberStyle, rng: Rng, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Writes one number in another style, or with one decimal more or less."""
    places = [(row, column) for row, column in draft.places if draft.paragraphs[row][column].number]
    row, column = places[int(rng.integers(len(places)))]
    precision = int(getattr(constraint.arguments, "precision", 1))
    other = precision + 1 if grows or precision == 1 else precision - 1
    sentence = replace(draft.paragraphs[row][column], number=number_phrase(rng, style, other))
    return draft.with_sentence(row, column, sentence)


def _range_plan(
    group: str,
    slack: int,
    measure: Callable[[Draft, Profile], list[int]],
    disturb: Disturb,
    disturb_all: Disturb | None = None,
) -> Plan:
    def arguments(rng: Rng, draft: Draft, profile: Profile) -> dict[str, Any]:
        lower, upper = _around(rng, measure(draft, profile), slack)
        return {"lower_bound": lower, "upper_bound": upper}

    return Plan(frozenset({group}), arguments, disturb, disturb_all=disturb_all)


def _edge_plan(begins: bool, level: Level) -> Plan:
    return Plan(
        frozenset({"beginnings" if begins else "endings"}),
        lambda rng, draft, profile: {"substring": draft.opening if begins else draft.closing.strip()},
        partial(_drop_edge, begins),
        partial(_with_edge, begins, level),
    )


def _number_plan(style: NumberStyle, other: NumberStyle, patterns: Callable[[Profile], re.Pattern[str]] | None) -> Plan:
    """Returns a plan that writes numbers in one style; the change is to another, or to other decimals of the same."""

    def arguments(rng: Rng, draft: Draft, profile: Profile) -> dict[str, Any]:
        """Asks for the decimals that the draft's numbers have."""
        return {"precision": numerals(patterns(profile), draft.text())[0].num_decimals} if patterns else {}

    def prepare(rng: Rng, draft: Draft) -> Draft:
        return with_numbers(rng, draft, style, int(rng.integers(1, 4)))

    return Plan(frozenset({"numbers"}), arguments, partial(_rewrite_number, other), prepare)


PLANS: dict[str, Plan] = {
    "check_whether_response_paragraph_number_in_range": _range_plan(
        "paragraphs", 1, lambda draft, profile: [len(draft.paragraphs)], _merge_or_split
    ),
    "check_whether_response_sentence_number_in_range": _range_plan(
        "sentences", 1, lambda draft, profile: [len(draft.places)], _add_or_drop
    ),
    "check_whether_each_paragraph_sentence_number_in_range": _range_plan(
        "sentences",
        0,
        lambda draft, profile: list(map(len, draft.paragraphs)),
        _add_or_drop,
        _add_or_drop_everywhere,
    ),
    "check_whether_response_word_count_in_range": _range_plan(
        "words", 8, lambda draft, profile: [len(profile.words(draft.text()))], _pad_or_trim
    ),
    "check_whether_each_paragraph_word_count_in_range": _range_plan(
        "words",
        4,
        lambda draft, profile: [len(profile.words(text)) for text in paragraphs_of(draft.text())],
        _pad_or_trim,
    ),
    "check_whether_each_paragraph_sentence_number_in_range_list": Plan(
        frozenset({"sentences", "paragraphs"}),
        lambda rng, draft, profile: {"ranges": [_around(rng, [len(part)], 1) for part in draft.paragraphs]},
        _add_or_drop,
    ),
    "check_whether_whole_response_not_contain_certain_substring": Plan(
        frozenset({"absent"}),
        lambda rng, draft, profile: {"substring": draw_text(rng, _FORBIDDEN)},
        _mention_forbidden,
    ),
    "check_whether_whole_response_not_contain_certain_substrings": Plan(
        frozenset({"absent"}), _forbid_some, _mention_forbidden
    ),
    **{
        f"check_whether_{unit}_{edge}_with_certain_substring": _edge_plan(edge == "begin", level)
        for unit, level in (
            ("each_sentence", Level.SENTENCE),
            ("each_paragraph", Level.PARAGRAPH),
            ("whole_response", Level.RESPONSE),
        )
        for edge in ("begin", "end")
    },
    **{
        f"check_whether_{which}_keyword_in_list_mentioned_in_range": Plan(
            frozenset({"keywords"}), partial(_keywords, which == "total"), _change_mentions
        )
        for which in ("each", "total")
    },
    "check_percentage_number_precision_in_response": _number_plan(
        NumberStyle.PERCENTAGE, NumberStyle.PERCENTAGE, lambda profile: profile.percentages
    ),
    "check_number_precision_in_response": _number_plan(
        NumberStyle.DECIMAL, NumberStyle.DECIMAL, lambda profile: profile.numbers
    ),
    "check_whether_has_no_arabic_number_in_response": _number_plan(NumberStyle.WORDS, NumberStyle.WHOLE, None),
}
"""A plan for every check, by its name."""

COUNTED = frozenset(name for name in PLANS if "_in_range" in name)
"""The checks that ask for a range of a count: of two texts of other counts, either can be asked for."""
