"""What questions about videos show and tell: frames, times, evidence of every frame."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")

import vlm_envs
from vlm_envs.content.scenes.clip_source import ClipSource, find_clip
from vlm_envs.errors import ConfigError
from vlm_envs.qa.video_questions import time
from vlm_envs.tools.pictures import MAX_STITCHED_PIXELS

SMALL = {"num_frames": 6, "num_things": (1, 2), "side_px": 112, "size_px": (18, 22)}


def started(**kwargs):
    world = vlm_envs.make("VLM/VideoQA-v0", **SMALL, **kwargs).unwrapped
    return world, *world.reset(seed=3)


def test_frames_are_shown_within_the_budget_and_named_with_their_times():
    _, shown, info = started(max_pixels=56 * 56)
    assert [image.shape for image in shown["images"]] == [(56, 56, 3)] * 6
    text = shown["text"]
    assert "F1 at t = 0.0 s, F2 at t = 0.5 s, F3 at t = 1.0 s" in text and "F6 at t = 2.5 s.\n" in text
    assert "Each frame: 112 x 112 pixels, shown at 56 x 56." in text
    assert info["state"]["times_s"] == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    whole, shown, _ = started()
    clip = find_clip(whole.state.sample.sample_id)
    assert np.array_equal(np.stack(shown["images"]), clip.frames()) and "shown at" not in shown["text"]


def test_people_see_all_frames_in_rows():
    world, shown, _ = started()
    sheet = world.view.image(world.state)
    # Four frames of 112 pixels in a row and 8 pixels between two; a strip of 18 pixels above each
    assert sheet.shape == (2 * (112 + 18) + 8, 4 * 112 + 3 * 8, 3)
    assert np.array_equal(sheet[18:130, :112], shown["images"][0])
    assert np.array_equal(sheet[156:268, 120:232], shown["images"][5])
    long = vlm_envs.make("VLM/VideoQA-v0", num_frames=64, side_px=512, max_pixels=512 * 512).unwrapped
    long.reset(seed=0)
    assert np.prod(long.view.image(long.state).shape[:2]) <= MAX_STITCHED_PIXELS


def test_boxes_are_of_every_frame_and_only_of_a_strategy_that_writes_places():
    world, _, info = started(categories=("motion:direction",))
    told = info["state"]["evidence"]
    assert [each["frame"] for each in told] == [each.image + 1 for each in world.state.sample.evidence]
    assert len({each["frame"] for each in told}) == 2
    assert all(0 <= side <= 100 for each in told for side in each["box"])
    assert started(prompt_format="direct")[2]["state"]["evidence"] == []


def test_there_are_no_tools_and_no_other_strategies():
    with pytest.raises(ConfigError, match="prompt_format must be one of 'direct', 'points'; got 'arm'"):
        vlm_envs.make("VLM/VideoQA-v0", prompt_format="arm")


def test_a_source_of_ones_own_takes_the_place_of_clips():
    source = ClipSource(**SMALL, categories=("place:quarter",))
    world = vlm_envs.make("VLM/VideoQA-v0", source=source).unwrapped
    shown, _ = world.reset(seed=0)
    assert "In which quarter" in shown["text"]


def test_times_are_written_in_tenths_or_hundredths():
    assert [time(each) for each in (0, 0.5, 12.0, 1 / 3, 0.04)] == ["0.0", "0.5", "12.0", "0.33", "0.04"]
