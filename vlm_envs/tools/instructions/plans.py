"""How a draft is made to satisfy each check, and how it is changed to break just that one.

For every check: what the draft needs beforehand (an opening, numbers in one style), the constraint that is true of the
draft, and a small change that works against it. Whether a change broke the one constraint and no other is for the
caller to see; changes are drawn at random, so that another try may do better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from vlm_envs.tools.instructions.constraints import Constraint
from vlm_envs.tools.instructions.drafts import (
    MAX_FILLERS,
    Draft,
    Level,
    NumberStyle,
    Sentence,
    draw_sentence,
    draw_text,
    number_phrase,
    padded,
    with_numbers,
)
from vlm_envs.tools.instructions.matching import count_keyword
from vlm_envs.tools.instructions.numerals import numerals
from vlm_envs.tools.instructions.profiles import Profile
from vlm_envs.tools.instructions.segmentation import paragraphs_of

Rng = np.random.Generator
Disturb = Callable[[Rng, Draft, Constraint, bool], Draft]
"""A small change of a draft against a constraint; the flag says whether counts are to grow or to shrink."""

_OPENINGS = ("Notice:", "Indeed,", "Looking closely,", "As you can see,", "Here,", "To begin with,")
_CLOSINGS = (" today.", " as the picture shows.", " at this hour.", " once again.", "!")
_FORBIDDEN = ("umbrella", "piano", "volcano", "dragon", "satellite", "penguin", "cactus", "trumpet")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How one check is planned for.

    Attributes:
        groups: Names of what it is about; two checks that share one do not go together.
        prepare: Gives the draft what the check is about.
        constraint: Draws a constraint that the draft satisfies.
        disturb: Changes the draft a little against a constraint.
    """

    groups: frozenset[str]
    prepare: Callable[[Rng, Draft], Draft]
    constraint: Callable[[Rng, Draft, Profile], Constraint]
    disturb: Disturb


def _unprepared(rng: Rng, draft: Draft) -> Draft:
    return draft


def _around(rng: Rng, counts: list[int], slack: int) -> tuple[int, int]:
    """Returns a range that holds all counts, with up to `slack` more on either side."""
    return max(1, min(counts) - int(rng.integers(slack + 1))), max(counts) + int(rng.integers(slack + 1))


def _range(checker: str, slack: int, measure: Callable[[Draft, Profile], list[int]]) -> Callable[..., Constraint]:
    """Returns how a constraint is drawn that puts counts in a range."""

    def constraint(rng: Rng, draft: Draft, profile: Profile) -> Constraint:
        lower, upper = _around(rng, measure(draft, profile), slack)
        return Constraint.of(checker, lower_bound=lower, upper_bound=upper)

    return constraint


def _num_paragraphs(draft: Draft, profile: Profile) -> list[int]:
    return [len(draft.paragraphs)]


def _num_sentences(draft: Draft, profile: Profile) -> list[int]:
    return [len(draft.places)]


def _num_paragraph_sentences(draft: Draft, profile: Profile) -> list[int]:
    return [len(sentences) for sentences in draft.paragraphs]


def _num_words(draft: Draft, profile: Profile) -> list[int]:
    return [len(profile.words(draft.text()))]


def _num_paragraph_words(draft: Draft, profile: Profile) -> list[int]:
    return [len(profile.words(paragraph)) for paragraph in paragraphs_of(draft.text())]


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


def _pad_or_trim(rng: Rng, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Gives three sentences a phrase more, or takes their phrases away."""
    for _ in range(3):
        row, column, sentence = _draw_place(rng, draft)
        changed = padded(rng, draft.topic, sentence) if grows else replace(sentence, fillers=())
        draft = draft.with_sentence(row, column, changed)
    return draft


def _ranges(rng: Rng, draft: Draft, profile: Profile) -> Constraint:
    """Draws a range for each paragraph's number of sentences."""
    ranges = [_around(rng, [len(sentences)], 1) for sentences in draft.paragraphs]
    return Constraint.of("check_whether_each_paragraph_sentence_number_in_range_list", ranges=ranges)


def _forbid_one(rng: Rng, draft: Draft, profile: Profile) -> Constraint:
    checker = "check_whether_whole_response_not_contain_certain_substring"
    return Constraint.of(checker, substring=draw_text(rng, _FORBIDDEN))


def _forbid_some(rng: Rng, draft: Draft, profile: Profile) -> Constraint:
    chosen = rng.choice(len(_FORBIDDEN), size=int(rng.integers(2, 4)), replace=False)
    checker = "check_whether_whole_response_not_contain_certain_substrings"
    return Constraint.of(checker, substrings=[_FORBIDDEN[int(index)] for index in chosen])


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


def _edge(begins: bool, checker: str, rng: Rng, draft: Draft, profile: Profile) -> Constraint:
    return Constraint.of(checker, substring=draft.opening if begins else draft.closing.strip())


def _drop_edge(begins: bool, rng: Rng, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Leaves the opening or the closing out once more."""
    places = [place for place in draft.places if (draft.opens if begins else draft.closes)(*place)]
    row, column = places[int(rng.integers(len(places)))]
    sentence = draft.paragraphs[row][column]
    dropped = replace(sentence, has_opening=False) if begins else replace(sentence, has_closing=False)
    return draft.with_sentence(row, column, dropped)


def _keywords(checker: str, together: bool, rng: Rng, draft: Draft, profile: Profile) -> Constraint:
    """Draws one to three things of the topic as keywords, and a range of their mentions."""
    nouns, text = draft.topic.nouns, draft.text()
    chosen = rng.choice(len(nouns), size=int(rng.integers(1, 4)), replace=False)
    keywords = [nouns[int(index)] for index in chosen]
    counts = [count_keyword(text, keyword, open_hashtags=profile.open_hashtags) for keyword in keywords]
    measured = [sum(counts)] if together else counts
    lower, upper = max(0, min(measured) - int(rng.integers(2))), max(measured) + int(rng.integers(2))
    return Constraint.of(checker, keywords=keywords, lower_bound_times=lower, upper_bound_times=upper)


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


def _number(style: NumberStyle, rng: Rng, draft: Draft) -> Draft:
    return with_numbers(rng, draft, style, int(rng.integers(1, 4)))


def _decimals(checker: str, rng: Rng, draft: Draft, profile: Profile) -> Constraint:
    """Asks for the decimals that the draft's numbers have."""
    read = profile.percentages if checker == "check_percentage_number_precision_in_response" else profile.numbers
    return Constraint.of(checker, precision=numerals(read, draft.text())[0].num_decimals)


def _no_digits(rng: Rng, draft: Draft, profile: Profile) -> Constraint:
    return Constraint.of("check_whether_has_no_arabic_number_in_response")


def _rewrite_number(style: NumberStyle, rng: Rng, draft: Draft, constraint: Constraint, grows: bool) -> Draft:
    """Writes one number in another style, or with one decimal more or less."""
    places = [(row, column) for row, column in draft.places if draft.paragraphs[row][column].number]
    row, column = places[int(rng.integers(len(places)))]
    precision = int(getattr(constraint.arguments, "precision", 1))
    other = precision + 1 if grows or precision == 1 else precision - 1
    sentence = replace(draft.paragraphs[row][column], number=number_phrase(rng, style, other))
    return draft.with_sentence(row, column, sentence)


def _range_plan(
    checker: str,
    groups: set[str],
    slack: int,
    measure: Callable[[Draft, Profile], list[int]],
    disturb: Disturb,
) -> Plan:
    constraint = _range(checker, slack, measure)
    return Plan(groups=frozenset(groups), prepare=_unprepared, constraint=constraint, disturb=disturb)


def _edge_plan(checker: str, level: Level) -> Plan:
    begins = "_begin_with_" in checker
    return Plan(
        groups=frozenset({"beginnings" if begins else "endings"}),
        prepare=partial(_with_edge, begins, level),
        constraint=partial(_edge, begins, checker),
        disturb=partial(_drop_edge, begins),
    )


def _keyword_plan(checker: str, together: bool) -> Plan:
    constraint = partial(_keywords, checker, together)
    groups = frozenset({"keywords"})
    return Plan(groups=groups, prepare=_unprepared, constraint=constraint, disturb=_change_mentions)


def _precision_plan(checker: str, style: NumberStyle) -> Plan:
    return Plan(
        groups=frozenset({"numbers"}),
        prepare=partial(_number, style),
        constraint=partial(_decimals, checker),
        disturb=partial(_rewrite_number, style),
    )


def _edge_plans(unit: str, level: Level) -> dict[str, Plan]:
    names = [f"check_whether_{unit}_{edge}_with_certain_substring" for edge in ("begin", "end")]
    return {name: _edge_plan(name, level) for name in names}


def _range_plans() -> dict[str, Plan]:
    paragraphs, sentences = {"paragraphs"}, {"sentences"}
    name = "check_whether_{}_in_range".format
    rows = (
        (name("response_paragraph_number"), paragraphs, 1, _num_paragraphs, _merge_or_split),
        (name("response_sentence_number"), sentences, 1, _num_sentences, _add_or_drop),
        (name("each_paragraph_sentence_number"), sentences, 0, _num_paragraph_sentences, _add_or_drop),
        (name("response_word_count"), {"words"}, 8, _num_words, _pad_or_trim),
        (name("each_paragraph_word_count"), {"words"}, 4, _num_paragraph_words, _pad_or_trim),
    )
    return {row[0]: _range_plan(*row) for row in rows}


def _keyword_plans() -> dict[str, Plan]:
    name = "check_whether_{}_keyword_in_list_mentioned_in_range".format
    return {name(which): _keyword_plan(name(which), which == "total") for which in ("each", "total")}


PLANS: dict[str, Plan] = {
    **_range_plans(),
    "check_whether_each_paragraph_sentence_number_in_range_list": Plan(
        groups=frozenset({"sentences", "paragraphs"}), prepare=_unprepared, constraint=_ranges, disturb=_add_or_drop
    ),
    "check_whether_whole_response_not_contain_certain_substring": Plan(
        groups=frozenset({"absent"}), prepare=_unprepared, constraint=_forbid_one, disturb=_mention_forbidden
    ),
    "check_whether_whole_response_not_contain_certain_substrings": Plan(
        groups=frozenset({"absent"}), prepare=_unprepared, constraint=_forbid_some, disturb=_mention_forbidden
    ),
    **_edge_plans("each_sentence", Level.SENTENCE),
    **_edge_plans("each_paragraph", Level.PARAGRAPH),
    **_edge_plans("whole_response", Level.RESPONSE),
    **_keyword_plans(),
    "check_percentage_number_precision_in_response": _precision_plan(
        "check_percentage_number_precision_in_response", NumberStyle.PERCENTAGE
    ),
    "check_number_precision_in_response": _precision_plan("check_number_precision_in_response", NumberStyle.DECIMAL),
    "check_whether_has_no_arabic_number_in_response": Plan(
        groups=frozenset({"numbers"}),
        prepare=partial(_number, NumberStyle.WORDS),
        constraint=_no_digits,
        disturb=partial(_rewrite_number, NumberStyle.WHOLE),
    ),
}
"""A plan for every check, by its name."""
