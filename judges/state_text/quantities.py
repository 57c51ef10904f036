"""Numbers as models write them: any of them is data, infinite and absurd ones too."""

from __future__ import annotations

import itertools
import re

NUMBER = r"[-+]?(?:(?<!\d)\d++(?:\.\d*+)?(?:e[-+]?\d{1,4}\b)?|\.\d++|nan\b|inf(?:inity)?\b)"
"""Pattern of one number in lower-case text; it never begins inside a number, so a long one is read but once."""

_UNITS_M = {"m": 1.0, "meter": 1.0, "metre": 1.0, "cm": 0.01, "centimeter": 0.01, "centimetre": 0.01, "mm": 0.001}
_UNIT = rf"(?:(?:{'|'.join(_UNITS_M)})s?)\b"
LENGTH = rf"{NUMBER}[ -]?{_UNIT}|(?<!\d)\d++\.\d++"
"""Pattern of a length; a number without a unit is one only if it has decimals, and is then in metres."""

_GAP = r"\s{0,9}"
_COORDINATE = rf"{_GAP}(?:[\"']?[xyz][\"']?{_GAP}[=:]{_GAP})?[\"']?{NUMBER}{_GAP}(?:mm)?[\"']?{_GAP}"
_BRACKETED = rf"[(\[]{_COORDINATE},{_COORDINATE},{_COORDINATE}[)\]]"
_BARE = rf"(?<![\w.,(\[-])(?<!\d, ){NUMBER}{_GAP}(?:mm)?,{_COORDINATE},{_GAP}{NUMBER}(?![\d.]|{_GAP},{_GAP}[-\d])"
_BETWEEN = rf"{_GAP}(?:mm\b)?{_GAP}[,;]?{_GAP}(?:and\b)?{_GAP}"
_LABELED = "|".join(
    _BETWEEN.join(rf"[\"']?\b{axis}[\"']?{_GAP}[=:]?{_GAP}[\"']?{NUMBER}[\"']?" for axis in axes)
    for axes in itertools.permutations("xyz")
)
TRIPLE = rf"{_BRACKETED}|{_LABELED}|{_BARE}"
"""Pattern of a position in space: three numbers in brackets, after x, y and z, or with commas between them."""

_NUMBER = re.compile(NUMBER)
_LABEL = re.compile(r"\b[xyz]\b")
_LENGTH = re.compile(rf"({NUMBER})[ -]?({_UNIT})?")
_NUMBER_WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}
_NUMBER_WORD = re.compile(rf"\b({'|'.join(_NUMBER_WORDS)})(?=[ -]{_UNIT})")


def spell_digits(text: str) -> str:
    """Returns a text with number words before a unit of length as digits: `2 meters` for `two meters`."""
    return _NUMBER_WORD.sub(lambda match: str(_NUMBER_WORDS[match[1]]), text)


def first_number(text: str) -> float | None:
    """Returns the first number in lower-case text, or None without one; NaN and infinity are numbers."""
    match = _NUMBER.search(text)
    return float(match[0]) if match else None


def first_length_m(text: str) -> float | None:
    """Returns the first length in lower-case text, in metres unless a unit says otherwise; None without one."""
    match = _LENGTH.search(text)
    return float(match[1]) * _UNITS_M[(match[2] or "m").removesuffix("s")] if match else None


def length_m(text: str) -> float:
    """Returns what `LENGTH` matched, in metres."""
    length = first_length_m(text)
    assert length is not None, "every length has a number"
    return length


def position(text: str) -> tuple[float, float, float]:
    """Returns the numbers of what `TRIPLE` matched."""
    numbers, labels = list(map(float, _NUMBER.findall(text))), _LABEL.findall(text)
    if sorted(labels) == ["x", "y", "z"]:
        numbers = [numbers[labels.index(axis)] for axis in "xyz"]
    x, y, z = numbers
    return x, y, z
