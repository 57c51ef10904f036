"""Numbers that a text writes in words, written in digits."""

from __future__ import annotations

import re

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
SMALL_NUMBERS = tuple(_SMALL.split())
"""Zero to nineteen."""
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {word: n for n, word in enumerate(SMALL_NUMBERS)} | {word: 20 + 10 * n for n, word in enumerate(_TENS)}
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1000}

_SCALE = f"(?:{'|'.join(_SCALES)})"
_TEN = rf"(?:{'|'.join(_TENS)})(?:[- ](?:{'|'.join(SMALL_NUMBERS[1:10])})\b)?"
_UNIT = rf"(?:{_TEN}|{'|'.join(sorted(SMALL_NUMBERS, key=len, reverse=True))}|\d{{1,6}})"
_NUMBER = re.compile(
    rf"\b(?:(?:a[- ]|{_UNIT}[- ]){_SCALE}\b(?:(?: and)?[- ]{_UNIT}[- ]{_SCALE}\b)*(?:(?: and)?[- ]{_UNIT}\b)?|{_TEN}\b)"
)
_COMMA = re.compile(r"(?<=\d),(?=\d{3}\b)")


def in_digits(text: str) -> str:
    """Returns a lower-case text with numbers above nineteen in digits: "one hundred and twenty" as "120".

    Small numbers stay words ("one" may be a pronoun); "1,200" becomes "1200", "half a dozen" 6.
    """
    text = _COMMA.sub("", text).replace("half a dozen", "6")
    return _NUMBER.sub(lambda match: str(_value(match.group())), text)


def _value(words: str) -> int:
    total = current = 0
    for word in re.findall(r"[a-z]+|\d+", words):
        if word == "thousand":
            total, current = total + max(1, current) * 1000, 0
        elif word in _SCALES:
            current = max(1, current) * _SCALES[word]
        elif word not in ("a", "and"):
            current += int(word) if word.isdecimal() else _VALUES[word]
    return total + current
