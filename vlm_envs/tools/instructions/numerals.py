r"""Numbers as the two profiles see them in a text. Every pattern takes time linear in the text.

Digits are those of every script (`\d`): Arabic-Indic and full-width ones too. Roman numerals, circled digits,
fractions and numbers in words are not numbers. The decimal mark is the full stop, the percent sign is `%`.

A pattern starts only where a run of digits starts and never gives digits of it back (possessive quantifiers), or a long
run would take quadratic time. Groups after commas are given back, one, so that `1,234,567x` is read as `1,234` at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number in a text.

    Attributes:
        text: As it is written.
        num_decimals: Digits after the decimal mark; 0 for a whole number.
    """

    text: str
    num_decimals: int


DECIMAL_PERCENTAGES = re.compile(r"(?<!\d)\d++\.(?P<decimals>\d++)%")
"""Percentages with a decimal mark and directly followed by `%`: `3.5%`, not `5%` nor `3.5 %`."""

PERCENTAGES = re.compile(r"(?<!\d)\d++(?:\.(?P<decimals>\d++))?+\s*+%")
"""All percentages, whole ones and those with white space before `%` too."""

DECIMALS = re.compile(r"(?<!\d)\d++\.(?P<decimals>\d++)")
"""Numbers with a decimal mark, wherever they stand: in `v1.25` and `3.5kg` too. Whole ones are left out."""

NUMBERS = re.compile(
    r"""(?<!\w)[+-]?
    (?:
        (?:\d{1,3}(?:,\d{3})+|\d++)?\.(?P<decimals>\d++)(?:[eE][+-]?\d++)?+      # 1,234.50, 0.5, .5, 1.5e-3, 3.5kg
        |(?:\d{1,3}(?:,\d{3})+|\d++)(?:[eE][+-]?\d++)?+(?!\w)                    # 1,234, 12, 5e10; not 12kg
    )""",
    re.VERBOSE,
)
"""All numbers that do not continue a word: signed, grouped by commas, `.5`, `1e-3`, whole ones too."""

STANDALONE_DIGITS = re.compile(r"(?<!\w)\d++(?!\w)")
"""Runs of digits that are no part of a word: of `COVID-19` and `2024.`, not of `3D` or `2nd`."""

STANDALONE_NUMBERS = re.compile(r"(?<![.\w])\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+(?![.\w])")
"""Numbers between characters that are neither of a word nor a full stop, so not the last of a sentence."""


def numerals(pattern: re.Pattern[str], text: str) -> tuple[Numeral, ...]:
    """Returns the matches of a pattern; its group `decimals`, if it has one, counts the decimals."""
    has_decimals = "decimals" in pattern.groupindex
    return tuple(
        Numeral(match.group(), len(match["decimals"] or "") if has_decimals else 0) for match in pattern.finditer(text)
    )
