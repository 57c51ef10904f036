"""Consistency of two thoughts by their words: iVGR's alpha where no model judges.

A stand-in that is free and reproducible, for generated scenes whose facts are said in few words. Contradictions are
looked for by rule first. What a language model would see as a paraphrase it takes for another content;
`judges.llm.graded.LLMConsistencyJudge` asks one.
"""

from __future__ import annotations

import re
from collections.abc import Set

from judges.consistency.affirmed import affirmed, unsettled
from judges.consistency.contradictions import contradiction, hedge, own_contradiction
from judges.consistency.nouns import shared_names, singular
from judges.consistency.readings import QUOTED
from judges.consistency.sentences import without_boxes
from judges.consistency.statements import DECIMAL, SAME, SCORE, one_number, with_hyphens
from judges.scores import JudgeScore
from vlm_envs.responses.extraction import MAX_TEXT_CHARS
from vlm_envs.responses.numbers import SMALL_NUMBERS, in_digits

CONSISTENCY_GRADES = (0.0, 0.3, 0.7, 1.0)
"""α: contradicts; omits and adds; omits or adds; the same content. Source: iVGR, section 3.3."""

MAX_DEVIATION = 0.25
"""Part of the words that may be missing, or added, without counting as omitted or added content."""

MAX_ADDED = 4.0
"""Words added to each of the reference's beyond which a text says everything there is, and so nothing."""

MIN_SHARED = 0.25
"""Part of the reference's words below which the text speaks of something else."""

_WORD = re.compile(rf"\d{{1,2}}:\d\d\b|{SCORE}|{DECIMAL}|[^\W_]*\d[^\W_]*|[^\W\d_]{{3,}}")
"""Times, decimals, scores, and what holds a digit stay whole: "3:15" is neither 3 nor 15."""

_SHORT_TEXT = re.compile(r"\b[A-Z]{2}\b")
_READS = dict.fromkeys(("says", "reads", "displays"), "shows")
"""Verbs for what a clock or a sign shows."""
_DIGITS = {word: str(number) for number, word in enumerate(SMALL_NUMBERS) if word != "one"}
_COMMON = frozenset(
    "the and are was were there this that these those which what with within for from has have had its his her one "  # noqa: SIM905
    "box boxes picture image shown see seen look looks looking settles question answer therefore because here "
    "can count counted total see sees notice find you".split()
)


def content_words(text: str) -> frozenset[str]:
    """Returns the words of a text that say what is in a picture: no boxes, no tags, nothing that every thought says.

    Numbers are digits, times and what holds a digit are whole, and what is quoted or in capitals counts however short.
    """
    plain = _plain(text)
    quoted = " ".join(QUOTED.findall(plain))
    texts = [word.casefold() for word in (*_SHORT_TEXT.findall(plain), *re.findall(r"[^\W_]+", quoted))]
    words = (
        *map(one_number, _WORD.findall(with_hyphens(in_digits(plain.casefold())))),
        *(text for text in texts if not text.isdecimal()),
    )
    return frozenset(_DIGITS.get(word, word) for word in words) - _COMMON


def _plain(text: str) -> str:
    """Returns a text without its boxes and tags."""
    return without_boxes(text[:MAX_TEXT_CHARS])


def _in_one_form(*texts: Set[str]) -> list[frozenset[str]]:
    """Returns the words of some texts with nouns in the singular and one word for what has several."""
    texts = tuple(frozenset(singular(_READS.get(word, word)) for word in words) for words in texts)
    same = shared_names(*texts)
    return [frozenset(same.get(word, SAME.get(word, word)) for word in words) for words in texts]


def word_consistency(question: str, reference: str, text: str, temperature: float = 0.0) -> JudgeScore:
    """Returns the grade of one text against the reference, by the content words that they share.

    Args:
        question: Its own words count in neither text.
        reference: The grounded thought.
        text: The textual thought.
        temperature: Of no use here.

    Returns:
        1 for the same content, 0.7 where it omits or adds, 0.3 for both, for a list of all words there are and for one
        of what may be ("red or blue"), 0 where it contradicts the reference or hardly shares anything with it.

    Source: iVGR, section 3.3, for the grades. Choices: `MAX_DEVIATION`, `MAX_ADDED`, `MIN_SHARED`; what contradicts is
    `judges.consistency.contradictions`' to say; a reference without content words is matched by any text that does not.
    """
    true_plainly, said_plainly = _plain(reference), _plain(text)
    if contrary := contradiction(true_plainly, said_plainly) or own_contradiction(said_plainly):
        return JudgeScore(value=0.0, reason=f"contradicts: {contrary}")
    asked, expected, said = _in_one_form(
        content_words(question),
        content_words(affirmed(true_plainly)) or content_words(true_plainly),
        content_words(affirmed(said_plainly)),
    )
    expected, said = expected - asked, said - asked
    if not expected:
        return JudgeScore(value=1.0, reason="the reference says no more than the question")
    shared = len(expected & said - unsettled(said, said_plainly, expected))
    added = len(said - expected)
    if shared < MIN_SHARED * len(expected):
        return JudgeScore(value=0.0, reason=f"shares {shared} of {len(expected)} words")
    omits = len(expected) - shared > MAX_DEVIATION * len(expected)
    adds = added > MAX_DEVIATION * max(1, len(said))
    says_everything = added > MAX_ADDED * len(expected)
    if says_everything and omits:
        return JudgeScore(value=0.0, reason=f"shares {shared} of {len(expected)} words and adds {added}")
    if (left_open := hedge(true_plainly, said_plainly)) and shared:
        return JudgeScore(value=0.3, reason=left_open)
    if says_everything:
        return JudgeScore(value=0.3, reason=f"adds {added} words to {len(expected)}")
    grade = {0: 1.0, 1: 0.7, 2: 0.3}[omits + adds]
    return JudgeScore(value=grade, reason=f"{'omits ' * omits}{'adds' * adds}".strip() or "the same content")
