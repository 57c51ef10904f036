"""What each history policy sends again."""

from dataclasses import replace

import numpy as np
import pytest

from agents.api.conversation import Message, Picture
from agents.api.history import (
    FIRST,
    NEWEST,
    OMITTED,
    Exchange,
    FullHistory,
    LastImages,
    LastTurns,
    Summary,
    history_named,
)
from vlm_envs.errors import ConfigError

PICTURES = [Picture.of(np.full((2, 2, 3), shade, np.uint8)) for shade in range(4)]


def shown(turn):
    return Message(role="user", parts=(PICTURES[turn], f"shown {turn}"))


def said(turn):
    return Message(role="assistant", parts=(f"said {turn}",))


PAST = [Exchange(shown=shown(turn), said=said(turn)) for turn in range(3)]


def words(messages):
    return [part if isinstance(part, str) else f"picture {PICTURES.index(part)}" for m in messages for part in m.parts]


def test_full_sends_everything():
    expected = ["picture 0", "shown 0", "said 0", "picture 1", "shown 1", "said 1", "picture 2", "shown 2", "said 2"]
    assert words(FullHistory().messages(PAST, shown(3))) == [*expected, "picture 3", "shown 3"]


@pytest.mark.parametrize(("number", "kept"), [(1, {3}), (2, {2, 3}), (4, {0, 1, 2, 3}), (9, {0, 1, 2, 3})])
def test_last_images_sends_every_text_and_the_newest_pictures(number, kept):
    sent = words(LastImages(number).messages(PAST, shown(3)))
    assert [word for word in sent if "picture" not in word] == [
        word for word in words(FullHistory().messages(PAST, shown(3))) if "picture" not in word
    ]
    assert {int(word[-1]) for word in sent if word.startswith("picture")} == kept
    assert sent.count(OMITTED) == 4 - len(kept)


def test_last_turns_sends_the_rules_and_the_newest_turns():
    sent = LastTurns(2).messages(PAST, shown(3))
    assert words(sent) == [FIRST, "shown 0", NEWEST, "picture 2", "shown 2", "said 2", "picture 3", "shown 3"]
    assert [message.role for message in sent] == ["user", "assistant", "user"]
    assert words(LastTurns(1).messages(PAST, shown(3))) == [FIRST, "shown 0", NEWEST, "picture 3", "shown 3"]
    assert words(LastTurns(4).messages(PAST, shown(3))) == words(FullHistory().messages(PAST, shown(3)))


def test_summary_sends_the_rules_the_summary_and_what_is_shown_now():
    policy = Summary(max_words=20)
    (asked,) = policy.asks_to_sum_up(PAST[:1], "")[-1:]
    assert "at most 20 words" in asked.text
    again = policy.asks_to_sum_up(PAST, "I went up.")
    assert words(again)[:4] == ["Your summary of the turns before:\nI went up.", "picture 2", "shown 2", "said 2"]
    (sent,) = policy.messages(PAST, shown(3), "I went up twice.")
    assert words([sent])[:2] == [FIRST, "shown 0"] and words([sent])[-3:] == [NEWEST, "picture 3", "shown 3"]
    assert "I went up twice." in sent.text
    assert policy.messages([], shown(0)) == (shown(0),)


@pytest.mark.parametrize("policy", [LastTurns(1), Summary()])
def test_a_state_of_before_is_never_taken_for_that_of_now(policy):
    """In text views the first message ends with a state."""
    then, now = (Message(role="user", parts=(f"Reach G. The grid: {grid}",)) for grid in ("P_G", "_PG"))
    past = [Exchange(shown=then, said=said(0)), Exchange(shown=now, said=said(1))]
    (sent,) = policy.messages(past, now, "I went right.")
    before, after = sent.text.split("P_G")
    assert "of then, not of now" in before and NEWEST in after.partition("_PG")[0]
    blind = [replace(each, shown=Message(role="user", parts=PICTURES[:1])) for each in past]
    assert FIRST not in policy.messages(blind, now, "I went right.")[0].text


@pytest.mark.parametrize("policy", [FullHistory(), LastImages(1), LastTurns(1)])
def test_the_others_ask_for_no_summary(policy):
    assert policy.asks_to_sum_up(PAST, "") == ()


@pytest.mark.parametrize(
    ("name", "policy"),
    [("full", FullHistory()), ("last_images:3", LastImages(3)), ("last_turns:2", LastTurns(2)), ("summary", Summary())],
)
def test_policies_by_name(name, policy):
    assert history_named(name) == policy


@pytest.mark.parametrize("name", ["", "fool", "full:3", "last_images", "last_images:", "last_images:x", "last_turns:0"])
def test_what_is_no_policy(name):
    with pytest.raises(ConfigError, match=r"history|num_turns"):
        history_named(name)
