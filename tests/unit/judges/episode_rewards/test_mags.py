"""The reward of Mags-RL, appendix B, computed by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.episode_rewards.mags import (
    MagsReading,
    MagsRollout,
    count_words,
    read_rollout,
    rethink_reward,
    zoom_format_reward,
    zoom_reward,
)
from judges.scores import JudgeScore
from tests.unit.judges.awaited import answer_reward, mags_reward
from vlm_envs.responses.answers import AnswerKey

TEN_WORDS = "the small red sign stands behind two tall green trees"
NINE_WORDS = "now every letter on that sign can be read"
ZOOM = "<zoom>[[10, 10, 20, 20], [90, 90, 120, 120]]</zoom>"
FOUR = AnswerKey(kind="exact", answers=("4",), question="How many?")


def reading(**changes):
    fields = {
        "think_ok": True,
        "zoom_ok": True,
        "rethink_ok": True,
        "answer_ok": True,
        "num_unique": 10,
        "diversity": 1.0,
        "num_rethink_unique": 9,
        "num_boxes": 1,
        "num_valid": 1,
        "answer": "4",
    }
    return MagsReading(**{**fields, **changes})


def rollout(round_1=None, round_2=None):
    return MagsRollout(
        round_1=f"<think>{TEN_WORDS} {ZOOM}</think>" if round_1 is None else round_1,
        round_2=f"<rethink>{NINE_WORDS}</rethink><answer>4</answer>" if round_2 is None else round_2,
        width_px=100,
        height_px=100,
    )


def judge_saying(grade):
    return lambda question, truth, answer: (
        JudgeScore.unavailable("no route") if grade is None else JudgeScore(value=grade)
    )


class TestWords:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", (0, 0)),
            ("The cat, the CAT and the dog.", (4, 7)),  # the cat and dog
            ("don't well-known 3 x2", (4, 4)),
            ("snake_case", (2, 2)),
            ("看见 看 cat", (3, 4)),  # 看 twice, 见, cat
            ("... !!! --", (0, 0)),
        ],
    )
    def test_unique_and_all(self, text, expected):
        assert count_words(text) == expected


class TestReading:
    def test_a_rollout_in_the_format(self):
        assert read_rollout(rollout()) == reading(num_boxes=2, num_valid=1)

    def test_coordinates_are_no_vocabulary(self):
        few = read_rollout(rollout("<think>a b <zoom>[[1, 2, 3, 4], [5, 6, 7, 8]]</zoom></think>"))
        assert (few.num_unique, few.num_boxes) == (2, 2)

    @pytest.mark.parametrize(
        "round_1",
        [
            f"{TEN_WORDS} {ZOOM}",  # no think
            f"<think>{TEN_WORDS}</think>{ZOOM}",  # outside of it
            f"<think>{TEN_WORDS}{ZOOM}{ZOOM}</think>",  # twice
            f"<think>{TEN_WORDS}{ZOOM}</think>{ZOOM}",
            f"<think>{TEN_WORDS}<zoom>[10, 10, 20, 20]</zoom></think>",  # not a list of boxes
            f"<think>{TEN_WORDS}<zoom>[]</zoom></think>",
            f"<think>{TEN_WORDS}<zoom>[[NaN, 0, 1, 1]]</zoom></think>",
            f"<think>{TEN_WORDS}</think>",
        ],
    )
    def test_zooms_that_are_not_in_the_format(self, round_1):
        read = read_rollout(rollout(round_1))
        assert (read.zoom_ok, read.num_boxes, zoom_format_reward(read)) == (False, 0, 0.0)
        assert zoom_reward(read, stage=1) == zoom_reward(read, stage=2) == 0.0

    def test_rethinking_after_the_answer_is_not_in_the_format(self):
        read = read_rollout(rollout(round_2=f"<answer>4</answer><rethink>{NINE_WORDS}</rethink>"))
        assert (read.rethink_ok, read.answer_ok) == (False, True)

    @pytest.mark.parametrize(
        "round_2", ["", "4", "<answer>4", "</answer>4<answer>", "<answer>4</answer><answer>5</answer>"]
    )
    def test_answers_that_are_not_in_the_format(self, round_2):
        read = read_rollout(rollout(round_2=round_2))
        assert (read.answer_ok, read.answer) == (False, None)

    def test_no_tag_closes_in_the_other_round(self):
        read = read_rollout(rollout(f"<think>{TEN_WORDS}", "</think><answer>4</answer>"))
        assert not read.think_ok


class TestZoomFormat:
    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({}, 0.5 + 0.5 * math.log(11) / math.log(20)),  # 0.9002
            ({"num_unique": 19}, 1.0),  # ln 20 / ln 20
            ({"num_unique": 500}, 1.0),
            ({"num_unique": 5}, 0.5 + 0.5 * math.log(6) / math.log(20)),  # 0.7991
            ({"num_unique": 4}, 0.0),
            ({"diversity": 0.39}, 0.1),
            ({"diversity": 0.4}, 0.5 + 0.5 * math.log(11) / math.log(20)),  # the paper would add 0.1
            ({"zoom_ok": False}, 0.0),
        ],
    )
    def test_appendix_b(self, changes, expected):
        assert zoom_format_reward(reading(**changes)) == pytest.approx(expected)


class TestZoom:
    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({"num_boxes": 4, "num_valid": 3}, 0.75),  # T = 1: k/n
            ({"num_boxes": 4, "num_valid": 3, "diversity": 0.3}, 0.075),  # T = 0.1
            ({"num_boxes": 4, "num_valid": 3, "num_unique": 4}, 0.0),  # T = 0
            ({"num_boxes": 1, "diversity": 0.4}, 1.0),
            ({"num_boxes": 0, "num_valid": 0}, 0.0),
        ],
    )
    def test_stage_one_pays_precision(self, changes, expected):
        # Mags-RL, equation 1, first line.
        assert zoom_reward(reading(**changes), stage=1) == pytest.approx(expected)
        assert zoom_reward(reading(**changes), stage=1, num_objects=7) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("num_boxes", "num_valid", "num_objects", "expected"),
        [
            (4, 3, 4, 0.70),  # 3/4 - 0.05 · 1
            (4, 4, 4, 1.0),
            (6, 6, 4, 1.0),  # min(1, 6/4)
            (7, 6, 4, 0.95),
            (10, 0, 2, 0.0),  # max(0, 0 - 0.5)
            (2, 2, 8, 0.25),
            (4, 3, 0, 0.75),  # pin: no objects, so the form for other questions
        ],
    )
    def test_stage_two_counting_pays_recall_and_fines_misses(self, num_boxes, num_valid, num_objects, expected):
        # Mags-RL, equation 1, second line, S = 1.
        read = reading(num_boxes=num_boxes, num_valid=num_valid)
        assert zoom_reward(read, stage=2, num_objects=num_objects) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [({}, 0.75), ({"num_unique": 4}, 0.075), ({"diversity": 0.39}, 0.075), ({"zoom_ok": False}, 0.0)],
    )
    def test_stage_two_other_questions(self, changes, expected):
        # Mags-RL, equation 1, third line: S = 0.1 + 0.9 [N ≥ 5] [d ≥ 0.4], times 3/4.
        assert zoom_reward(reading(num_boxes=4, num_valid=3, **changes), stage=2) == pytest.approx(expected)

    def test_ten_copies_of_one_box_are_not_ten_objects(self):
        copies = ", ".join(["[10, 10, 20, 20]"] * 10)
        read = read_rollout(rollout(f"<think>{TEN_WORDS}<zoom>[{copies}]</zoom></think>"))
        # k = 1, n = 10: max(0, 1/10 - 0.05 · 9)
        assert zoom_reward(read, stage=2, num_objects=10) == 0.0


class TestRethink:
    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({}, 0.6),  # 0.2 √9
            ({"answer_ok": False}, 0.3),
            ({"num_rethink_unique": 4}, 0.0),
            ({"num_rethink_unique": 25}, 1.0),
            ({"num_rethink_unique": 900}, 1.0),
        ],
    )
    def test_appendix_b(self, changes, expected):
        assert rethink_reward(reading(**changes)) == pytest.approx(expected)


class TestTotal:
    def test_a_whole_rollout(self):
        reward = mags_reward(rollout(), FOUR, stage=1)
        # 2 · 1 + 1 · ½ + 0.5 · 0.6 + 0.5 · 0.90022 + 0.1 · (1 + 0.5 + 0.5)
        assert reward.terms == pytest.approx(
            {
                "answer": 2.0,
                "zoom": 0.5,
                "rethink": 0.3,
                "zoom_format": 0.25 + 0.25 * math.log(11) / math.log(20),
                "answer_format": 0.1,
                "think_format": 0.05,
                "rethink_format": 0.05,
            }
        )
        assert reward.total == pytest.approx(3.450109, abs=1e-6)

    def test_the_most_there_is(self):
        # 2 + 1 + 0.5 + 0.5 + 0.2
        words = " ".join(f"word{number}" for number in range(30))
        zoom = "<zoom>[[10, 10, 20, 20]]</zoom>"
        best = rollout(f"<think>{words}{zoom}</think>", f"<rethink>{words}</rethink><answer>4</answer>")
        assert mags_reward(best, FOUR, stage=2, num_objects=1).total == pytest.approx(4.2)

    def test_nothing_earns_nothing(self):
        assert mags_reward(rollout("", ""), FOUR, stage=1).total == 0.0

    @pytest.mark.parametrize(("grade", "expected"), [(1.0, 0.5), (0.75, 0.5), (0.5, 0.0), (0.0, 0.0)])
    def test_the_judge_gives_half_a_point_at_most(self, grade, expected):
        # r_ans = [answer ok] max([a = a*], 0.5 [grade ≥ 0.7])
        other = rollout(round_2="<rethink>so</rethink><answer>four</answer>")
        assert mags_reward(other, FOUR, stage=1, judge=judge_saying(grade)).raw["answer"] == expected

    def test_the_truths_own_words_need_no_judge(self):
        assert mags_reward(rollout(), FOUR, stage=1, judge=judge_saying(None)).raw["answer"] == 1.0

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [("B", 1.0), ("b.", 1.0), ("B. blue", 1.0), ("(B) Blue.", 1.0), ("blue", 1.0), ("A", 0.0), ("A. blue", 0.0)],
    )
    def test_a_choice_may_be_its_letter_its_text_or_both(self, answer, expected):
        colors = AnswerKey(kind="choice", answers=("B",), options=("red", "blue"), question="Which colour?")
        assert answer_reward(reading(answer=answer), colors).value == expected

    def test_the_judge_of_a_choice_is_told_the_options_and_the_right_ones_text(self):
        asked = []

        def judge(question, truth, answer):
            asked.append((question, truth, answer))
            return JudgeScore(value=0.75)

        colors = AnswerKey(kind="choice", answers=("B",), options=("red", "blue"), question="Which colour?")
        assert answer_reward(reading(answer="navy"), colors, judge).value == 0.5
        assert asked == [("Which colour?\nA. red\nB. blue", "B. blue", "navy")]

    def test_an_answer_that_chooses_another_option_is_wrong_unasked(self):
        colors = AnswerKey(kind="choice", answers=("B",), options=("red", "blue"), question="Which colour?")
        for answer in ("A", "A. red", "red", "The answer is A. red"):
            assert answer_reward(reading(answer=answer), colors, judge_saying(1.0)).value == 0.0

    def test_a_refusal_or_an_answer_out_of_format_is_not_judged(self):
        for text in ("<answer>Refusal</answer>", "four", "<answer> </answer>"):
            refused = mags_reward(rollout(round_2=text), FOUR, stage=1, judge=judge_saying(1.0))
            assert refused.raw["answer"] == 0.0

    def test_unavailable_is_no_reward(self):
        out = mags_reward(rollout(round_2="<answer>four</answer>"), FOUR, stage=1, judge=judge_saying(None))
        assert not out.available
        assert math.isnan(out.total)

    def test_tool_output_that_imitates_the_tags_is_never_read(self):
        # The system's message between the rounds is no part of a rollout; quoted in round 2, it makes a second pair.
        quoted = f"<rethink>{NINE_WORDS}</rethink>crop says: <answer>4</answer> so <answer>5</answer>"
        assert mags_reward(rollout(round_2=quoted), FOUR, stage=1).raw["answer"] == 0.0


PIECES = ["<think>", "</think>", "<zoom>", "</zoom>", "[[1,2,3,4]]", "[[", "1e999", "NaN", "<rethink>", "</rethink>"]
pieces = st.lists(st.one_of(st.sampled_from([*PIECES, "<answer>", "</answer>", "4", " cat "]), st.text(max_size=4)))


@given(pieces.map("".join), pieces.map("".join), st.sampled_from([1, 2]), st.sampled_from([None, 0, 3]))
def test_every_part_stays_in_its_range_for_every_text(round_1, round_2, stage, num_objects):
    reward = mags_reward(rollout(round_1, round_2), FOUR, stage=stage, num_objects=num_objects)
    assert all(0.0 <= value <= 1.0 for value in reward.raw.values())
    assert 0.0 <= reward.total <= 4.2 + 1e-9
