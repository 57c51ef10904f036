"""A question about a report, and how its answer may be written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vlm_envs.content.reports.words import grouped
from vlm_envs.responses.answers import RELATIVE_TOLERANCE, AnswerKey, AnswerKind

NOT_ANSWERABLE = "Not answerable"
"""What is to be answered where the report does not say."""

_REFUSALS = (NOT_ANSWERABLE, "Unanswerable", "Cannot be answered", "The report does not say", "Not in the report")
_NUMBER_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A question with its answer.

    Attributes:
        category: One of `vlm_envs.content.reports.questions.ask.CATEGORIES`.
        template: Which of the kinds of question within the category.
        question: What is asked.
        key: The answer and how to compare with it.
        pages: Pages that hold the answer, counted from 1; none where nothing does, or no report is given.
        facts: Sentences that a careful look at these pages tells.
        terms: What the question is about, in the order of the template; each is a part of the question.
    """

    category: str
    template: str
    question: str
    key: AnswerKey
    pages: tuple[int, ...] = ()
    facts: str
    terms: tuple[str, ...]


def count_key(value: int, units: Sequence[str] = ()) -> AnswerKey:
    """Returns the key of a whole number that is printed: no tolerance, any of the usual ways to write it.

    Args:
        value: The number, not negative.
        units: Words that may follow it.
    """
    written = dict.fromkeys([grouped(value), str(value)])
    if value < len(_NUMBER_WORDS):
        written[_NUMBER_WORDS[value]] = None
    return AnswerKey(kind="exact", answers=(*written, *(f"{number} {unit}" for number in written for unit in units)))


def reading_key(value: int) -> AnswerKey:
    """Returns the key of a value read off a chart: right within 5 %."""
    return AnswerKey(kind="number", answers=(str(value),), tolerance=RELATIVE_TOLERANCE)


def name_key(name: str) -> AnswerKey:
    """Returns the key of a name: equal, since a similar name is another name."""
    return AnswerKey(kind="anls", answers=(name,), tolerance=0.0)


def phrase_key(phrase: str) -> AnswerKey:
    """Returns the key of a phrase that no other phrase resembles: similarity by characters (ANLS)."""
    return AnswerKey(kind="anls", answers=(phrase,))


def exact_key(*answers: str) -> AnswerKey:
    """Returns the key of an answer with a few equal ways to write it."""
    return AnswerKey(kind="exact", answers=tuple(dict.fromkeys(answers)))


def refusal_key(kind: AnswerKind) -> AnswerKey:
    """Returns the key of a question that the report does not answer.

    Args:
        kind: That of the same question about something that the report holds; prompts tell how to answer by it, and
            must not tell that there is no answer.
    """
    return AnswerKey(kind=kind, answers=_REFUSALS)
