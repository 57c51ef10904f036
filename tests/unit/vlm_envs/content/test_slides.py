"""Clips of a block that slides: what is asked is true of the frames, no way is rarer, and ids find clips again."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from agents.oracle import OracleAgent
from tests.unit.vlm_envs.content.ids import check_ids
from vlm_envs import make
from vlm_envs.content.colors import COLORS
from vlm_envs.content.slides import NUM_FRAMES, WAYS, sliding_blocks


def middle(pixels, color):
    """Returns where a block is, as x and y."""
    y, x = np.argwhere((pixels == COLORS[color]).all(axis=2)).mean(axis=0)
    return np.array((x, y))


@pytest.mark.soak
def test_what_is_asked_is_true_of_the_frames():
    rng, ways, jumps = np.random.default_rng(0), Counter(), set()
    for _ in range(80):
        sample = sliding_blocks().draw(rng, "train")
        color = sample.evidence[0].label.split()[0]
        places = [middle(image.picture().pixels, color) for image in sample.images]
        moves = [tuple(np.round((after - before) / 56).astype(int)) for before, after in pairwise(places)]
        (move,) = [each for each in moves if each != (0, 0)]
        (answer,) = sample.key.answers
        assert move == {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}[answer]
        for evidence in sample.evidence:
            assert np.allclose(places[evidence.image] + 0.5, (evidence.point.x, evidence.point.y))
        assert sample.facts.endswith(f" quarter: {answer}.")
        ways[answer] += 1
        jumps.add(moves.index(move))
    assert {*ways} == {*WAYS} and min(ways.values()) > 8
    assert jumps == {*range(NUM_FRAMES - 1)}, "it slides between any two frames"


def test_clips_differ():
    rng = np.random.default_rng(0)
    assert len({sliding_blocks().draw(rng, "test").digest for _ in range(256)}) == 256


def test_an_expert_is_right():
    world = make("VLM/VideoQA-v0", source="vlm_envs.content.slides:sliding_blocks", prompt_format="direct")
    world.reset(seed=0)
    assert world.step(OracleAgent().write(world.unwrapped))[-1]["success"]


def test_ids_find_samples_again_in_their_split():
    check_ids(sliding_blocks(), ("slides:", "slides:x", "blocks:count:1"), such_as="slides:123")
