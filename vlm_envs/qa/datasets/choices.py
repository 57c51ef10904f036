"""Options of a choice: in a field of a row, in columns of their own, or as lettered lines that end the question."""

from __future__ import annotations

import json
import math
import re
import string
from collections.abc import Sequence
from typing import Any

from vlm_envs.qa.datasets.rows import Fields, answer_key, broken, plain_text
from vlm_envs.responses.answers import AnswerKey, normalise
from vlm_envs.responses.numbers import read_number

_LETTERED = re.compile(r"\s*\(?([A-Z])\s*[.:)]\s*(.*\S)\s*", re.DOTALL)
_BOTH = re.compile(_LETTERED.pattern, re.DOTALL | re.IGNORECASE | re.ASCII)
_LETTER = re.compile(r"\(?([A-Z])\)?\.?")
_HEADINGS = ("options:", "choices:")


def option_texts(fields: Fields, where: str) -> tuple[str, ...]:
    """Returns the texts of a row's options without their letters; none where the row has none.

    They are a list as `options` (or JSON of one, as a cell of a table holds it), or the fields `A`, `B` and so on of
    `options` or of the row.
    """
    value: Any = fields.get("options")
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise broken(where, "a list of texts as 'options'", value) from error
    if isinstance(value, dict) or value in (None, "", []):
        value = _columns(value or fields, where)
    if not isinstance(value, list) or not all(isinstance(option, str | int | float) for option in value):
        raise broken(where, "a list of texts as 'options'", value)
    texts = [plain_text(option) for option in value]
    if len(texts) == 1 or len(texts) > len(string.ascii_uppercase) or not all(texts) or len({*texts}) < len(texts):
        raise broken(where, "2 to 26 different texts as 'options'", value)
    return _without_letters(texts) or tuple(texts)


def choice_key(answer: str, options: Sequence[str], question: str, where: str) -> AnswerKey:
    """Returns the key of a choice, whose answer is a letter, the text of an option, or both.

    Lettered lines at the end of the question that repeat the options are removed from it.
    """
    question = _without_options(question, options)
    letters = string.ascii_uppercase[: len(options)]
    if answer not in options and (match := _LETTER.fullmatch(answer.upper())) and (match[1] in letters or not options):
        return answer_key(where, "choice", match[1], options=options, question=question)
    lettered = [*zip(letters, options, strict=True)]
    matching = [letter for letter, text in lettered if text == answer]
    matching = matching or [letter for letter, text in lettered if normalise(text) == normalise(answer)]
    matching = matching or [letter for letter, text in lettered if _is_option(answer, letter, text)]
    if len(matching) != 1:
        raise broken(where, f"a letter from A to {letters[-1]} or the text of an option as 'answer'", answer)
    return answer_key(where, "choice", matching[0], options=options, question=question)


def _is_option(answer: str, letter: str, text: str) -> bool:
    """Returns whether an answer is an option, or its letter, in either case, and the option."""
    both = _BOTH.fullmatch(answer)
    return _is_same(answer, text) or (both is not None and both[1].upper() == letter and _is_same(both[2], text))


def _without_options(question: str, options: Sequence[str]) -> str:
    asked, stated = split_question(question)
    is_repeated = len(stated) == len(options) and all(map(_is_same, stated, options))
    return asked if is_repeated else question


def _is_same(first: str, second: str) -> bool:
    """Returns whether two texts are the same words or the same number."""
    number = read_number(first)
    return normalise(first) == normalise(second) or (number is not None and number == read_number(second))


def split_question(question: str) -> tuple[str, tuple[str, ...]]:
    """Returns a question without the lettered lines that end it, and the options in these lines."""
    lines = question.strip().splitlines()
    first = next((index for index, line in enumerate(lines) if _LETTERED.fullmatch(line)), len(lines))
    options = _without_letters(lines[first:])
    head = lines[:first]
    if head and head[-1].strip().casefold() in _HEADINGS:
        head.pop()
    if len(options) < 2 or not (text := "\n".join(head).strip()):
        return question, ()
    return text, options


def is_letter(answer: str) -> bool:
    """Returns whether an answer is the letter of an option."""
    return _LETTER.fullmatch(answer) is not None


def _columns(fields: Fields, where: str) -> list[Any]:
    """Returns the values of the columns A, B and so on up to the last one that has a value."""
    cells = [fields.get(letter) for letter in string.ascii_uppercase]
    values = ["" if isinstance(cell, float) and math.isnan(cell) else cell for cell in cells]
    count = max((index + 1 for index, value in enumerate(values) if value not in (None, "")), default=0)
    if any(value in (None, "") for value in values[:count]):
        raise broken(where, f"options in all columns from A to {string.ascii_uppercase[count - 1]}", values[:count])
    return values[:count]


def _without_letters(options: Sequence[str]) -> tuple[str, ...]:
    """Returns options without the letters A, B and so on that they begin with; none if any begins otherwise."""
    matches = [match for option in options if (match := _LETTERED.fullmatch(option))]
    if [match[1] for match in matches] != list(string.ascii_uppercase[: len(options)]):
        return ()
    return tuple(match[2] for match in matches)
