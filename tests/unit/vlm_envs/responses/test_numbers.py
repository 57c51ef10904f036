"""Numbers in digits, in words, as fractions, and with a unit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.responses.numbers import in_digits, is_in_words, is_whole, read_number, read_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3), ("three", 3), ("Forty", 40), ("forty-two", 42), ("forty two", 42),
        ("one hundred and five", 105),
        ("a dozen", 12), ("two thousand and one", 2001), ("minus three", -3), ("zero", 0),
        ("3 chairs", 3), ("three chairs", 3), ("three red chairs.", 3), ("25 square metres", 25), ("5 m²", 5),
        ("1,234.5 kg", 1234.5), ("45 percent", 45), ("45 per cent", 45), ("45%", 45), ("48°", 48),
        ("48 °C", 48),
        ("48 degrees", 48), ("5km", 5), ("60 km/h", 60), ("$5", 5), ("-$5", -5), ("5 €", 5),
        ("\N{MINUS SIGN}5", -5),
        ("1/2", 0.5), ("½", 0.5), ("3½", 3.5), ("1 1/2", 1.5), (r"\frac{1}{2}", 0.5), (".5", 0.5), ("1e2", 100),
        ("5 million", 5_000_000), ("1.5 million people", 1_500_000), ("two hundred thousand", 200_000),
        ("1998", 1998),
        ("one third", 1 / 3), ("one half", 0.5), ("two thirds of voters", 2 / 3), ("three quarters", 0.75),
        ("a quarter", 0.25),
        ("three-quarters", 0.75), ("minus one half", -0.5), ("1.2 thousand", 1200), ("2.3 million", 2_300_000),
        ("12M", 12_000_000), ("12 M", 12_000_000), ("$12M", 12_000_000),
        ("$12m", 12_000_000), ("12bn", 12 * 10**9), ("3 bn", 3 * 10**9), ("$12B", 12 * 10**9), ("1.5k", 1500),
        ("3 lakh", 300_000),
        ("12 crore", 120_000_000), ("12m", 12), ("12 m", 12), ("12 MB", 12), ("12 m/s", 12), ("5 seconds", 5),
        ("**3** chairs", 3), ("3 **chairs**", 3), ("There are `3` chairs.", 3), (r"3\text{ chairs}", 3),
        ("3 (three)", 3), ("five (5)", 5), ("There are 5.", 5), ("There are five red chairs.", 5),
        ("It is 5", 5), ("\N{EN DASH}5", -5), ("5個", 5), ("5 light-years", 5), ("5 sq. ft.", 5),
        ("60 people per hour", 60),
        ("5人", 5), ("3 per cent", 3), ("3 minutes", 3),
    ],
)  # fmt: skip
def test_one_number_is_read(text, value):
    assert read_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", "chairs", "3 chairs and 2 tables", "5-6", "5 to 6", "two or three", "3 of 5", "5 or more", "5²",
        "12th",
        "1980s", "10:30", "1/0", "1/2/2016", "5.5.2016", "3,5", "1,2", "2x", "1e999", "nan", "0x10", "1_000",
        "9" * 400,
        "nineteen ninety-eight", "twenty twenty", "3 people who are sitting down", "about 5", "3-legged stools",
        "3 quarters", "twenty third", "3 halves", "1 hundredth", "three tens", "three and a half",
        "seventy thirds",
        "3 hundreds", "3 thousands", "3 dozens", "3 tens", "three score", "3 mil", "3mil", "12b", "3 millions",
        "300 K",
        "3 is wrong", "3 no", "3 isn't", "3 isn’t", "3 not", "3no", "not 3", "3 is not right", "3 was false",
        "3 incorrect",
        "3 less", "3 more", "3 fewer", "3 or less", "3 minus tax", "3 plus tax", "3 times more",
        "3 times the tax", "3 more chairs",
        "3 chairs more", "3 by area", "3 than", "3 to go", "3 but maybe", "1998 BC", "1998 B.C.", "1998BC",
        "1998 BCE", "1998 AD",
        "5*3", "**3** and **4** chairs", f"3 {'*' * 200} 4",
        "3 (four)", "3 (or 4)", "3 (maybe)", "3 (not)", "3 (three) (3)", "There are", "There are 5 or 6.",
        "5–6", "5万", "5個半",
        "3 non/not", "3 red wooden garden chairs", "$-", "3 kings' chairs",
    ],
)  # fmt: skip
def test_several_numbers_and_other_texts_are_none(text):
    assert read_quantity(text) is None


def test_a_number_in_digits_has_no_words_around_it():
    assert read_number("$1,234.50") == 1234.5
    assert [read_number(text) for text in ("3 chairs", "three", "5²", "-")] == [None] * 4


@pytest.mark.parametrize(("text", "whole"), [("5", True), ("1,234", True), ("45%", True), ("five", True)])
def test_numbers_without_a_decimal_point_are_whole(text, whole):
    assert is_whole(text) is whole
    assert not any(
        is_whole(other)
        for other in ("5.0", "1e2", "1/2", "½", "two thirds", "1.5 million", "3.5 km", "five or six", "")
    )


def test_words_alone_and_digits():
    assert is_in_words("forty-two") and is_in_words("one hundred and five")
    assert not is_in_words("42") and not is_in_words("forty chairs")
    assert in_digits("1.2 thousand") == "1.2 thousand"
    assert in_digits("one of one hundred and twenty, half a dozen") == "one of 120, 6"


@given(st.text(max_size=200))
def test_no_text_raises(text):
    read_quantity(text)
    read_quantity(f"3{text}")
    read_number(text)
    is_whole(text)
