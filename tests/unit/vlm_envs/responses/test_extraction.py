"""Finding an answer in model output and removing the markup around it."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.responses.extraction import (
    MAX_TEXT_CHARS,
    last_boxed,
    last_section,
    readings,
    sections,
    unwrap,
    without_thoughts,
)

WRAPPERS = [
    r"\boxed{%s}",
    "<|begin_of_box|>%s<|end_of_box|>",
    "**%s**",
    "*%s*",
    "***%s***",
    "__%s__",
    "`%s`",
    "```\n%s\n```",
    "```text\n%s\n```",
    '"%s"',
    "'%s'",
    "“%s”",
    "«%s»",
    "「%s」",
    r"\text{%s}",
    "$%s$",
    "<b>%s</b>",
    r"\(%s\)",
    " \u200b%s \n",
    "%s<|im_end|>",
]


@pytest.mark.parametrize("outer", WRAPPERS)
@pytest.mark.parametrize("inner", WRAPPERS)
def test_two_nested_wrappers_are_removed(outer, inner):
    assert unwrap(outer % (inner % "Right, Down")) == "Right, Down"


@pytest.mark.parametrize("wrapper", ["**%s**", '"%s"', "`%s`", "“%s”", r"\boxed{%s}"])
def test_a_period_behind_a_wrapper_goes_with_it(wrapper):
    assert unwrap(wrapper % "B" + ".") == "B"


@pytest.mark.parametrize(
    "text",
    [
        "**a** or **b**",
        '"a" or "b"',
        "(a) or (b)",
        "“a” and “b”",
        "5*3",
        "*5*3*",
        "$5",
        "__init__.py",
        "resp_1",
        "[Right, Down]",
        "it's",
        "~~B~~",
        r"\text{a} + \text{b}",
        "**",
        '""',
        "",
    ],
)
def test_marks_that_do_not_wrap_the_whole_text_stay(text):
    assert unwrap(text) == text


def test_the_last_box_is_the_answer():
    assert unwrap(r"either \boxed{1} or \boxed{2}, so: \boxed{3}.") == "3"
    assert last_boxed(r"\boxed{\frac{1}{2}}") == r"\frac{1}{2}"
    assert last_boxed(r"\boxed{1} <|begin_of_box|>2<|end_of_box|>") == "2"
    assert last_boxed(r"\boxed{1") is None


@pytest.mark.parametrize(
    ("text", "innermost"),
    [
        ("Final answer: B", "B"),
        ("The correct answer is option B.", "option B."),
        ("**Answer:** B", "B"),
        ("**Final Answer**: **B**", "B"),
        ("Answer:**B**", "B"),
        ("So the final answer is (B)", "B"),
        ("（Ｂ）", "Ｂ"),
        ("[“B”]", "B"),
        ("最终答案：B", "B"),
        ("the answer isolates", "the answer isolates"),
        ("answer", "answer"),
    ],
)
def test_brackets_and_leads_are_further_layers_of_an_answer(text, innermost):
    assert readings(text)[0] == text
    assert readings(text)[-1] == innermost


def test_an_answer_that_looks_like_markup_can_be_read_as_it_stands():
    assert readings("__init__") == ("__init__", "init")


def test_a_text_with_a_box_says_nothing_but_the_box():
    assert readings(r"A. \boxed{B}") == ("B",)


@pytest.mark.parametrize(
    ("text", "outside"),
    [
        ("<think>a</think> b", " b"),
        ("a</think> b", " b"),
        ("a <think> b", "a "),
        ("<think>a</think><think>b", ""),
        ("a <THINK>b</Think> c <rethink>d</rethink>", "a \n c "),
        ("a", "a"),
    ],
)
def test_thoughts_are_left_out(text, outside):
    assert without_thoughts(text) == outside


def test_the_last_complete_section_counts():
    text = "<answer>1</answer> <answer><answer>2</answer> <answer>3"
    assert sections(text, "answer") == ("1", "2")
    assert last_section(text, "answer") == ("answer", "2")
    assert last_section(f"{text}<Zoom>4</ZOOM>", "answer", "zoom") == ("zoom", "4")
    assert last_section("<answer>1", "answer") is None


def test_a_blank_section_is_the_last_one_only_where_all_are_blank():
    assert last_section("<answer>1</answer> in `<answer> </answer>`", "answer") == ("answer", "1")
    assert last_section("<zoom>1</zoom><answer></answer>", "answer", "zoom") == ("zoom", "1")
    assert last_section("<answer>\n</answer><answer> </answer>", "answer") == ("answer", " ")


HOSTILE = [
    '"', "*", "`", "(", "“", r"\boxed{", r"\text{", " ", "\n", "</s>", "<|im_end|> ", "_*", "answer: ", "the ", ".",
    "<answer>", "<think>", "</think>", "<|begin_of_box|>", "``` ", "($", "\u200b",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_longest_texts_are_read_in_bounded_time(piece):
    half = (piece * MAX_TEXT_CHARS)[: MAX_TEXT_CHARS // 2]
    mirrored = half[::-1].translate(str.maketrans("({“", ")}”"))
    start = time.process_time()
    for text in (half + half, half + mirrored, f"**{half}"[: MAX_TEXT_CHARS - 2] + "**"):
        unwrap(text)
        readings(text)
        last_section(text, "answer")
        without_thoughts(text)
    assert time.process_time() - start < 2


def test_a_text_that_is_too_long_is_not_read():
    assert readings("B" * (MAX_TEXT_CHARS + 1)) == ()
    assert sections("x" * MAX_TEXT_CHARS + "<answer>4</answer>", "answer") == ()


@given(st.lists(st.sampled_from([*HOSTILE, "}", ")", "**", "B", "</answer>", "<|end_of_box|>"]), max_size=40))
def test_no_tangle_of_marks_raises_and_readings_only_shrink(pieces):
    text = "".join(pieces)
    found = readings(text)
    assert all(len(inner) < len(outer) for outer, inner in itertools.pairwise(found))
    assert len(unwrap(text)) <= len(text)
