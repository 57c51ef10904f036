"""Boards of a block with stripes: as shown they are the same whatever the stripes are, and a crop tells it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from agents.oracle import OracleAgent
from tests.unit.vlm_envs.content.ids import check_ids
from vlm_envs import make
from vlm_envs.content import stripes
from vlm_envs.content.blocks import BLOCK_COLORS, NUM_CELLS, lone_block
from vlm_envs.content.colors import COLORS
from vlm_envs.content.stripes import BLOCK_PX, CELL_PX, DULL, EVIDENCE_PX, STEPS, striped_blocks
from vlm_envs.tools.pictures import Picture, blank, within_budget

_SHOWN = 112 * 112
_SETTINGS = {
    "source": "vlm_envs.content.stripes:striped_blocks",
    "prompt_format": "ivgr_views",
    "max_pixels": _SHOWN,
}


def boards(striped):
    """Returns the board with each colour of stripes, and last with none."""
    plain = Picture(striped.block.drawn(striped.color))
    return [*(stripes._drawn(replace(striped, stripes=color)) for color in BLOCK_COLORS), plain]


def num_as_shown(pictures, max_pixels):
    return len({within_budget(picture, max_pixels).digest for picture in pictures})


def read(crop):
    """Returns the colour nearest to the pixel that is least like the crop's mean: a program of two lines."""
    pixels = crop.reshape(-1, 3).astype(float)
    stripe = pixels[np.abs(pixels - pixels.mean(axis=0)).sum(axis=1).argmax()]
    return min(BLOCK_COLORS, key=lambda color: np.abs(stripe - COLORS[color]).sum())


@pytest.mark.soak
def test_what_is_asked_is_true_of_the_picture():
    rng, cells = np.random.default_rng(0), set()
    for _ in range(40):
        sample = striped_blocks().draw(rng, "train")
        pixels, (evidence,) = sample.images[0].picture().pixels.astype(int), sample.evidence
        (answer,), box = sample.key.answers, evidence.box
        assert box.x2 - box.x1 == box.y2 - box.y1 == EVIDENCE_PX
        columns = pixels[box.y1, box.x1 : box.x2].reshape(-1, len(STEPS), 3)
        assert np.abs(columns[:, STEPS > 0] - COLORS[answer]).max() <= 1
        assert np.abs(columns[:, STEPS < 0] - COLORS[answer]).max(axis=2).min() > 50, "the ground is plainly another"
        is_block = (pixels != pixels[-1 if box.y1 < CELL_PX else 0, 0]).any(axis=2)
        side = int(is_block.any(axis=0).sum())
        assert BLOCK_PX[0] <= side == is_block.any(axis=1).sum() <= BLOCK_PX[1]
        cells.add((box.x1, box.y1))
    assert len(cells) > 10


@pytest.mark.soak
def test_boards_differ():
    rng = np.random.default_rng(0)
    assert len({striped_blocks().draw(rng, "test").digest for _ in range(256)}) == 256


@pytest.mark.soak
def test_the_board_as_shown_is_the_same_whatever_the_stripes_are():
    for seed in range(6):
        pictures = boards(stripes._block(seed))
        assert len({picture.digest for picture in pictures}) == len(BLOCK_COLORS) + 1
        assert num_as_shown(pictures, _SHOWN) == 1
        assert len({blank(picture, 1, 1).digest for picture in pictures}) == 1, "nor does a blank crop tell it"


@pytest.mark.soak
def test_it_is_so_for_each_red_green_and_blue_that_a_block_may_have():
    block, num_columns = lone_block(np.random.default_rng(0), CELL_PX, BLOCK_PX), NUM_CELLS * CELL_PX
    top = int(block.middle.y)
    for level in range(DULL[0], DULL[1] + 1):
        pictures = boards(stripes._StripedBlock("red", (level, level, level), block))
        rows = [Picture(picture.pixels[top : top + len(STEPS)]) for picture in pictures]  # stripes are all the same
        assert len({row.digest for row in rows}) == len(rows)
        assert num_as_shown(rows, num_columns // len(STEPS)) == 1


def test_shown_at_more_than_that_stripes_are_seen():
    pictures = boards(stripes._block(0))
    assert num_as_shown(pictures, 4 * _SHOWN) == len(pictures), "so the tests above could fail"


@pytest.mark.soak
def test_a_crop_tells_what_colour_the_stripes_are():
    world = make("VLM/ZoomQA-v0", **_SETTINGS)
    for seed in range(60):
        observation, _ = world.reset(seed=seed)
        assert observation["images"][0].shape == (112, 112, 3)
        (answer,) = world.unwrapped.state.sample.key.answers
        observation, _, terminated, _, _ = world.step(OracleAgent().write(world.unwrapped))
        (crop,) = observation["images"]
        assert not terminated and crop.shape == (112, 112, 3)
        assert read(crop) == answer
        _, _, terminated, _, info = world.step(OracleAgent().write(world.unwrapped))
        assert terminated and info["success"]


@pytest.mark.soak
def test_a_crop_beside_the_middle_tells_it_too_and_one_of_another_cell_does_not():
    world = make("VLM/ZoomQA-v0", **_SETTINGS)

    def crop_of(seed, shift):
        world.reset(seed=seed)
        at = world.unwrapped.state.sample.evidence[0].point
        left, top = ((int(place) // len(STEPS) - 4 + shift) % 112 for place in (at.x, at.y))
        observation, *_ = world.step(f"<think>There: [{left}, {top}, {left + 8}, {top + 8}]</think>")
        return observation["images"][0]

    for seed in range(20):
        world.reset(seed=seed)
        (answer,) = world.unwrapped.state.sample.key.answers
        for shift in (-2, 2):
            assert read(crop_of(seed, shift)) == answer
        assert len(np.unique(crop_of(seed, 28).reshape(-1, 3), axis=0)) == 1


def test_answers_are_as_often_and_depend_on_nothing_that_is_seen():
    drawn = [stripes._block(seed) for seed in range(6000)]
    answers = np.array([BLOCK_COLORS.index(striped.stripes) for striped in drawn])
    assert np.abs(np.bincount(answers) / len(drawn) - 1 / 6).max() < 0.02
    cells = np.array([striped.block.row * NUM_CELLS + striped.block.column for striped in drawn])
    seen = np.array([(*s.color, *s.block.shade, s.block.side_px, s.block.row, s.block.column) for s in drawn], float)
    for number in range(len(BLOCK_COLORS)):
        is_it = answers == number
        assert np.abs(np.bincount(cells[is_it], minlength=16) / is_it.sum() - 1 / 16).max() < 0.03
        assert max(abs(np.corrcoef(is_it, column)[0, 1]) for column in seen.T) < 0.05


def test_ids_find_samples_again_in_their_split():
    check_ids(striped_blocks(), ("stripes:", "stripes:x", "dots:1"), such_as="stripes:123")
