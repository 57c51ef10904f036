"""The sentences of a thought without boxes, points, and tags, and which of them are questions."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NUMBER = r"[-+]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|(?i:nan|infinity|inf))"
_GAP = r"[ \t]{0,4}"
_NUMBERS = rf"{_NUMBER}(?:(?:{_GAP}[,;]{_GAP}|[ \t]{{1,4}}){_NUMBER}){{1,63}}"
_FLAT = rf"[\[(]{_GAP}{_NUMBERS}{_GAP}[\])]"
_NESTED = rf"[\[(]{_GAP}{_FLAT}(?:{_GAP},?{_GAP}{_FLAT}){{0,63}}{_GAP}[\])]"
_COORDINATES = rf"(?:{_NESTED}|{_FLAT}|(?<=>){_GAP}{_NUMBERS}{_GAP}(?=<))"
_LABEL = r"(?:bbox(?:_2d)?|box|boxes|bounding box|coordinates|position|point|region|area)"
_BOXES = re.compile(
    rf"(?:\b(?:at|in|inside|within|around|near)[ \t](?:the[ \t])?(?:{_LABEL}[ \t]?)?|\b{_LABEL}[ \t]?:[ \t]?)?"
    rf"{_COORDINATES}(?:{_GAP}(?:,|and|to)?{_GAP}{_COORDINATES}){{0,63}}",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[^<>]{0,200}>")
_MARK = "\0"
"""Stands for removed boxes until the punctuation around them is removed too."""
_AROUND_MARKS = (
    (re.compile(rf"[\[({{][ \t]*{_MARK}[ \t]*[\])}}]"), _MARK),  # brackets that hold nothing else
    (re.compile(rf",[ \t]*{_MARK}[ \t]*,"), _MARK),  # commas that set off nothing else
    (re.compile(_MARK), " "),
    (re.compile(r"[^\S\n]+"), " "),
    (re.compile(r" (?=[.,;:!?])"), ""),
)
_SENTENCE = re.compile(r"(?:[^.!?？;\n]|[.](?=\d))+[.!?？;\n]?")
_BEGINS_QUESTION = re.compile(
    r"\s*(?:is|are|was|were|am|do|does|did|can|could|has|have|had|will|would|should|shall)\b", re.IGNORECASE
)


def without_boxes(text: str) -> str:
    """Returns a text without boxes, points, and tags, as it would have been written without them.

    Several boxes in a row, brackets and commas around nothing else, and words that only lead to a box ("at [1, 2, 3,
    4]") are removed as well, and no two blanks remain in a row.
    """
    text = _TAG.sub(" ", _BOXES.sub(_MARK, text.replace(_MARK, " ")))
    for pattern, shorter in _AROUND_MARKS:
        text = pattern.sub(shorter, text)
    return text


def sentences(text: str) -> Iterator[str]:
    """Yields the sentences of a text with the mark that ends each; lines and semicolons end sentences too."""
    for match in _SENTENCE.finditer(text):
        yield match.group()


def is_question(sentence: str) -> bool:
    """Returns whether a sentence asks: by its mark, or by an auxiliary verb that begins it."""
    return sentence.endswith(("?", "？")) or _BEGINS_QUESTION.match(sentence) is not None


def without_questions(text: str) -> str:
    """Returns a text without its questions."""
    return " ".join(sentence for sentence in sentences(text) if not is_question(sentence))
