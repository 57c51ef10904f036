"""Rows as TRL, LLaMA-Factory, and ms-swift write them, and the errors of broken rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.sft.conversations import BrokenRowError, conversation

HERE = Path("/data")


def said(role, content, **more):
    return {"role": role, "content": content, **more}


def read(*messages, images=None):
    row = {"messages": list(messages)} | ({} if images is None else {"images": images})
    return conversation(row, file=HERE / "rows.jsonl", line=3, folder=HERE)


ANSWER = said("assistant", "A mug.")
TEXT = {"type": "text", "text": "What is it?"}


@pytest.mark.parametrize(
    ("content", "images", "expected"),
    [
        ("<image>What is it?", ["a.png"], (HERE / "a.png", "What is it?")),
        ("<image>\nIt <image> is <image>", ["a.png", "b.png", "c.png"],
         (HERE / "a.png", "\nIt ", HERE / "b.png", " is ", HERE / "c.png")),
        ("What is it?", ["a.png", "b.png"], (HERE / "a.png", HERE / "b.png", "What is it?")),  # as TRL puts them
        ("What is it?", "a.png", (HERE / "a.png", "What is it?")),
        ("What is it?", None, ("What is it?",)),
        ("", None, ("",)),
        ([{"type": "image"}, TEXT], ["a.png"], (HERE / "a.png", "What is it?")),
        ([TEXT, {"type": "image", "image": "a.png"}], None, ("What is it?", HERE / "a.png")),
        ([{"type": "image", "path": "/b/a.png"}, TEXT], [], (Path("/b/a.png"), "What is it?")),
        ([{"type": "image_url", "image_url": {"url": "file:///b/a.png"}}, TEXT], None,
         (Path("/b/a.png"), "What is it?")),
        ("<image>", [{"path": "a.png"}], (HERE / "a.png",)),
    ],
)  # fmt: skip
def test_pictures_stand_where_the_row_has_them(content, images, expected):
    (exchange,) = read(said("user", content), ANSWER, images=images).exchanges
    assert exchange.content == expected
    assert exchange.answer == "A mug." and exchange.is_learnt


def test_turns_share_the_rows_pictures_in_order():
    row = read(
        said("system", "Be brief."),
        said("user", "<image>first"),
        ANSWER,
        said("user", "second <image>"),
        said("assistant", [{"type": "text", "text": "A "}, {"type": "text", "text": "cup."}]),
        said("user", "and <image> that nobody answers?"),
        images=["1.png", "2.png", "3.png"],
    )
    assert row.system == "Be brief."
    assert [each.content for each in row.exchanges] == [(HERE / "1.png", "first"), ("second ", HERE / "2.png")]
    assert [each.answer for each in row.exchanges] == ["A mug.", "A cup."]
    assert (row.file, row.line) == (HERE / "rows.jsonl", 3)


def test_an_answer_may_be_left_out_of_the_loss():
    row = read(said("user", "a"), said("assistant", "b", loss=False), said("user", "c"), said("assistant", "d"))
    assert [each.is_learnt for each in row.exchanges] == [False, True]


@pytest.mark.parametrize(
    ("messages", "images", "reason"),
    [
        ([said("user", "<image>?"), ANSWER], [], "got 0 and 1"),
        ([said("user", "<image>?"), ANSWER], ["a.png", "b.png"], "got 2 and 1"),
        ([said("user", [{"type": "image", "image": "a.png"}]), ANSWER], ["b.png"], "got 1 and 0"),
        ([said("user", "?")], None, "no turn of the assistant"),
        ([], None, "no turn of the assistant"),
        ([ANSWER], None, "message 1 has role assistant, expected user"),
        ([said("user", "a"), said("user", "b"), ANSWER], None, "message 2 has role user, expected assistant"),
        ([said("user", "?"), said("assistant", "!", loss=False)], None, "no answer of the assistant"),
        ([said("user", "?"), said("assistant", None)], None, "role assistant is missing"),
        ([said("user", "?"), said("assistant", [{"type": "image"}])], None, "assistant has a part that is not text"),
        ([said("user", "?"), said("assistant", "", tool_calls=[{}])], None, "tool_calls"),
        ([said("user", "?"), said("tool", "3")], None, "role 'tool'"),
        ([said("user", [{"type": "video", "video": "a.mp4"}]), ANSWER], None, "type 'video'"),
        ([said("user", "<image>"), ANSWER], ["https://x.org/a.png"], "nothing is downloaded"),
        ([said("user", [{"type": "text", "text": "<image>"}]), ANSWER], ["a.png"], "<image> in a part of type text"),
        ([said("user", [{"type": "text", "text": "<bbox>"}]), ANSWER], None, "the placeholder <bbox>"),
        ([said("user", "?"), said("assistant", [{"type": "text", "text": "<bbox>"}])], None, "the placeholder <bbox>"),
        ([said("user", [{"type": "text", "text": "<video>?"}]), ANSWER], None, "the placeholder <video>"),
        ([said("user", "<image>"), ANSWER], [{"bytes": "…"}], "not named by its file path"),
        ([said("user", "?"), said("assistant", "!", loss="no")], None, "`loss` of an answer must be"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(messages, images, reason):
    with pytest.raises(BrokenRowError, match=reason):
        read(*messages, images=images)


CHAT = {"messages": [said("user", "?"), ANSWER]}


@pytest.mark.parametrize(
    "more", [{"videos": []}, {"videos": None, "audios": [None]}, {"objects": {"ref": [], "bbox": [[]]}}, {"audio": ""}]
)
def test_empty_columns_are_no_videos_sounds_or_objects(more):
    assert conversation(CHAT | more, file=HERE, line=1, folder=HERE).exchanges[0].answer == "A mug."


def test_html_in_an_answer_is_no_placeholder():
    (exchange,) = read(said("user", "Which tag?"), said("assistant", "Use `<video>`.")).exchanges
    assert exchange.answer == "Use `<video>`."


@pytest.mark.parametrize("text", ["What?", "<image>What?"])
def test_a_single_image_has_a_column_of_its_own(text):
    row = {"messages": [said("user", text), ANSWER], "image": "a.png"}
    (exchange,) = conversation(row, file=HERE / "rows.jsonl", line=1, folder=HERE).exchanges
    assert exchange.content == (HERE / "a.png", "What?")


def test_images_may_lie_in_the_users_home(monkeypatch):
    monkeypatch.setenv("HOME", "/users/ada")
    (exchange,) = read(said("user", "<image>?"), ANSWER, images=["~/a b.png"]).exchanges
    assert exchange.content == (Path("/users/ada/a b.png"), "?")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "there are no `messages`$"),
        ({"conversations": [{"from": "human", "value": "?"}]}, "ShareGPT's layout"),
        ({"messages": "What is it?"}, "not a list of objects"),
        ({"messages": ["What is it?"]}, "not a list of objects"),
        ({"videos": ["a.mp4"], **CHAT}, "the row has `videos`; only texts and images are read"),
        ({"audios": ["a.wav"], "images": [], **CHAT}, "the row has `audios`"),
        ({"objects": {"ref": ["a mug"], "bbox": [[1, 2, 3, 4]]}, **CHAT}, "the row has `objects`"),
        ({"messages": [said("user", "<video>What happens?"), ANSWER], "videos": ["a.mp4"]}, "`videos` and .*<video>"),
        ({"messages": [said("user", "<audio>What is said?"), ANSWER]}, "the placeholder <audio>"),
        ({"messages": [said("user", "Find <ref-object>"), said("assistant", "<bbox>")]}, "<ref-object> and .*<bbox>"),
        ({"messages": [said("system", "<video>"), said("user", "?"), ANSWER]}, "the placeholder <video>"),
        ({"messages": [said("user", "?"), said("assistant", "It is <image>.")]}, "<image> outside the user's messages"),
    ],
)
def test_rows_of_another_layout_are_told(row, reason):
    with pytest.raises(BrokenRowError, match=reason):
        conversation(row, file=HERE, line=1, folder=HERE)
