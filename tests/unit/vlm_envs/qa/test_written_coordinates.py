"""Worlds that ask for boxes and points in thousandths, or in pixels of images that no processor resizes."""

from __future__ import annotations

import numpy as np
import pytest

from agents.oracle import OracleAgent
from tests.unit.vlm_envs.qa.quiz import COLORS, SIDE_PX, QuizWorld
from vlm_envs.errors import ConfigError
from vlm_envs.tools.coordinates import MIN_UNRESIZED_PIXELS, OriginalPixels, names_pixels, padded_size, unresized_space
from vlm_envs.worlds.video_qa import VideoQAWorld
from vlm_envs.worlds.zoom_qa import ZoomQAWorld

SHOWN_PX = 224  # Of 400 pixels within two squares of 224.
EXTENT = {"thousandths": 1000, "pixels": SHOWN_PX}
WITH_BOXES = ("mags", "ivgr_grounded", "ivgr_textual", "ivgr_views", "points")


def started(prompt_format: str, coordinates: str) -> tuple[QuizWorld, dict, dict]:
    world = QuizWorld(prompt_format=prompt_format, coordinates=coordinates, max_pixels=MIN_UNRESIZED_PIXELS)
    return world, *world.reset(seed=3)


@pytest.mark.parametrize("coordinates", EXTENT)
@pytest.mark.parametrize("prompt_format", WITH_BOXES)
def test_prompt_truth_and_expert_use_the_same_space(prompt_format, coordinates):
    world, observation, info = started(prompt_format, coordinates)
    assert names_pixels(observation["text"]) == (coordinates == "pixels" and prompt_format != "ivgr_textual")
    assert ("in thousandths of" in observation["text"]) == (
        coordinates == "thousandths" and prompt_format != "ivgr_textual"
    )
    state, box = info["state"], world.state.sample.evidence[0].box
    assert state["coordinates"] == coordinates
    scale = EXTENT[coordinates] / SIDE_PX
    truth = [side * scale for side in (box.x1, box.y1, box.x2, box.y2)]
    assert state["evidence"][0]["box"] == pytest.approx(truth, abs=1)
    over = False
    while not over:
        *_, terminated, truncated, info = world.step(OracleAgent().write(world))
        over = terminated or truncated
    assert info["success"] and all(call["succeeded"] for call in info["state"]["calls"])


@pytest.mark.parametrize("coordinates", EXTENT)
def test_a_region_is_cut_out_where_it_was_written(coordinates):
    world, _, info = started("mags", coordinates)
    sides = info["state"]["evidence"][0]["box"]
    observation, *_ = world.step(f"<think>Look: <zoom>[{[int(side) for side in sides]}]</zoom></think>")
    color = COLORS[world.state.sample.facts.split()[-1].rstrip(".")]
    (crop,) = observation["images"]
    assert crop.shape == (56, 56, 3)  # 28 pixels, doubled; only what coordinates are of is padded.
    assert (np.abs(crop.astype(int) - color).max(-1) < 40).sum() > 300


def test_images_are_padded_to_sides_that_no_processor_changes():
    _, observation, info = started("ivgr_grounded", "pixels")
    (shown,) = observation["images"]
    assert shown.shape == (224, 448, 3) and info["state"]["shown_size"] == [SHOWN_PX, SHOWN_PX]
    assert (shown[:, SHOWN_PX:] == 0).all() and (shown[:, :SHOWN_PX] != 0).all()
    assert "shown at 224 x 224, in the top left corner of 448 x 224" in observation["text"]


@pytest.mark.parametrize(
    ("size", "max_pixels", "shown", "padded"),
    [
        ((4000, 3000), 1_048_576, (1120, 840), (1120, 896)),  # 5 x 4 squares of 20
        ((1024, 1024), 1_048_576, (896, 896), (896, 896)),
        ((100, 50), 1_048_576, (100, 50), (448, 224)),  # Not enlarged, and above Qwen3-VL's least area
        ((50, 100), 1_048_576, (50, 100), (224, 448)),
        ((448, 224), 100_352, (448, 224), (448, 224)),
        ((9000, 10), 1_048_576, (4480, 4), (4480, 224)),
    ],
)
def test_pictures_are_as_large_as_the_budget_allows(size, max_pixels, shown, padded):
    space = unresized_space(OriginalPixels(*size), max_pixels)
    assert (space.width, space.height) == shown and padded_size(*shown) == padded


@pytest.mark.parametrize(
    ("world", "kwargs", "message"),
    [
        (ZoomQAWorld, {"coordinates": "percents", "prompt_format": "mags"}, "thousandths"),
        (ZoomQAWorld, {"coordinates": "pixels"}, "'arm' calls a zoom tool.*'mags'"),
        (ZoomQAWorld, {"coordinates": "pixels", "prompt_format": "mags", "max_pixels": 50_176}, "at least 100352"),
        (VideoQAWorld, {"coordinates": "pixels"}, "at least 100352"),
    ],
)
def test_unusable_coordinates_are_refused(world, kwargs, message):
    with pytest.raises(ConfigError, match=message):
        world(**kwargs)


def test_the_zoom_tool_takes_thousandths_by_name():
    world, _, info = started("arm", "thousandths")
    assert info["state"]["coordinates"] == "thousandths"
    *_, info = world.step(OracleAgent().write(world))
    assert info["state"]["calls"][0]["succeeded"]
