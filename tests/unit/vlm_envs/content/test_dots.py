"""Boards of a block with a dot: what is asked is true of what is drawn, is gone at a quarter, and ids find it again."""

from __future__ import annotations

import numpy as np
import pytest

from agents.oracle import OracleAgent
from tests.unit.vlm_envs.content.ids import check_ids
from vlm_envs import make
from vlm_envs.cli.named_worlds import parse_settings
from vlm_envs.content.blocks import BLOCK_COLORS
from vlm_envs.content.colors import COLORS
from vlm_envs.content.dots import BLOCK_PX, DOT_PX, dotted_blocks

_SETTINGS = {
    "source": "vlm_envs.content.dots:dotted_blocks",
    "prompt_format": "ivgr_views",
    "max_pixels": 112 * 112,
}


def where(pixels, color):
    return np.argwhere((pixels == COLORS[color]).all(axis=2))


@pytest.mark.soak
def test_what_is_asked_is_true_of_the_picture():
    rng, cells = np.random.default_rng(0), set()
    for _ in range(40):
        sample = dotted_blocks().draw(rng, "train")
        pixels, (dot,) = sample.images[0].picture().pixels, sample.evidence
        (answer,) = sample.key.answers
        (color,) = {color for color in BLOCK_COLORS if len(where(pixels, color))} - {answer}
        on_dot, on_block = where(pixels, answer), where(pixels, color)
        corners = [*on_dot.min(axis=0), *on_dot.max(axis=0) + 1]
        assert corners == [dot.box.y1, dot.box.x1, dot.box.y2, dot.box.x2]
        assert len(on_dot) == DOT_PX**2
        assert tuple(pixels[dot.point.y, dot.point.x]) == COLORS[answer]
        sides = on_block.max(axis=0) + 1 - on_block.min(axis=0)
        assert len(set(sides)) == 1 and BLOCK_PX[0] <= sides[0] <= BLOCK_PX[1]
        cells.add((dot.box.x1, dot.box.y1))
    assert len(cells) > 10


@pytest.mark.soak
def test_boards_differ():
    rng = np.random.default_rng(0)
    assert len({dotted_blocks().draw(rng, "test").digest for _ in range(256)}) == 256


def test_a_dot_is_four_pixels_as_shown_and_two_hundred_in_a_crop():
    world = make("VLM/ZoomQA-v0", **_SETTINGS)
    observation, _ = world.reset(seed=1)
    answer = world.unwrapped.state.sample.key.answers[0]

    def num_near(picture):
        return int((np.abs(picture.astype(int) - COLORS[answer]).max(axis=2) < 40).sum())

    assert observation["images"][0].shape == (112, 112, 3)
    assert num_near(observation["images"][0]) <= 9
    observation, _, terminated, _, _ = world.step(OracleAgent().write(world.unwrapped))
    assert not terminated and num_near(observation["images"][0]) >= 200
    _, _, terminated, _, info = world.step(OracleAgent().write(world.unwrapped))
    assert terminated and info["success"]


def test_a_blank_crop_shows_no_dot():
    world = make("VLM/ZoomQA-v0", **_SETTINGS, blank_crops=True)
    world.reset(seed=1)
    observation, *_ = world.step(OracleAgent().write(world.unwrapped))
    (crop,) = observation["images"]
    assert len(np.unique(crop.reshape(-1, 3), axis=0)) == 1


def test_ids_find_samples_again_in_their_split():
    check_ids(dotted_blocks(), ("dots:", "dots:x", "blocks:count:1"), such_as="dots:123")


def test_no_views_may_be_asked_for_on_a_command_line():
    num_shown = {}
    for asked in ("both", "none"):
        world = make("VLM/ZoomQA-v0", **_SETTINGS, **parse_settings([f"views={asked}"]))
        world.reset(seed=3)
        observation = world.step(OracleAgent().write(world.unwrapped))[0]
        num_shown[asked] = len(observation["images"])
    assert num_shown["none"] == 0 < num_shown["both"]
