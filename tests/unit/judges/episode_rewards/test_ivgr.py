"""iVGR: both streams (equations 1-3), the order of scoring, consistency, the batch."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.episode_rewards.archive import Reference, RolloutArchive
from judges.episode_rewards.ivgr import (
    MEAN_OF_FOUR,
    ConsistencyConfig,
    Query,
    consistency_score,
    format_reward,
    grounded_reward,
    mix_batch,
    offer_best,
    score_query,
    textual_reward,
)
from judges.scores import JudgeScore
from vlm_envs.errors import ConfigError
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.tools.written_boxes import WrittenBox

QUERY = Query(
    query_id="q",
    key=AnswerKey(kind="exact", answers=("red",), question="Which colour?"),
    true_boxes=(WrittenBox(0, 0, 10, 10), WrittenBox(20, 0, 30, 10)),
)
GENERAL = Query(query_id="g", key=QUERY.key)
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
        return JudgeScore.unavailable("no route") if grade is None else JudgeScore(f1=grade)

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
        assert textual_reward(TEXT, QUERY, JudgeScore(f1=0.7)).total == pytest.approx(2.7)
        assert textual_reward(TEXT, QUERY, None).terms == {"format": 1.0, "accuracy": 1.0}

    def test_either_judge_unavailable_is_no_reward(self):
        semantic = Query(query_id="q", key=AnswerKey(kind="semantic", answers=("crimson",)))
        assert not textual_reward(TEXT, QUERY, JudgeScore.unavailable("no route")).available
        assert not textual_reward(TEXT, semantic, None, lambda *_: JudgeScore.unavailable("no route")).available
        assert not grounded_reward(TEXT, semantic, lambda *_: JudgeScore.unavailable("no route")).available

    def test_format_is_all_or_nothing(self):
        assert (format_reward(TEXT), format_reward(TEXT + "!"), format_reward("red")) == (1.0, 0.0, 0.0)


class TestConsistency:
    @pytest.mark.parametrize("grade", [1.0, 0.7, 0.3, 0.0])
    def test_the_four_grades(self, grade):
        # iVGR, section 3.3: α in {1, 0.7, 0.3, 0}.
        assert consistency_score(TEXT, "?", REFERENCE, consistency(grade)).f1 == grade

    def test_an_empty_archive_is_zero_unasked(self):
        assert consistency_score(TEXT, "?", None, never).f1 == 0.0

    def test_once_at_a_hundredth_is_the_default(self):
        judge = consistency(0.7)
        consistency_score(TEXT, "?", REFERENCE, judge)
        thoughts = "<think>cars [0, 0, 10, 10] and [20, 0, 30, 10]</think>"
        assert judge.asked == [("?", thoughts, "<think>a red car</think>", 0.01)]

    def test_the_mean_of_four_at_a_half(self):
        # iVGR, table 9: (1 + 0.7 + 0.3 + 0) / 4
        judge = consistency(1.0, 0.7, 0.3, 0.0)
        assert consistency_score(TEXT, "?", REFERENCE, judge, MEAN_OF_FOUR).f1 == pytest.approx(0.5)
        assert [temperature for *_, temperature in judge.asked] == [0.5] * 4

    def test_unavailable_and_other_grades_are_left_out_of_the_mean(self):
        judge = consistency(None, 0.7, 0.5, 0.3)  # 0.5 is no grade: (0.7 + 0.3) / 2
        assert consistency_score(TEXT, "?", REFERENCE, judge, MEAN_OF_FOUR).f1 == pytest.approx(0.5)

    def test_only_unavailable_ones_are_unavailable(self):
        assert not consistency_score(TEXT, "?", REFERENCE, consistency(None, None, 0.6, None), MEAN_OF_FOUR).available

    @pytest.mark.parametrize("fields", [{"num_samples": 0}, {"temperature": -1.0}, {"temperature": math.nan}])
    def test_what_cannot_be_sampled_is_refused(self, fields):
        with pytest.raises(ConfigError):
            ConsistencyConfig(**fields)


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
        scored = score_query(QUERY, [HALF], [TEXT, TEXT], archive, consistency_judge=judge)
        assert [reward.total for reward in scored.grounded] == pytest.approx([2.375])
        assert [reward.total for reward in scored.textual] == pytest.approx([2.7, 3.0])
        assert archive.hit_rate == 0.0, "it is of its own step"

    def test_a_later_step_keeps_the_better_reference(self):
        archive = RolloutArchive()
        score_query(QUERY, [BOTH], [], archive, consistency_judge=never)
        score_query(QUERY, [HALF], [TEXT], archive, consistency_judge=consistency(1.0))
        assert archive.look_up("q").text == BOTH

    def test_without_a_reference_consistency_is_zero(self):
        archive = RolloutArchive()
        scored = score_query(QUERY, [WRONG], [TEXT], archive, consistency_judge=never)
        assert scored.textual[0].terms == {"format": 1.0, "accuracy": 1.0, "consistency": 0.0}
        assert archive.hit_rate == 0.0

    def test_general_samples_run_in_the_textual_stream_without_consistency(self):
        archive = RolloutArchive()
        scored = score_query(GENERAL, [], [TEXT], archive, consistency_judge=never)
        assert scored.textual[0].terms == {"format": 1.0, "accuracy": 1.0}
        assert math.isnan(archive.hit_rate)
        with pytest.raises(ConfigError, match="no true boxes"):
            score_query(GENERAL, [BOTH], [], archive, consistency_judge=never)


class TestBatch:
    def draw(self, batch_size, **rest):
        boxes, general = [f"b{i}" for i in range(300)], [f"g{i}" for i in range(300)]
        return mix_batch(boxes, general, batch_size, np.random.default_rng(0), **rest)

    @pytest.mark.parametrize(
        ("batch_size", "num_box", "num_general"),
        [(20, 9, 2), (100, 45, 10), (512, 230, 52), (1, 0, 1)],  # 0.45 · 512 = 230.4, rounded down
    )
    def test_forty_five_percent_twice_and_the_rest_general(self, batch_size, num_box, num_general):
        # iVGR, appendix B.
        batch = self.draw(batch_size)
        assert len(batch) == batch_size
        per_sample = Counter(sample for sample, _ in batch)
        assert [n for sample, n in per_sample.items() if sample[0] == "b"] == [2] * num_box
        assert [n for sample, n in per_sample.items() if sample[0] == "g"] == [1] * num_general
        assert {stream for sample, stream in batch if sample[0] == "g"} == {"textual"}
        assert (
            Counter(stream for sample, stream in batch if sample[0] == "b")
            == Counter({"grounded": num_box, "textual": num_box})
            or not num_box
        )

    def test_shares_are_exact_over_the_batches(self):
        # 45 % of 32 prompts are 14.4: five batches hold 72 box samples, each twice, and 16 general ones.
        batches = [self.draw(32, iteration=iteration) for iteration in range(5)]
        assert [sum(stream == "grounded" for _, stream in batch) for batch in batches] == [14, 14, 15, 14, 15]
        assert [sum(sample[0] == "g" for sample, _ in batch) for batch in batches] == [4, 4, 2, 4, 2]
        assert all(len(self.draw(3, iteration=iteration)) == 3 for iteration in range(20))

    def test_half_is_the_papers_dual_stream_without_general_samples(self):
        # iVGR, appendix C: B/2 unique queries under both prompts.
        assert {sample[0] for sample, _ in self.draw(64, box_percent=50)} == {"b"}

    def test_the_same_generator_draws_the_same_batch(self):
        assert self.draw(40) == self.draw(40)

    def test_too_few_samples_are_refused(self):
        with pytest.raises(ConfigError, match="needs 45 box samples"):
            mix_batch(["b"] * 44, ["g"] * 10, 100, np.random.default_rng(0))
        with pytest.raises(ConfigError, match="0 to 50"):
            self.draw(10, box_percent=51)


PIECES = ["<think>", "</think>", "<answer>", "</answer>", "[0,0,10,10]", "[nan,1e999,0,0]", "<box>", "red", "\u202e"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4))).map("".join))
def test_every_term_stays_in_its_range_for_every_text(text):
    reward = grounded_reward(text, QUERY)
    assert all(0.0 <= value <= 1.0 for value in reward.terms.values())
    assert textual_reward(text, QUERY, None).terms.keys() == {"format", "accuracy"}
