"""The Argos verifier: equations 2-5 and 9, curation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.episode_rewards.argos import (
    ArgosModels,
    ArgosSettings,
    description_score,
    gated_mean,
    point_score,
    reasoning_quality,
    spatial_score,
    video_score,
)
from judges.grounding import Moment, Segment, WrittenPoint, read_response
from judges.scores import JudgeScore
from tests.unit.judges.awaited import argos_reward
from vlm_envs.errors import ConfigError
from vlm_envs.responses.answers import AnswerKey

KEY = AnswerKey(kind="choice", answers=("B",), options=("No", "Yes"), question="Is there a cup?")
CUP = np.zeros((4, 6), dtype=bool)  # four rows, six columns
CUP[1, 5] = True
NO_SUCH_OBJECT = np.zeros((4, 6), dtype=bool)


def masks(label, frame, time_s):
    return {"cup": CUP, "unicorn": NO_SUCH_OBJECT}.get(label)


def point(x, y, label="cup"):
    return f'<points x1="{x}" y1="{y}" alt="{label}">{label}</points>'


def response(*points, answer="B"):
    return f"<think>I see {' and '.join(points)}.</think><answer>{answer}</answer>"


def never(*arguments):
    raise AssertionError("the model is not to be asked")


class TestSpatial:
    @pytest.mark.parametrize(
        ("x", "y", "expected"),
        [
            (5, 1, 1.0),
            (1, 5, 0.0),  # x is the column: rows and columns are not swapped
            (5.9, 1.9, 1.0),  # the pixel that holds the point
            (6, 1, 0.0),
            (-0.5, 1, 0.0),
            (5, 1e30, 0.0),
            (math.nan, 1, 0.0),
            (math.inf, -math.inf, 0.0),
        ],
    )
    def test_a_point_is_on_the_mask_or_not(self, x, y, expected):
        # Argos, equation 2, row first.
        assert point_score(WrittenPoint(x, y, "cup"), CUP) == expected

    def test_the_mean_over_the_points_with_a_model(self):
        # Argos, equation 3: (1 + 0 + 0) / 3; nothing is known of the dog.
        points = [
            WrittenPoint(5, 1, "cup"),
            WrittenPoint(0, 0, "cup"),
            WrittenPoint(5, 1, "unicorn"),
            WrittenPoint(5, 1, "dog"),
        ]
        assert spatial_score(points, masks) == pytest.approx(1 / 3)

    def test_without_such_points_there_is_no_score(self):
        # Choice: N = 0 leaves the term out.
        assert spatial_score([], masks) is None
        assert spatial_score([WrittenPoint(5, 1, "dog")], masks) is None

    def test_the_model_is_asked_once_a_label_and_moment(self):
        asked = []

        def model(label, frame, time_s):
            asked.append((label, frame, time_s))
            return CUP

        spatial_score([WrittenPoint(5, 1, "cup"), WrittenPoint(0, 0, "cup"), WrittenPoint(5, 1, "cup", 2)], model)
        assert asked == [("cup", None, None), ("cup", 2, None)]


class TestVideo:
    def test_descriptions_are_true_or_not(self):
        # Argos, equation 4: of three with a verdict two are true.
        verdicts = {1: True, 2: False, 3: True, 4: None}
        moments = [Moment(frame, None, "") for frame in verdicts]
        assert description_score(moments, lambda anchor: verdicts[anchor.frame]) == pytest.approx(2 / 3)
        assert description_score([], never) is None

    def test_the_mean_of_the_categories_means(self):
        # Points ½, moments 0, segments 1: (0.5 + 0 + 1) / 3, however many each has.
        text = (
            f"See {point(5, 1)} in frame 1. And {point(0, 0)} in frame 2. In frame 3 it falls. Frames 4 to 9 are dark."
        )
        read = read_response(text)
        assert video_score(read, masks, lambda anchor: isinstance(anchor, Segment)) == pytest.approx(0.5)

    def test_categories_without_a_score_are_left_out(self):
        read = read_response("In frame 3 it falls.")
        assert video_score(read, masks, lambda anchor: True) == 1.0
        assert video_score(read, masks, lambda anchor: None) is None


class TestReasoning:
    def test_the_geometric_mean_of_the_answers_tokens(self):
        # √(½ · ⅛) = ¼; equation 5 without normalisation would be 1/16.
        assert reasoning_quality([math.log(0.5), math.log(0.125)]) == pytest.approx(0.25)

    @pytest.mark.parametrize(
        ("log_probs", "expected"), [([0.0, 0.0], 1.0), ([-math.inf, 0.0], 0.0), ([1e-3], 1.0), ([-1e300], 0.0)]
    )
    def test_the_ends_of_the_range(self, log_probs, expected):
        assert reasoning_quality(log_probs) == expected

    @pytest.mark.parametrize("log_probs", [[], [math.nan], [0.5], [math.inf]])
    def test_what_is_no_log_probability(self, log_probs):
        assert reasoning_quality(log_probs) is None


class TestGate:
    @pytest.mark.parametrize(
        ("accuracy", "grounding", "reasoning", "expected"),
        [
            (1.0, 0.5, 0.25, 1.75 / 3),
            (1.0, None, 0.25, 0.625),
            (1.0, 0.5, None, 0.75),
            (1.0, None, None, 1.0),
            (0.5, 1.0, 1.0, 2.5 / 3),  # not below the gate
            (0.49, 1.0, 1.0, 0.49),
            (0.0, 1.0, 1.0, 0.0),
        ],
    )
    def test_accuracy_decides_and_the_others_refine(self, accuracy, grounding, reasoning, expected):
        # Argos, equation 9, with the pins τ = 0.5 and weights 1.
        reward = gated_mean(accuracy, grounding, reasoning)
        assert reward.total == pytest.approx(expected)
        assert math.fsum(reward.terms.values()) == reward.total

    def test_weights_and_threshold_are_configuration(self):
        config = ArgosSettings(threshold=0.9, accuracy_weight=2.0, grounding_weight=1.0, reasoning_weight=1.0)
        assert gated_mean(1.0, 0.5, 0.1, config).total == pytest.approx(2.6 / 4)
        assert gated_mean(0.8, 1.0, 1.0, config).total == 0.8

    @pytest.mark.parametrize(
        "fields",
        [{"accuracy_weight": 0.0}, {"reasoning_weight": -1.0}, {"grounding_weight": math.nan}, {"threshold": math.nan}],
    )
    def test_weights_without_a_mean_are_refused(self, fields):
        with pytest.raises(ConfigError):
            ArgosSettings(**fields)


class TestWhole:
    def test_a_grounded_right_answer(self):
        models = ArgosModels(mask=masks, likelihood=lambda *_: [math.log(0.5)])
        reward = argos_reward(response(point(5, 1), point(0, 0)), KEY, models)
        assert reward.raw == pytest.approx({"accuracy": 1.0, "grounding": 0.5, "reasoning": 0.5})
        assert reward.total == pytest.approx(2 / 3)

    def test_a_wrong_answer_earns_nothing_and_asks_no_model(self):
        models = ArgosModels(mask=never, description=never, likelihood=never)
        assert argos_reward(response(point(5, 1), answer="A"), KEY, models).total == 0.0

    def test_the_likelihood_model_sees_question_thoughts_and_answer(self):
        asked = []
        models = ArgosModels(likelihood=lambda *given: asked.append(given) or [0.0])
        argos_reward("<think>there it is</think><answer>B</answer>", KEY, models)
        assert asked == [("Is there a cup?\nA. No\nB. Yes", "there it is", "B")]
        free = AnswerKey(kind="exact", answers=("B",), question="What is it?")
        argos_reward("<think>there it is</think><answer>B</answer>", free, models)
        assert asked[1] == ("What is it?", "there it is", "B")

    @pytest.mark.parametrize("log_probs", [None, [], [math.nan]])
    def test_without_it_there_is_no_reward(self, log_probs):
        assert not argos_reward(response(), KEY, ArgosModels(likelihood=lambda *_: log_probs)).available

    def test_without_the_answer_judge_there_is_no_reward(self):
        semantic = AnswerKey(kind="semantic", answers=("mug",))
        models = ArgosModels(answer=lambda *_: JudgeScore.unavailable("no route"))
        assert not argos_reward(response(), semantic, models).available

    def test_pointing_at_nothing_is_left_out_unless_points_are_required(self):
        models = ArgosModels(mask=masks)
        assert argos_reward(response(), KEY, models).terms == {"accuracy": 1.0}
        assert argos_reward(response(), KEY, models, ArgosSettings(require_points=True)).total == 0.5

    def test_labels_that_mean_nothing_to_the_model_do_not_pay_where_points_are_required(self):
        models, required = ArgosModels(mask=lambda *_: None), ArgosSettings(require_points=True)
        babble = response(point(5, 1, "flurble"))
        assert argos_reward(babble, KEY, models).total == 1.0
        assert argos_reward(babble, KEY, models, required).total == 0.5

    def test_an_object_that_is_not_there_scores_zero_and_is_not_left_out(self):
        assert argos_reward(response(point(5, 1, "unicorn")), KEY, ArgosModels(mask=masks)).raw["grounding"] == 0.0

    def test_a_video_averages_its_categories(self):
        text = f"<think>See {point(5, 1)} in frame 1. In frame 3 it falls.</think><answer>B</answer>"
        models = ArgosModels(mask=masks, description=lambda anchor: False)
        assert argos_reward(text, KEY, models).raw["grounding"] == 0.5


PIECES = [
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    "B",
    point(5, 1),
    point("nan", "1e30"),
    "<points ",
    " frame 3. ",
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=40).map("".join))
def test_every_reward_stays_in_its_range_for_every_text(text):
    models = ArgosModels(mask=masks, description=lambda anchor: True, likelihood=lambda *_: [-0.1])
    assert 0.0 <= argos_reward(text, KEY, models).total <= 1.0
