"""Texts that satisfy instruction checks, and small changes that break exactly one of them.

A draft consists of paragraphs of sentences. The beginnings and endings of its sentences, of its paragraphs,
or of the whole text are stored separately, so that sentences can be added, removed, and moved without
breaking them.

For every check, a plan defines what the draft needs in advance (an opening, numbers in one style), a
constraint that the draft satisfies, and a small change that works against it. The caller verifies whether a
change broke only that constraint; changes are random, so another attempt may succeed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from numpy.random import Generator

from vlm_envs.tools.instruction_checkers import Constraint, Edge
from vlm_envs.tools.text_profiles import Profile, numerals, paragraphs_of

ItemT = TypeVar("ItemT")

MAX_FILLERS = 4
"""Maximum number of filler phrases in a sentence."""


Level = Literal["sentence", "paragraph", "response"]
"""Units that share a beginning or ending."""

NumberStyle = Literal["words", "whole", "decimal", "percentage"]
"""Style of the numbers in a draft."""


@dataclass(frozen=True)
class Topic:
    """The topic of a text.

    Attributes:
        name: Its name in the task.
        nouns: Things that belong to it.
        fillers: Phrases that may follow any of its sentences.
    """

    name: str
    nouns: Sequence[str]
    fillers: Sequence[str]


@dataclass(frozen=True)
class EdgeText:
    """The beginning or ending of all units of a level, including punctuation, e.g. "Indeed," or " today."."""

    text: str
    level: Level


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence without its beginning and ending.

    Attributes:
        clause: Subject, verb, and object, in lower case.
        number: A phrase with a number, or empty.
        fillers: Phrases after it.
        bare: Edges that are missing although the draft's levels require them.
    """

    clause: str
    number: str = ""
    fillers: tuple[str, ...] = ()
    bare: frozenset[Edge] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A text under construction.

    Attributes:
        topic: Its topic.
        paragraphs: Sentences of each paragraph, at least one.
        edges: Beginnings or endings of its units.
    """

    topic: Topic
    paragraphs: tuple[tuple[Sentence, ...], ...]
    edges: Mapping[Edge, EdgeText] = field(default_factory=dict)

    @property
    def places(self) -> list[tuple[int, int]]:
        """Paragraph and position of every sentence, in order."""
        return [(row, column) for row, sentences in enumerate(self.paragraphs) for column in range(len(sentences))]

    def asks_for(self, edge: Edge, row: int, column: int) -> bool:
        """Returns whether an edge is required at a sentence."""
        if edge not in self.edges:
            return False
        first = edge == "begin"
        of_paragraph = column == (0 if first else len(self.paragraphs[row]) - 1)
        of_response = of_paragraph and row == (0 if first else len(self.paragraphs) - 1)
        asked = {"sentence": True, "paragraph": of_paragraph, "response": of_response}
        return asked[self.edges[edge].level]

    def with_sentence(self, row: int, column: int, sentence: Sentence) -> Draft:
        """Returns the draft with one sentence replaced."""
        sentences = self.paragraphs[row]
        return self.with_paragraph(row, (*sentences[:column], sentence, *sentences[column + 1 :]))

    def with_paragraph(self, row: int, *paragraphs: tuple[Sentence, ...]) -> Draft:
        """Returns the draft with one paragraph replaced by any number of others."""
        return replace(self, paragraphs=(*self.paragraphs[:row], *paragraphs, *self.paragraphs[row + 1 :]))

    def text(self) -> str:
        """Returns the whole text, with blank lines between paragraphs."""
        return "\n\n".join(
            " ".join(self._sentence_text(row, column) for column in range(len(sentences)))
            for row, sentences in enumerate(self.paragraphs)
        )

    def _sentence_text(self, row: int, column: int) -> str:
        sentence = self.paragraphs[row][column]
        body = " ".join(filter(None, (sentence.clause, sentence.number, *sentence.fillers)))
        begins, ends = (self.asks_for(edge, row, column) and edge not in sentence.bare for edge in ("begin", "end"))
        begun = f"{self.edges['begin'].text} {body}" if begins else body[0].upper() + body[1:]
        return begun + (self.edges["end"].text if ends else ".")


_TEXTS = tomllib.loads(Path(__file__).with_name("instruction_texts.toml").read_text(encoding="utf-8"))
_TOPICS = [Topic(**topic) for topic in _TEXTS["topics"]]
_ADJECTIVES = _TEXTS["adjectives"]
_VERBS = _TEXTS["verbs"]
_NUMBER_WORDS = _TEXTS["number_words"]
_COMMON_FILLERS = _TEXTS["fillers"]
_OPENINGS = _TEXTS["openings"]
_CLOSINGS = _TEXTS["closings"]
_FORBIDDEN = _TEXTS["forbidden"]


def pick(rng: Generator, items: Sequence[ItemT]) -> ItemT:
    """Returns a random item."""
    return items[int(rng.integers(len(items)))]


def draw_draft(rng: Generator) -> Draft:
    """Returns a draft with two to four paragraphs of two to four sentences, without numbers."""
    topic = pick(rng, _TOPICS)
    paragraphs = tuple(
        tuple(draw_sentence(rng, topic) for _ in range(int(rng.integers(2, 5)))) for _ in range(int(rng.integers(2, 5)))
    )
    return Draft(topic=topic, paragraphs=paragraphs)


def draw_sentence(rng: Generator, topic: Topic) -> Sentence:
    """Returns a random sentence about two different things of a topic."""
    first, second = rng.choice(len(topic.nouns), size=2, replace=False)
    subject = f"the {pick(rng, _ADJECTIVES)} {topic.nouns[int(first)]}"
    thing = f"the {pick(rng, _ADJECTIVES)} {topic.nouns[int(second)]}"
    sentence = Sentence(clause=f"{subject} {pick(rng, _VERBS)} {thing}")
    for _ in range(int(rng.integers(0, 3))):
        sentence = padded(rng, topic, sentence)
    return sentence


def padded(rng: Generator, topic: Topic, sentence: Sentence) -> Sentence:
    """Adds an unused filler phrase to a sentence, unless it has the maximum number."""
    unused = tuple(filler for filler in (*_COMMON_FILLERS, *topic.fillers) if filler not in sentence.fillers)
    if len(sentence.fillers) >= MAX_FILLERS:
        return sentence
    return replace(sentence, fillers=(*sentence.fillers, pick(rng, unused)))


def number_phrase(rng: Generator, style: NumberStyle, precision: int) -> str:
    """Returns a phrase with a number in a style; `precision` is the number of decimals of the latter two styles."""
    if style == "words":
        return f"about {pick(rng, _NUMBER_WORDS)} steps away"
    if style == "whole":
        return f"about {int(rng.integers(2, 100))} steps away"
    digits = "".join(str(int(digit)) for digit in rng.integers(0, 10, size=precision))
    number = f"{int(rng.integers(2, 80))}.{digits}"
    return f"about {number} metres away" if style == "decimal" else f"across {number}% of the view"


def with_numbers(rng: Generator, draft: Draft, style: NumberStyle, precision: int) -> Draft:
    """Adds numbers to two or three sentences of a draft."""
    places = draft.places
    for index in rng.permutation(len(places))[: int(rng.integers(2, 4))]:
        row, column = places[int(index)]
        sentence = replace(draft.paragraphs[row][column], number=number_phrase(rng, style, precision))
        draft = draft.with_sentence(row, column, sentence)
    return draft


Disturb = Callable[[Generator, Draft, Constraint, bool], Draft]
"""Makes a small change to a draft against a constraint; the flag selects whether counts grow or shrink."""


@dataclass(frozen=True)
class Plan:
    """How to satisfy and break one check.

    Attributes:
        groups: Names of the properties it affects; checks that share one are not combined.
        arguments: Draws arguments of the check that the draft satisfies.
        disturb: Makes a small change to the draft against a constraint.
        prepare: Prepares the draft for the check.
        disturb_all: As `disturb`, for all paragraphs alike, if each is counted; None if that makes no
            difference.
    """

    groups: tuple[str, ...]
    arguments: Callable[[Generator, Draft, Profile], dict[str, Any]]
    disturb: Disturb
    prepare: Callable[[Generator, Draft], Draft] = lambda rng, draft: draft
    disturb_all: Disturb | None = None


def _around(rng: Generator, counts: list[int], slack: int, least: int = 1) -> tuple[int, int]:
    """Returns a range that contains all counts, with up to `slack` more on either side."""
    return max(least, min(counts) - int(rng.integers(slack + 1))), max(counts) + int(rng.integers(slack + 1))


def _draw_place(
    rng: Generator, draft: Draft, fits: Callable[[int, int], bool] = lambda row, column: True
) -> tuple[int, int, Sentence]:
    """Returns the position of a random suitable sentence, and the sentence."""
    row, column = pick(rng, [span for span in draft.places if fits(*span)])
    return row, column, draft.paragraphs[row][column]


def _merge_or_split(rng: Generator, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Splits a paragraph, or merges two neighbors."""
    row = int(rng.integers(len(draft.paragraphs)))
    sentences = draft.paragraphs[row]
    if grows:
        middle = int(rng.integers(1, max(2, len(sentences))))
        halves = (sentences[:middle], sentences[middle:])
        return draft.with_paragraph(row, *filter(None, halves))
    merged = (*sentences, *next(iter(draft.paragraphs[row + 1 :]), ()))
    return replace(draft, paragraphs=(*draft.paragraphs[:row], merged, *draft.paragraphs[row + 2 :]))


def _add_or_drop(rng: Generator, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Adds or removes a sentence, but never the last one of a paragraph."""
    row, column, _ = _draw_place(rng, draft)
    sentences = draft.paragraphs[row]
    if not grows:
        rest = (*sentences[:column], *sentences[column + 1 :])
        return draft.with_paragraph(row, rest or sentences)
    added = draw_sentence(rng, draft.topic)
    return draft.with_paragraph(row, (*sentences[:column], added, *sentences[column:]))


def _add_or_drop_everywhere(rng: Generator, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Adds or removes a sentence in each paragraph, but never the last one."""
    changed = []
    for sentences in draft.paragraphs:
        place = int(rng.integers(len(sentences)))
        added = (draw_sentence(rng, draft.topic), sentences[place]) if grows else ()
        rest = (*sentences[:place], *added, *sentences[place + 1 :])
        changed.append(rest or sentences)
    return replace(draft, paragraphs=tuple(changed))


def _pad_or_trim(rng: Generator, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Adds a filler phrase to three sentences, or removes their phrases."""
    for _ in range(3):
        row, column, sentence = _draw_place(rng, draft)
        changed = padded(rng, draft.topic, sentence) if grows else replace(sentence, fillers=())
        draft = draft.with_sentence(row, column, changed)
    return draft


def _forbid_some(rng: Generator, draft: Draft, profile: Profile) -> dict[str, Any]:
    chosen = rng.choice(len(_FORBIDDEN), size=int(rng.integers(2, 4)), replace=False)
    return {"substrings": [_FORBIDDEN[int(index)] for index in chosen]}


def _mention(rng: Generator, draft: Draft, word: str) -> Draft:
    """Replaces a filler phrase of a sentence, if it has one, by a phrase with a word."""
    row, column, sentence = _draw_place(rng, draft)
    phrase = f"beside the {word}"
    if phrase in sentence.fillers:
        return draft
    fillers = (*sentence.fillers[: MAX_FILLERS - 1][1:], phrase)
    return draft.with_sentence(row, column, replace(sentence, fillers=fillers))


def _mention_forbidden(rng: Generator, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Mentions one of the forbidden words."""
    substrings = getattr(constraint.arguments, "substrings", None) or (getattr(constraint.arguments, "substring", ""),)
    return _mention(rng, draft, pick(rng, substrings))


def _with_edge(edge: Edge, level: Level, rng: Generator, draft: Draft) -> Draft:
    text = pick(rng, _OPENINGS if edge == "begin" else _CLOSINGS)
    return replace(draft, edges={**draft.edges, edge: EdgeText(text, level)})


def _drop_edge(edge: Edge, rng: Generator, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Omits the beginning or ending once."""
    row, column, sentence = _draw_place(rng, draft, partial(draft.asks_for, edge))
    return draft.with_sentence(row, column, replace(sentence, bare=sentence.bare | {edge}))


def _keywords(together: bool, rng: Generator, draft: Draft, profile: Profile) -> dict[str, Any]:
    """Draws one to three things of the topic as keywords, and a range of their mentions."""
    nouns, text = draft.topic.nouns, draft.text()
    chosen = rng.choice(len(nouns), size=int(rng.integers(1, 4)), replace=False)
    keywords = [nouns[int(index)] for index in chosen]
    counts = [profile.count_keyword(text, keyword) for keyword in keywords]
    lower, upper = _around(rng, [sum(counts)] if together else counts, 1, least=0)
    return {"keywords": keywords, "lower_bound_times": lower, "upper_bound_times": upper}


def _change_mentions(rng: Generator, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Adds a mention of a keyword, or renames one thing."""
    keyword = pick(rng, getattr(constraint.arguments, "keywords", ()))
    if grows:
        return _mention(rng, draft, keyword)

    def mentions(row: int, column: int) -> bool:
        return keyword in draft.paragraphs[row][column].clause.split()

    if not any(mentions(*span) for span in draft.places):
        return draft
    row, column, sentence = _draw_place(rng, draft, mentions)
    other = pick(rng, draft.topic.nouns)
    words = [other if word == keyword else word for word in sentence.clause.split()]
    return draft.with_sentence(row, column, replace(sentence, clause=" ".join(words)))


def _rewrite_number(style: NumberStyle, rng: Generator, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Changes one number to another style, or to one decimal more or less."""
    row, column, sentence = _draw_place(rng, draft, lambda row, column: bool(draft.paragraphs[row][column].number))
    precision = int(getattr(constraint.arguments, "precision", 1))
    other = precision + 1 if grows or precision == 1 else precision - 1
    return draft.with_sentence(row, column, replace(sentence, number=number_phrase(rng, style, other)))


def _range_plan(
    group: str,
    slack: int,
    measure: Callable[[Draft, Profile], list[int]],
    disturb: Disturb,
    disturb_all: Disturb | None = None,
) -> Plan:
    def arguments(rng: Generator, draft: Draft, profile: Profile) -> dict[str, Any]:
        lower, upper = _around(rng, measure(draft, profile), slack)
        return {"lower_bound": lower, "upper_bound": upper}

    return Plan((group,), arguments, disturb, disturb_all=disturb_all)


def _edge_plan(edge: Edge, level: Level) -> Plan:
    return Plan(
        (edge,),
        lambda rng, draft, profile: {"substring": draft.edges[edge].text.strip()},
        partial(_drop_edge, edge),
        partial(_with_edge, edge, level),
    )


def _number_plan(style: NumberStyle, other: NumberStyle, patterns: Callable[[Profile], re.Pattern[str]] | None) -> Plan:
    """Returns a plan that writes numbers in one style; its change uses another style, or other decimals."""

    def arguments(rng: Generator, draft: Draft, profile: Profile) -> dict[str, Any]:
        """Requires the decimals of the draft's numbers."""
        return {"precision": numerals(patterns(profile), draft.text())[0].num_decimals} if patterns else {}

    def prepare(rng: Generator, draft: Draft) -> Draft:
        return with_numbers(rng, draft, style, int(rng.integers(1, 4)))

    return Plan(("numbers",), arguments, partial(_rewrite_number, other), prepare)


_EDGE_LEVELS: Mapping[str, Level] = {
    "each_sentence": "sentence",
    "each_paragraph": "paragraph",
    "whole_response": "response",
}

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
        ("sentences", "paragraphs"),
        lambda rng, draft, profile: {"ranges": [_around(rng, [len(part)], 1) for part in draft.paragraphs]},
        _add_or_drop,
    ),
    "check_whether_whole_response_not_contain_certain_substring": Plan(
        ("absent",),
        lambda rng, draft, profile: {"substring": pick(rng, _FORBIDDEN)},
        _mention_forbidden,
    ),
    "check_whether_whole_response_not_contain_certain_substrings": Plan(("absent",), _forbid_some, _mention_forbidden),
    **{
        f"check_whether_{unit}_{edge}_with_certain_substring": _edge_plan(edge, level)
        for unit, level in _EDGE_LEVELS.items()
        for edge in get_args(Edge)
    },
    **{
        f"check_whether_{which}_keyword_in_list_mentioned_in_range": Plan(
            ("keywords",), partial(_keywords, which == "total"), _change_mentions
        )
        for which in ("each", "total")
    },
    "check_percentage_number_precision_in_response": _number_plan(
        "percentage", "percentage", lambda profile: profile.percentages
    ),
    "check_number_precision_in_response": _number_plan("decimal", "decimal", lambda profile: profile.numbers),
    "check_whether_has_no_arabic_number_in_response": _number_plan("words", "whole", None),
}
"""A plan for every check, by name."""

COUNTED = frozenset(name for name in PLANS if "_in_range" in name)
"""Checks that require a count in a range; for two texts with different counts, either count can be
required."""
