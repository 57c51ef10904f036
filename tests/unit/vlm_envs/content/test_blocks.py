"""Boards of blocks: what is asked is true of what is drawn, and ids find it again."""

from __future__ import annotations

import numpy as np
import pytest

from agents.oracle import OracleAgent
from tests.unit.vlm_envs.content.ids import check_ids
from vlm_envs import make
from vlm_envs.content.blocks import (
    BLOCK_PX,
    BlockSource,
    counted_blocks,
    leftmost_blocks,
    mistaken_blocks,
    mistaken_counts,
)
from vlm_envs.content.colors import COLORS
from vlm_envs.errors import LevelError
from vlm_envs.qa.sample import DividedSource


def colored_boxes(sample):
    """Returns the colour and the corner of each block, read off the picture alone, from the left."""
    pixels = sample.images[0].picture().pixels
    found = []
    for name, rgb in COLORS.items():
        mask = (pixels == rgb).all(axis=2)
        while mask.any():
            y, x = np.argwhere(mask)[0]
            assert mask[y : y + BLOCK_PX, x : x + BLOCK_PX].all()
            mask[y : y + BLOCK_PX, x : x + BLOCK_PX] = False
            found.append((int(x), int(y), name))
    return sorted(found)


@pytest.mark.soak
def test_what_is_asked_is_true_of_the_picture():
    rng, counts = np.random.default_rng(0), []
    for _ in range(40):
        sample = counted_blocks().draw(rng, "train")
        seen = colored_boxes(sample)
        assert sample.key.answers == (str(len(seen)),)
        assert [(each.box.x1, each.box.y1, each.label) for each in sample.evidence] == [
            (x, y, f"{color} block") for x, y, color in seen
        ]
        assert len({x // 28 for x, _, _ in seen}) == len(seen), "no two in one column"
        counts.append(len(seen))
        leftmost = leftmost_blocks().draw(rng, "val")
        (x, y, color), *_ = colored_boxes(leftmost)
        assert leftmost.key.answers == (color,) and (leftmost.evidence[0].box.x1, leftmost.evidence[0].box.y1) == (x, y)
    assert {*counts} == {1, 2, 3, 4}


def test_ids_find_samples_again_in_their_split():
    source = counted_blocks()
    assert isinstance(source, DividedSource)
    check_ids(
        source, ("blocks:count:", "blocks:more:1", "scene:1"), such_as="blocks:count:123", finder=leftmost_blocks()
    )


@pytest.mark.soak
def test_mistaken_sources_say_something_else_of_the_same_boards_and_ids_know_it():
    num_wrong = {"count": 0, "leftmost": 0}
    for source, honest in ((mistaken_counts(), counted_blocks()), (mistaken_blocks(), leftmost_blocks())):
        rng, other = np.random.default_rng(0), np.random.default_rng(0)
        for _ in range(160):
            said, true = source.draw(rng, "train"), honest.draw(other, "train")
            seen, of = colored_boxes(said), sorted(colored_boxes(true))
            assert seen == of, "what is shown is the same"
            found = honest.find(said.sample_id)
            assert (found.key, found.evidence, found.facts) == (said.key, said.evidence, said.facts)
            assert honest.split_of(said.sample_id) == "train"
            if said.sample_id == true.sample_id:
                assert said.key == true.key
                continue
            num_wrong[source.asks] += 1
            assert said.digest != true.digest
            if source.asks == "leftmost":
                (meant,) = said.evidence
                number = [(x, y) for x, y, _ in seen].index((meant.box.x1, meant.box.y1))
                assert number > 0 and said.key.answers == (seen[number][2],), "box and answer are of the same block"
            else:
                assert said.key.answers != (str(len(seen)),) and said.evidence == true.evidence
    assert 84 < num_wrong["count"] < 108 and 48 < num_wrong["leftmost"] < 72, "of 160: 0.6, and 0.5 of 3 in 4"
    for wrong in ("blocks:count:3:said:7", "blocks:leftmost:3:said:4"):
        with pytest.raises(LevelError, match="possible answer"):
            counted_blocks().find(wrong)


@pytest.mark.parametrize("prompt_format", ["ivgr_grounded", "ivgr_textual", "ivgr_views"])
def test_an_expert_is_right(prompt_format):
    world = make("VLM/ZoomQA-v0", prompt_format=prompt_format, source="vlm_envs.content.blocks:counted_blocks")
    for seed in range(4):
        world.reset(seed=seed)
        over = False
        while not over:
            _, _, terminated, truncated, info = world.step(OracleAgent().write(world.unwrapped))
            over = terminated or truncated
        assert info["success"]
    assert BlockSource("count") == counted_blocks()
