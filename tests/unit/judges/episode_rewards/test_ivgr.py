"""iVGR: both streams (equations 1-3), the order of scoring, consistency, the batch."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.episode_rewards.ivgr import (
    MEAN_OF_FOUR,
    IvgrQuery,
    IvgrSettings,
    Reference,
    RolloutArchive,
    format_reward,
    offer_best,
)
from judges.scores import JudgeScore
from tests.unit.judges.awaited import consistency_score, grounded_reward, score_query, textual_reward
from vlm_envs.errors import ConfigError
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.tools.coordinates import WrittenBox

QUERY = IvgrQuery(
    query_id="q",
    key=AnswerKey(kind="exact", answers=("red",), question="Which colour?"),
    true_boxes=(WrittenBox(0, 0, 10, 10), WrittenBox(20, 0, 30, 10)),
)
GENERAL = IvgrQuery(query_id="g", key=QUERY.key)
HALF = "<think>a car [0, 0, 10, 5]</think><answer>red</answer>"
BOTH = "<think>cars [0, 0, 10, 10] and [20, 0, 30, 10]</think><answer>red</answer>"
WRONG = "<think>cars [0, 0, 10, 10] and [20, 0, 30, 10]</think><answer>blue</answer>"
TEXT = "<think>a red car</think><answer>red</answer>"
REFERENCE = Reference(text=BOTH, box_reward=1.0)


def consistency(*grades):
    """A judge that says these grades in turn, None for unavailable, and keeps what it was asked."""
    queue, asked = list(grades), []

    def judge(question, reference, text, temperature):
        asked.append((question, reference, text, temperature))
        grade = queue.pop(0)
        return JudgeScore.unavailable("no route") if grade is None else JudgeScore(value=grade)

    judge.asked = asked
    return judge


def never(question, reference, text, temperature):
    raise AssertionError("the judge is not to be asked")


class TestStreams:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (HALF, {"format": 1.0, "accuracy": 1.0, "box": 0.375}),  # ½ ((½ + 0)/2 + ½)
            (BOTH, {"format": 1.0, "accuracy": 1.0, "box": 1.0}),
            (WRONG, {"format": 1.0, "accuracy": 0.0, "box": 1.0}),
            (TEXT, {"format": 1.0, "accuracy": 1.0, "box": 0.0}),
            (BOTH + " indeed", {"format": 0.0, "accuracy": 1.0, "box": 1.0}),
            ("", {"format": 0.0, "accuracy": 0.0, "box": 0.0}),
        ],
    )
    def test_grounded_is_format_accuracy_and_box(self, text, expected):
        # iVGR, equation 1.
        reward = grounded_reward(text, QUERY)
        assert reward.terms == pytest.approx(expected)
        assert reward.total == pytest.approx(sum(expected.values()))

    def test_without_true_boxes_the_term_is_left_out(self):
        assert grounded_reward(BOTH, GENERAL).terms == {"format": 1.0, "accuracy": 1.0}

    def test_an_answer_of_four_numbers_is_no_box(self):
        numbers = "<think>a list [0, 0, 10, 10], [20, 0, 30, 10]</think><answer>[1, 2, 3, 4]</answer>"
        assert grounded_reward(numbers, QUERY).terms["box"] == 1.0

    def test_textual_is_format_accuracy_and_consistency(self):
        # iVGR, equation 3: 1 + 1 + 0.7
        assert textual_reward(TEXT, QUERY, JudgeScore(value=0.7)).total == pytest.approx(2.7)
        assert textual_reward(TEXT, QUERY, None).terms == {"format": 1.0, "accuracy": 1.0}

    def test_either_judge_unavailable_is_no_reward(self):
        semantic = IvgrQuery(query_id="q", key=AnswerKey(kind="semantic", answers=("crimson",)))
        assert not textual_reward(TEXT, QUERY, JudgeScore.unavailable("no route")).available
        assert not textual_reward(TEXT, semantic, None, lambda *_: JudgeScore.unavailable("no route")).available
        assert not grounded_reward(TEXT, semantic, lambda *_: JudgeScore.unavailable("no route")).available

    def test_format_is_all_or_nothing(self):
        assert (format_reward(TEXT), format_reward(TEXT + "!"), format_reward("red")) == (1.0, 0.0, 0.0)


class TestConsistency:
    @pytest.mark.parametrize("grade", [1.0, 0.7, 0.3, 0.0])
    def test_the_four_grades(self, grade):
        # iVGR, section 3.3: α in {1, 0.7, 0.3, 0}.
        assert consistency_score(TEXT, "?", REFERENCE, consistency(grade)).value == grade

    def test_an_empty_archive_is_zero_unasked(self):
        assert consistency_score(TEXT, "?", None, never).value == 0.0

    def test_once_at_a_hundredth_is_the_default(self):
        judge = consistency(0.7)
        consistency_score(TEXT, "?", REFERENCE, judge)
        thoughts = "<think>cars [0, 0, 10, 10] and [20, 0, 30, 10]</think>"
        assert judge.asked == [("?", thoughts, "<think>a red car</think>", 0.01)]

    def test_the_mean_of_four_at_a_half(self):
        # iVGR, table 9: (1 + 0.7 + 0.3 + 0) / 4
        judge = consistency(1.0, 0.7, 0.3, 0.0)
        assert consistency_score(TEXT, "?", REFERENCE, judge, MEAN_OF_FOUR).value == pytest.approx(0.5)
        assert [temperature for *_, temperature in judge.asked] == [0.5] * 4

    def test_unavailable_and_other_grades_are_left_out_of_the_mean(self):
        judge = consistency(None, 0.7, 0.5, 0.3)  # 0.5 is no grade: (0.7 + 0.3) / 2
        assert consistency_score(TEXT, "?", REFERENCE, judge, MEAN_OF_FOUR).value == pytest.approx(0.5)

    def test_only_unavailable_ones_are_unavailable(self):
        assert not consistency_score(TEXT, "?", REFERENCE, consistency(None, None, 0.6, None), MEAN_OF_FOUR).available

    @pytest.mark.parametrize("fields", [{"num_judgements": 0}, {"temperature": -1.0}, {"temperature": math.nan}])
    def test_what_cannot_be_sampled_is_refused(self, fields):
        with pytest.raises(ConfigError):
            IvgrSettings(**fields)


class TestReferences:
    def offered(self, *texts):
        archive = RolloutArchive()
        offer_best(archive, "q", texts, [grounded_reward(text, QUERY) for text in texts])
        return archive.look_up("q")

    def test_the_best_valid_rollout_of_the_group(self):
        assert self.offered(HALF, BOTH, HALF) == Reference(text=BOTH, box_reward=1.0)

    @pytest.mark.parametrize("invalid", [WRONG, BOTH + "!", TEXT])
    def test_format_accuracy_and_box_are_all_needed(self, invalid):
        assert self.offered(invalid) is None
        assert self.offered(invalid, HALF).text == HALF

    def test_of_equals_the_first(self):
        assert self.offered(BOTH.replace("cars", "two cars"), BOTH).text != BOTH

    def test_the_textual_stream_meets_the_reference_of_its_own_step(self):
        archive, judge = RolloutArchive(), consistency(0.7, 1.0)
        grounded, textual = score_query(QUERY, [HALF], [TEXT, TEXT], archive, consistency_judge=judge)
        assert [reward.total for reward in grounded] == pytest.approx([2.375])
        assert [reward.total for reward in textual] == pytest.approx([2.7, 3.0])
        assert archive.hit_rate == 0.0, "it is of its own step"

    def test_a_later_step_keeps_the_better_reference(self):
        archive = RolloutArchive()
        score_query(QUERY, [BOTH], [], archive, consistency_judge=never)
        score_query(QUERY, [HALF], [TEXT], archive, consistency_judge=consistency(1.0))
        assert archive.look_up("q").text == BOTH

    def test_without_a_reference_consistency_is_zero(self):
        archive = RolloutArchive()
        _, textual = score_query(QUERY, [WRONG], [TEXT], archive, consistency_judge=never)
        assert textual[0].terms == {"format": 1.0, "accuracy": 1.0, "consistency": 0.0}
        assert archive.hit_rate == 0.0

    def test_general_samples_run_in_the_textual_stream_without_consistency(self):
        archive = RolloutArchive()
        _, textual = score_query(GENERAL, [], [TEXT], archive, consistency_judge=never)
        assert textual[0].terms == {"format": 1.0, "accuracy": 1.0}
        assert math.isnan(archive.hit_rate)
        with pytest.raises(ConfigError, match="no true boxes"):
            score_query(GENERAL, [BOTH], [], archive, consistency_judge=never)


PIECES = ["<think>", "</think>", "<answer>", "</answer>", "[0,0,10,10]", "[nan,1e999,0,0]", "<box>", "red", "\u202e"]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4))).map("".join))
def test_every_term_stays_in_its_range_for_every_text(text):
    reward = grounded_reward(text, QUERY)
    assert all(0.0 <= value <= 1.0 for value in reward.terms.values())
    assert textual_reward(text, QUERY, None).terms.keys() == {"format", "accuracy"}
