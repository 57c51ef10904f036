"""Numbers that the two profiles see."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.slow import sized
from vlm_envs.tools.text_profiles import (
    DECIMAL_PERCENTAGES,
    DECIMALS,
    NUMBERS,
    PERCENTAGES,
    STANDALONE_DIGITS,
    STANDALONE_NUMBERS,
    numerals,
)

PATTERNS = (
    DECIMAL_PERCENTAGES,
    PERCENTAGES,
    DECIMALS,
    NUMBERS,
    STANDALONE_DIGITS,
    STANDALONE_NUMBERS,
)


def decimals_of(found):
    return [numeral.num_decimals for numeral in found]


@pytest.mark.parametrize(
    ("text", "arm", "mm_ifengine"),
    [
        ("3.50%", [2], [2]),
        ("5%", [], [0]),  # arm: only percentages with a decimal mark are seen.
        ("3.5 %", [], [1]),  # mm_ifengine: white space may stand before the sign.
        ("3.5\u00a0%", [], [1]),
        ("1,234.5%", [1], [1]),
        ("about 12.5% to 13.75%", [1, 2], [1, 2]),
        (".5%", [], [0]),  # Read as the whole number 5, in both.
        ("5 percent", [], []),
        ("٣.٥٠%", [2], [2]),  # Digits of other scripts.
        ("3.5％ 3.5٪", [], []),  # Full-width and Arabic percent signs are not `%`.
        ("%", [], []),
    ],
)
def test_percentages(text, arm, mm_ifengine):
    assert decimals_of(numerals(DECIMAL_PERCENTAGES, text)) == arm
    assert decimals_of(numerals(PERCENTAGES, text)) == mm_ifengine


@pytest.mark.parametrize(
    ("text", "arm", "mm_ifengine"),
    [
        ("3.14", [2], [2]),
        ("12", [], [0]),  # arm: whole numbers are not seen.
        ("1,234.50", [2], [2]),
        ("1,234", [], [0]),
        ("-0.5 and .25", [1], [1, 2]),  # arm: a number begins with a digit.
        ("1.50e-3", [2], [2]),  # mm_ifengine: the decimals are those of the mantissa.
        ("2e5", [], [0]),
        ("v1.25 x2", [2], [0]),  # mm_ifengine: not after a letter; what is left of v1.25 is the whole number 25.
        ("10kg", [], []),
        ("3.50kg", [2], [2]),  # Departure from mm_ifengine's code, which reads the whole number 3.
        ("Version 1.2.3", [1], [1, 0]),
        ("In 1990.", [], [0]),
        ("12.50%", [2], [2]),
        ("COVID-19", [], [0]),
        ("½ Ⅳ ① 三", [], []),
    ],
)
def test_numbers(text, arm, mm_ifengine):
    assert decimals_of(numerals(DECIMALS, text)) == arm
    assert decimals_of(numerals(NUMBERS, text)) == mm_ifengine


@pytest.mark.parametrize(
    ("text", "arm", "mm_ifengine"),
    [
        ("no number", 0, 0),
        ("12 cats", 1, 1),
        ("3.5 m", 2, 1),  # arm: 3 and 5 are two runs of digits.
        ("1,000 m", 2, 2),
        ("50% off", 1, 1),
        ("5e10 m", 0, 1),  # arm: 5e10 is a word with digits.
        ("3D, 2nd, x2", 0, 0),
        ("COVID-19 came", 1, 1),
        ("It was 1990.", 1, 0),  # mm_ifengine: a number before a full stop is not seen.
        (".5 m", 1, 0),
        ("٣ cats", 1, 1),
        ("Ⅳ ① ½ 三", 0, 0),
    ],
)
def test_arabic_numbers(text, arm, mm_ifengine):
    assert len(numerals(STANDALONE_DIGITS, text)) == arm
    assert len(numerals(STANDALONE_NUMBERS, text)) == mm_ifengine


@given(st.text() | st.text(alphabet="0123456789.,%eE+- x_٣", max_size=60))
def test_every_text_can_be_read(text):
    for pattern in PATTERNS:
        assert all(numeral.text in text for numeral in numerals(pattern, text))


@pytest.mark.parametrize("piece", ["1", "111,", "1.", "1 ", "1e1", "%", "1.1e", "-1", "1" * 999 + "x", "1" + " " * 999])
@pytest.mark.parametrize("ending", ["", "x", "%"])
def test_no_text_takes_long(piece, ending):
    num_chars = sized(25_000, soak=100_000)
    text = (piece * (num_chars // len(piece) + 1))[:num_chars] + ending
    started = time.process_time()
    for pattern in PATTERNS:
        numerals(pattern, text)
    # Below 0.5 s; a pattern of quadratic time takes minutes.
    assert time.process_time() - started < 20
