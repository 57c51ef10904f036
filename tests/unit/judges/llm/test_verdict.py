"""Strict verdicts: what is read, and that everything else is refused and nothing else happens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.llm.judge_prompts import (
    MAX_REPLY_CHARS,
    UnreadableReplyError,
    answer_of,
    read_object,
    read_score,
    read_yes_no,
)

GRADES = (0.0, 0.25, 0.5, 0.75, 1.0)
READERS = (
    answer_of,
    read_yes_no,
    read_object,
    lambda reply: read_score(reply, GRADES),
)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        # The form of VAGEN, appendix D.1.1.
        ("<think>The box is above.</think><answer>YES</answer>", True),
        ("<think>It is not.</think><answer>NO</answer>", False),
        ("Reasons.\n<answer> yes </answer>\n", True),
        ("<answer>No</answer>", False),
    ],
)
def test_yes_and_no(reply, expected):
    assert read_yes_no(reply) is expected


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "YES",
        "<answer>YES",
        "YES</answer>",
        "<answer></answer>",
        "<answer>YES.</answer>",
        "<answer>YES or NO</answer>",
        "<answer>YES</answer><answer>NO</answer>",
        "<answer>NO</answer> although <answer>YES</answer>",
        "<answer><answer>YES</answer></answer>",
        "</answer><answer>YES",
        "<answer>YES</answer> but see below",
        "<ANSWER>YES</ANSWER>",
        "<answer>ＹＥＳ</answer>",
        "<answer>yeſ</answer>",
        "<answer>Y\u200bES</answer>",
        "<answer>YES</answer>" + " " * MAX_REPLY_CHARS,
    ],
)
def test_anything_else_is_no_verdict(reply):
    with pytest.raises(UnreadableReplyError):
        read_yes_no(reply)


@pytest.mark.parametrize(("text", "expected"), [("0.25", 0.25), ("1", 1.0), ("1.0", 1.0), ("0.750", 0.75), ("0", 0.0)])
def test_scores_of_the_scale(text, expected):
    assert read_score(f"<answer>{text}</answer>", GRADES) == expected


@pytest.mark.parametrize(
    "text", ["0.3", "-0.25", ".5", "1e0", "nan", "inf", "٠.٥", "0.5/1", "2", "0.2500000000001", "10"]
)
def test_scores_off_the_scale(text):
    with pytest.raises(UnreadableReplyError):
        read_score(f"<answer>{text}</answer>", GRADES)


@pytest.mark.parametrize("fence", ["{}", "```json\n{}\n```", "```\n{}\n```"])
def test_objects_bare_and_fenced(fence):
    content = '{"a": [1, 2.5, null, "x"], "b": {"c": true}}'
    reply = "Here it is. <answer>" + fence.replace("{}", content) + "</answer>"
    assert read_object(reply) == {"a": [1, 2.5, None, "x"], "b": {"c": True}}


@pytest.mark.parametrize(
    "content",
    [
        "[1]",
        "null",
        "{'a': 1}",
        '{"a": 1} {"b": 2}',
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": ' + "9" * 5000 + "}",
        '{"a": ' * 1500 + "1" + "}" * 1500,
        "[" * 1500,
    ],
)
def test_what_is_no_object_of_json(content):
    with pytest.raises(UnreadableReplyError):
        read_object(f"<answer>{content}</answer>")


_pieces = st.sampled_from(
    ["<answer>", "</answer>", "YES", "NO", "{", "}", '"a"', ":", "1", "0.25", "[", "]", "```", "\n"]
)


@given(st.one_of(st.text(), st.lists(st.one_of(_pieces, st.text(max_size=3))).map("".join)))
def test_no_reply_does_anything_but_to_be_read_or_refused(reply):
    for read in READERS:
        try:
            read(reply)
        except UnreadableReplyError as error:
            assert str(error)
        else:
            assert reply.count("<answer>") == 1 and reply.rstrip().endswith("</answer>")
