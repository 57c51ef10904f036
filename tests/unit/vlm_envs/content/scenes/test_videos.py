import json
import pickle
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.vlm_envs.content.scenes.scene_truth import frame_sentences
from vlm_envs.content.scenes.clip_drawing import ClipLimits, draw_clip
from vlm_envs.content.scenes.scene import Thing
from vlm_envs.content.scenes.video_sentences import describes, happenings
from vlm_envs.content.scenes.videos import Clip, Mover, clip_masks
from vlm_envs.errors import ConfigError

BALL = Thing(kind="ball", color="red", x=10, y=40, size_px=20)
KITE = Thing(kind="kite", color="green", x=91, y=2, size_px=20)
FLAT = Thing(kind="ball", color="grey", x=44, y=90, size_px=20)

# The ball's left edge is at 10, 10, 30, 50, 70, 90, 90, 90 in frames 1 to 8; the line's middle column is 60, so its
# middle (left edge plus 10) passes the line between frames 4 and 5, at 1.5 and 2.0 s.
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
        Mover(thing=BALL, to=(90, 40), first=2, last=6),
        Mover(thing=KITE, to=(91, 2), first=1, last=3),
        Mover(thing=FLAT, to=(44, 60), first=1, last=8),
    ),
)


def test_movers_are_where_their_paths_say():
    assert [CLIP.scene(frame).things[0].x for frame in range(1, 9)] == [10, 10, 30, 50, 70, 90, 90, 90]
    assert {CLIP.scene(frame).things[1].at(0, 0) for frame in range(1, 9)} == {KITE.at(0, 0)}
    assert [CLIP.side(0, frame) for frame in range(1, 9)] == [-1, -1, -1, -1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("sentence", "first", "last", "truth"),
    [
        ("The red ball is to the left of the blue line.", 1, None, True),
        ("The red ball is left of the line", 1, 3, True),
        ("The red ball is right of the blue line.", 8, None, True),
        ("The red ball is right of the blue line.", 1, 8, False),
        ("The red ball is left of the blue line.", 4, None, None),  # It touches it: columns 50 to 69.
        ("The red ball is above the blue line.", 1, None, False),
        ("The red ball is left of the red line.", 1, None, False),
        ("The red ball is below the green kite.", 1, 8, True),
        ("The kite is above the red ball.", 1, 8, True),
        ("The red ball is left of the green kite.", 1, 8, None),  # At the end their middles are one above the other.
        ("The red ball is left of the green kite.", 1, 4, True),
        ("The red ball is left of the yellow boat.", 1, None, False),
        ("There are two balls.", 3, None, True),
        ("There are two balls", 1, 8, True),
        ("There is a ball.", 1, None, True),
        ("There is one ball.", 1, None, False),
        ("There is no boat.", 1, None, True),
        ("There are 3 kites.", 1, None, False),
        ("The red ball crosses the blue line.", 4, 5, True),
        ("The red ball crosses the blue line.", 1, 8, True),
        ("The red ball crosses the blue line from 1.5 to 2.0 seconds.", 4, 5, True),
        ("[F4-F5 @ t=1.5-2.0s] The red ball crosses the blue line.", 4, 5, True),
        ("In frames 4 to 5 the red ball crosses the blue line.", 4, 5, True),
        ("The red ball crosses the blue line.", 1, 4, False),
        ("The red ball crosses the blue line.", 4, None, None),
        ("The green kite crosses the blue line.", 1, 8, False),
        ("The red ball moves to the right.", 2, 6, True),
        ("The red ball moves right.", 1, 2, False),
        ("The red ball moves to the left.", 2, 6, False),
        ("The red ball moves.", 2, 6, True),
        ("The red ball stands still.", 6, 8, True),
        ("The red ball does not move.", 5, 8, False),
        ("The grey ball moves up.", 1, 8, True),
        ("The grey ball moves upwards.", 1, 8, True),
        ("The grey ball moves to the right.", 1, 8, False),
        ("The green kite stands still.", 1, 8, True),
        ("The green kite moves.", 1, 8, False),
        ("The purple boat moves.", 1, 8, False),
        ("The ball moves.", 1, 8, None),  # Which of two?
        ("The dog moves.", 1, 8, None),
        ("The red ball is happy.", 1, 8, None),
        ("The red ball moves.", 0, 8, None),
        ("The red ball moves.", 3, 9, None),
        ("The red ball moves.", 5, 4, None),
        ("", 1, 8, None),
        ("x" * 500, 1, 8, None),
    ],
)
@pytest.mark.sample(8)
def test_sentences_are_true_false_or_open(sentence, first, last, truth):
    assert describes(CLIP, sentence, first, last) is truth


def test_what_happens_is_told_with_its_times():
    assert [happening.text for happening in happenings(CLIP)] == [
        "The red ball crosses the blue line from 1.5 to 2.0 seconds.",
        "The red ball moves to the right from 0.5 to 2.5 seconds.",
        "The green kite stands still from 0.0 to 3.5 seconds.",
        "The grey ball moves up from 0.0 to 3.5 seconds.",
    ]


def test_masks_are_the_pixels_that_differ_from_an_empty_clip():
    frames, empty = CLIP.frames(), replace(CLIP, movers=()).frames()
    assert frames.shape == (8, 128, 128, 3) and frames.dtype == np.uint8
    masks = clip_masks(CLIP)
    for frame in (1, 4, 8):
        changed = (frames[frame - 1] != empty[frame - 1]).any(axis=2)
        things = masks("things", frame, None)
        assert changed[things].mean() > 0.97  # Outlines of things and of the line have one colour.
        grown = things.copy()
        for axis in (0, 1):
            grown |= np.roll(grown, 1, axis) | np.roll(grown, -1, axis)
        assert not (changed & ~grown).any()
        line = masks("the blue line", frame, None)
        assert not (line & things).any() and line[:, 60].sum() >= 80


def test_masks_follow_frames_and_times():
    masks = clip_masks(CLIP)
    assert np.array_equal(masks("red ball", 5, None), CLIP.scene(5).mask(0))
    assert np.array_equal(masks("red ball", None, 2.0), CLIP.scene(5).mask(0))
    assert np.array_equal(masks("red ball", 5, 0.0), CLIP.scene(5).mask(0))
    assert not masks("boat", 1, None).any() and not masks("red line", 1, None).any()
    for label, frame, time_s in (("dog", 1, None), ("ball", 9, None), ("ball", None, None), ("ball", None, 99.0)):
        assert masks(label, frame, time_s) is None
    assert masks("ball", None, float("inf")) is None and masks("ball", None, -1.0) is None


@given(st.integers(0, 2**63 - 1))
@pytest.mark.soak
def test_drawn_clips_are_sound(seed):
    clip = draw_clip(np.random.default_rng(seed))
    assert clip == draw_clip(np.random.default_rng(seed)) == pickle.loads(pickle.dumps(clip))
    assert json.loads(json.dumps(asdict(clip)))["num_frames"] == clip.num_frames
    assert 8 <= clip.num_frames <= 16 and 2 <= len(clip.movers) <= 4
    told = happenings(clip)
    assert any("crosses" in happening.text for happening in told)
    for happening in told:
        assert describes(clip, happening.text, happening.first, happening.last) is True
        if "crosses" in happening.text:
            before = happening.first - 1
            assert before < 1 or describes(clip, happening.text, 1, happening.first) is False
    for frame in (1, clip.num_frames):
        for sentence in frame_sentences(clip, frame):
            assert describes(clip, sentence, frame) is True
        for thing in clip.scene(frame).things:
            assert 0 <= thing.x <= clip.width and thing.frame.right <= clip.width and thing.frame.bottom <= clip.height


@pytest.mark.parametrize(
    "arguments", [{"num_movers": (0, 2)}, {"num_movers": (3, 2)}, {"side_px": 20}, {"size_px": (24, 90)}]
)
def test_clips_without_room_are_refused(arguments):
    with pytest.raises(ConfigError):
        draw_clip(np.random.default_rng(0), ClipLimits(**arguments))


def test_frames_that_do_not_exist_are_refused():
    with pytest.raises(ConfigError, match="frames 1 to 8; got 9"):
        CLIP.scene(9)
