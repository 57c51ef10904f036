"""Verdicts on responses: what the papers ask for is read, what contradicts itself is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.errors import ConfigError
from vlm_envs.responses.answers import AnswerKey, score_answer


def key(answer: str) -> AnswerKey:
    return AnswerKey(kind="verdict", answers=(answer,))


@pytest.mark.parametrize(
    "answer",
    [
        # ARM-Thinker, figure 6, and the forms its released readers take.
        "Overall Judgment: Answer 1 is better.",
        "Overall Judgment: Answer 1 is slightly better.",
        "Overall Judgment: Answer 1 is preferred.",
        "Overall Judgment: Answer 1",
        "Answer 1 is better",
        "1",
        # Case, white space, Markdown, punctuation, British spelling.
        "overall judgment: answer 1 is better",
        "OVERALL JUDGMENT:\n\n  Answer   1   is better .",
        "**Overall Judgment:** Answer 1 is better.",
        "Overall Judgment: **Answer 1** is better.",
        "### Overall Judgement - Answer 1 is better!",
        "_Overall Judgment: Answer 1 is better._",
        "`1`",
        "“1.”",
        # ARM-Thinker, figure 5, has its verdict in quotation marks; brackets are punctuation too.
        'Overall Judgment: "Answer 1 is better."',
        "Overall Judgment: “1”",
        "Answer [1]",
        "Answer (1)",
        "[[1]]",
        "Overall Judgment: Answer [1] is better.",
        # What was read before.
        "resp_1",
        "Resp 1",
        "Response 1",
        # The same one twice.
        "Answer 1 is better. Overall Judgment: Answer 1 is better.",
        "The answer is 1.",
        "Final verdict: resp_1 is the better one",
    ],
)
def test_verdicts_on_several(answer):
    assert score_answer(answer, key("1")) == 1.0
    assert score_answer(answer, key("2")) == 0.0
    assert score_answer(answer, key("True")) == 0.0


@pytest.mark.parametrize(
    "answer",
    [
        "True",
        "true.",
        "TRUE",
        "Overall Judgment: True",
        "**Overall Judgment: True**",
        "Overall judgment:  true .",
        "The answer is True",
        "True. Overall Judgment: True",
        'Overall Judgment: "True"',
        "Overall Judgment: “True”",
        "Overall Judgment: 'True'.",
        "[True]",
        "Overall Judgment: (True)",
    ],
)
def test_verdicts_on_one(answer):
    assert score_answer(answer, key("True")) == 1.0
    assert score_answer(answer.replace("rue", "false").replace("RUE", "FALSE"), key("True")) == 0.0
    assert score_answer(answer, key("False")) == 0.0
    assert score_answer(answer, key("1")) == 0.0


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Answer 1 is better. Answer 2 is better.",
        "Overall Judgment: Answer 1 is better. Overall Judgment: Answer 2 is better.",
        "1 or 2",
        "1, 2",
        "12",
        "Answer 1 is better than answer 2",
        "Answer 1 is not better",
        "Answer 1 is worse",
        "Answer 1 is better because it counts the cats.",
        "Is it 1? Answer 2 is better.",
        "Overall Judgment: Answer X is better",
        "Overall Judgment: True (or False)",
        "Overall Judgment: True (False)",
        "Overall Judgment: [1] [2]",
        '"1" "2"',
        "True. False.",
        "True or False",
        "not true",
        "Overall Judgment: 1. Overall Judgment: True.",
        "neither",
        "1" * 5000,
    ],
)
def test_what_contradicts_itself_hedges_or_explains_is_no_verdict(answer):
    assert [score_answer(answer, key(truth)) for truth in ("1", "2", "True", "False")] == [0.0] * 4


@given(st.text(max_size=200))
def test_no_text_raises_and_none_is_right_twice(answer):
    assert sum(score_answer(answer, key(truth)) for truth in ("1", "2", "3", "4", "True", "False")) <= 1.0


def test_keys_that_no_verdict_could_meet_are_refused():
    with pytest.raises(ConfigError, match="a response's number, True or False"):
        key("better")
