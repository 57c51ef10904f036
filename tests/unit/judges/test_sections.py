"""Tags are read from one piece of the model's own text, byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.grading import sole_section, think_then_answer, thoughts_of
from vlm_envs.responses.extraction import MAX_TEXT_CHARS, sections

TAGS = ["<think>", "</think>", "<answer>", "</answer>", "<zoom>", "</zoom>", "<box>", "\u200b", "＜answer＞", "x", "\n"]
tagged = st.lists(st.one_of(st.sampled_from(TAGS), st.text(max_size=5)), max_size=40).map("".join)


def test_every_innermost_pair_is_found_in_order():
    assert sections("<a>1</a> <a><a>2</a></a> </a><a>3", "a") == ("1", "2")


@pytest.mark.parametrize(
    "text", ["", "<a>", "</a><a>", "<a>1</a><a>2</a>", "<a>1</a></a>", "<a>1<a>2</a>", "＜a＞1＜/a＞", "<A>1</A>"]
)
def test_a_sole_section_is_one_pair_and_nothing_else_of_its_name(text):
    assert sole_section(text, "a") is None


def test_think_then_answer_is_the_whole_piece():
    assert think_then_answer(" <think>a [1, 2, 3, 4]</think>\n<answer>B</answer> ") == ("a [1, 2, 3, 4]", "B")


@pytest.mark.parametrize(
    "text",
    [
        "<answer>B</answer>",
        "<think>a</think><answer>B</answer>.",
        "<think>a</think>so<answer>B</answer>",
        "<answer>B</answer><think>a</think>",
        "<think>a</think><answer>B</answer><answer>C</answer>",
        "<think><think>a</think></think><answer>B</answer>",
        "<think>a</think><answer></answer>",
    ],
)
def test_anything_else_is_not_in_the_format(text):
    assert think_then_answer(text) is None


def test_a_piece_that_is_too_long_is_refused_unread():
    text = "<think>" + "x" * MAX_TEXT_CHARS + "</think><answer>B</answer>"
    assert (sections(text, "answer"), think_then_answer(text), thoughts_of(text)) == ((), None, "")


def test_thoughts_end_where_the_answer_begins():
    assert thoughts_of("<think>an <answer> tag</think><answer>B</answer>") == "<think>an <answer> tag</think>"


@given(tagged)
def test_no_text_raises(text):
    assert all(isinstance(inside, str) for tag in ("think", "answer", "zoom") for inside in sections(text, tag))
    assert sole_section(text, "answer") is None or len(sections(text, "answer")) == 1
    think_then_answer(text)
    assert text.startswith(thoughts_of(text))
