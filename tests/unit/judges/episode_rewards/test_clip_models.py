"""Argos on generated videos: exact models, and whole rewards of responses written by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.episode_rewards.argos import ArgosSettings, DescriptionModel, MaskModel
from judges.episode_rewards.exact_models import clip_descriptions, clip_mask_model, clip_models
from judges.grounding import Moment, Segment, read_response
from tests.unit.judges.awaited import argos_reward
from tests.unit.vlm_envs.content.scenes.scene_truth import frame_sentences
from vlm_envs.content.scenes.clip_drawing import draw_clip
from vlm_envs.content.scenes.scene import Thing
from vlm_envs.content.scenes.video_sentences import happenings
from vlm_envs.content.scenes.videos import Clip, Mover
from vlm_envs.responses.answers import AnswerKey

# A red ball of 20 pixels goes from left to right along row 40: its left edge is at columns 10, 10, 30, 50, 70, 90, 90
# and 90 in frames 1 to 8, at 0.0 to 3.5 s. It passes an upright blue line at column 60 between frames 4 and 5. A green
# kite stands still at the top right.
CLIP = Clip(
    width=128,
    height=128,
    setting="desk",
    scenery_seed=7,
    num_frames=8,
    line_color="blue",
    line_upright=True,
    line_at=60,
    movers=(
        Mover(thing=Thing(kind="ball", color="red", x=10, y=40, size_px=20), to=(90, 40), first=2, last=6),
        Mover(thing=Thing(kind="kite", color="green", x=100, y=2, size_px=20), to=(100, 2), first=1, last=3),
    ),
)
KEY = AnswerKey(kind="number", answers=("1",), question="How many things cross the line?")

ON_BALL = 'In frame 1 there is a <points x1="20" y1="50" alt="red ball">red ball</points>.'
OFF_BALL = 'In frame 8 there is a <points x1="20" y1="50" alt="red ball">red ball</points>.'
LEFT = "[F1 @ t=0.00s] The red ball is to the left of the blue line."
RIGHT = "In frame 8 at 3.5 seconds the red ball is right of the line."
FALSE_MOMENT = "In frame 8 the red ball is left of the line."
CROSSES = "The red ball crosses the blue line from 1.5 to 2.0 seconds."
STILL = "In frames 1 to 8 the green kite stands still."
FALSE_SEGMENT = "The green kite moves from 0.0 to 2.0 seconds."
OPEN = "In frame 2 it is a fine day."


def reward_of(*sentences, answer="1", likelihood=None, **how):
    text = f"<think>{' '.join(sentences)}</think><answer>{answer}</answer>"
    return argos_reward(text, KEY, clip_models(CLIP, likelihood=likelihood), **how)


class TestWhole:
    def test_what_is_all_true_earns_everything(self):
        reward = reward_of(ON_BALL, LEFT, RIGHT, CROSSES, STILL)
        assert reward.raw == {"accuracy": 1.0, "grounding": 1.0}
        assert reward.total == 1.0

    @pytest.mark.parametrize(
        ("sentences", "grounding"),
        [
            # Means of points, moments and segments, and of these one mean
            ((ON_BALL, LEFT, FALSE_MOMENT, CROSSES, STILL), (1 + 1 / 2 + 1) / 3),
            ((ON_BALL, LEFT, RIGHT, FALSE_MOMENT, CROSSES), (1 + 2 / 3 + 1) / 3),
            ((OFF_BALL, LEFT, RIGHT, CROSSES, STILL), (0 + 1 + 1) / 3),
            ((ON_BALL, OFF_BALL, LEFT, CROSSES), (1 / 2 + 1 + 1) / 3),
            ((ON_BALL, LEFT, CROSSES, FALSE_SEGMENT), (1 + 1 + 1 / 2) / 3),
            ((OFF_BALL, FALSE_MOMENT, FALSE_SEGMENT), 0.0),
            # A category without a score is left out, and so is a sentence that nobody can check
            ((LEFT, FALSE_MOMENT), 1 / 2),
            ((ON_BALL, OPEN), 1.0),
            ((LEFT, OPEN, FALSE_SEGMENT), (1 + 0) / 2),
        ],
    )
    def test_each_falsehood_costs_its_share(self, sentences, grounding):
        reward = reward_of(*sentences)
        assert reward.raw["grounding"] == pytest.approx(grounding)
        assert reward.total == pytest.approx((1 + grounding) / 2)

    def test_reasoning_is_a_third_term(self):
        # (1 + (1 + 1/2 + 1) / 3 + 1/4) / 3
        likelihood = lambda *asked: [math.log(0.5), math.log(0.125)]  # noqa: E731
        reward = reward_of(ON_BALL, LEFT, FALSE_MOMENT, CROSSES, likelihood=likelihood)
        assert reward.total == pytest.approx((1 + 5 / 6 + 1 / 4) / 3)

    def test_a_wrong_answer_earns_nothing_however_true_the_rest(self):
        assert reward_of(ON_BALL, LEFT, RIGHT, CROSSES, STILL, answer="2").total == 0.0

    def test_silence_earns_accuracy_alone_unless_points_are_required(self):
        assert reward_of("I see.").terms == {"accuracy": 1.0}
        assert reward_of(LEFT, CROSSES, settings=ArgosSettings(require_points=True)).raw["grounding"] == 0.0

    def test_points_may_be_percents(self):
        at = 'In frame 1 there is a <points x1="15.6" y1="39.1" alt="red ball">red ball</points>.'
        assert reward_of(at, extent=(100, 100)).raw["grounding"] == 1.0
        assert reward_of(at).raw["grounding"] == 0.0


class TestMasks:
    def test_a_mask_is_of_its_frame(self):
        masks: MaskModel = clip_mask_model(CLIP)
        for frame, left in ((1, 10), (5, 70), (8, 90)):
            _, columns = np.nonzero(masks("red ball", frame, None))
            assert left <= columns.min() and columns.max() < left + 20
        assert np.array_equal(masks("red ball", None, 2.0), masks("red ball", 5, None))
        assert np.array_equal(masks("red ball", None, 3.9), masks("red ball", 8, None))
        assert np.array_equal(masks("red ball", 5, 0.0), masks("red ball", 5, None))

    def test_what_is_not_there_has_an_empty_mask(self):
        masks = clip_mask_model(CLIP)
        for asked in (("purple boat", 1, None), ("red ball", 9, None), ("red ball", 0, None), ("red ball", None, 4.0)):
            mask = masks(*asked)
            assert mask.shape == (128, 128) and not mask.any()

    def test_what_cannot_be_told_is_left_open(self):
        masks = clip_mask_model(CLIP)
        assert masks("red ball", None, None) is None
        assert masks("sadness", 1, None) is None


class TestDescriptions:
    @pytest.mark.parametrize(
        ("sentence", "verdict"),
        [
            (LEFT, True),
            (RIGHT, True),
            (FALSE_MOMENT, False),
            (CROSSES, True),
            (FALSE_SEGMENT, False),
            (OPEN, None),
            ("At 0.2 seconds the red ball is left of the line.", True),
            ("At 3.9 seconds the red ball is right of the line.", True),
            # A frame's number goes before its time, and the time must be its own
            ("[F1 @ t=0.40s] The red ball is left of the line.", True),
            ("[F1 @ t=0.50s] The red ball is left of the line.", False),
            ("[F4-F5 @ t=1.50-2.00s] The red ball crosses the line.", True),
            ("[F4-F5 @ t=0.50-2.00s] The red ball crosses the line.", False),
            ("[F4-F5 @ t=1.50-3.00s] The red ball crosses the line.", False),
            ("From frame 4 at 1.5 seconds to frame 5 at 2.0 seconds the red ball crosses the line.", True),
            ("The green kite moves from frame 1 (0.0 s) to frame 5 (2.0 s).", False),
            # Segments end when the clip does, at 4.0 s
            ("The green kite stands still from 0.0 to 4.0 seconds.", True),
            ("[F1-F8 @ t=0.00-4.00s] The green kite stands still.", True),
            ("From frame 6 onwards the red ball stands still.", True),
            ("From frame 5 onwards the red ball stands still.", False),
            # What names no stretch of the clip
            ("In frame 9 the red ball is right of the line.", False),
            ("At 4.0 seconds the red ball is right of the line.", False),
            ("The green kite stands still from 0.0 to 4.5 seconds.", False),
            ("The green kite stands still from 2.0 to 1.0 seconds.", False),
            ("In frames 3 to 12 the green kite stands still.", False),
        ],
    )
    def test_moments_and_segments_are_true_false_or_open(self, sentence, verdict):
        describe: DescriptionModel = clip_descriptions(CLIP)
        response = read_response(sentence)
        (anchor,) = (*response.moments, *response.segments)
        assert describe(anchor) is verdict

    def test_a_sentence_that_points_is_read_without_its_tags(self):
        said = 'The <points x1="20" y1="50" alt="red ball">red ball</points> crosses the line from 1.5 to 2.0 seconds.'
        (segment,) = read_response(said).segments
        assert "<points" in segment.description
        assert clip_descriptions(CLIP)(segment) is True

    def test_open_segments_reach_the_end(self):
        describe = clip_descriptions(CLIP)
        assert describe(Segment(6, None, None, None, "The red ball stands still.")) is True
        assert describe(Segment(5, None, None, None, "The red ball stands still.")) is False
        assert describe(Segment(None, None, 2.5, None, "The red ball stands still.")) is True

    @pytest.mark.parametrize("time_s", [math.nan, math.inf, -1.0, 1e300])
    def test_times_that_are_none_are_false(self, time_s):
        assert clip_descriptions(CLIP)(Moment(None, time_s, "There is a ball.")) is False
        assert not clip_mask_model(CLIP)("red ball", None, time_s).any()


@given(st.integers(0, 2**32))
def test_true_accounts_of_drawn_clips_earn_everything_and_points_beside_things_do_not(seed):
    clip = draw_clip(np.random.default_rng(seed))
    name = clip.movers[0].thing.name
    mask = clip_mask_model(clip)(name, 1, None)
    if not mask.any():
        return  # Hidden behind another thing.

    def total(row, column):
        point = f'In frame 1 see <points x1="{column}" y1="{row}" alt="{name}">{name}</points>.'
        said = [
            point,
            *(f"In frame 1 {each}" for each in frame_sentences(clip, 1)),
            *(h.text for h in happenings(clip)),
        ]
        return argos_reward(f"<think>{' '.join(said)}</think><answer>1</answer>", KEY, clip_models(clip)).total

    assert total(*np.argwhere(mask)[0]) == 1.0
    assert total(*np.argwhere(~mask)[0]) == pytest.approx((1 + 2 / 3) / 2)
