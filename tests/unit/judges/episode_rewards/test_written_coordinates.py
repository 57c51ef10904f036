"""Rewards of papers read boxes and points in the coordinates that the world asked for."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import vlm_envs
from agents.event_loop import run_blocking
from agents.oracle import OracleAgent
from benchmarks.models.judged import judge_episodes
from judges.episode_rewards.argos import exact_grounding
from judges.episode_rewards.episode_reading import final_state
from judges.episode_rewards.exact_models import seen_masks
from judges.episode_rewards.judge_models import PackedMask
from tests.unit.judges.episodes import episode as episode_of
from tests.unit.judges.episodes import episode_judge, with_state
from vlm_envs.trajectory import Trajectory

pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")

COORDINATES = ("thousandths", "pixels")
SCENE = {"side_px": (400, 500), "target_px": (20, 40), "categories": ("attribute",)}
CLIP = {"num_frames": 6, "side_px": 224, "size_px": (24, 40), "max_pixels": 100_352, "categories": ("place",)}


@cache
def played(env_id: str, prompt_format: str, coordinates: str) -> Trajectory:
    kwargs: dict[str, Any] = SCENE if env_id == "VLM/ZoomQA-v0" else CLIP
    world = vlm_envs.make(env_id, prompt_format=prompt_format, coordinates=coordinates, **kwargs).unwrapped
    shown, _ = world.reset(seed=0)
    said, infos, over = [], [], False
    while not over:
        said.append(OracleAgent().write(world))
        *_, terminated, truncated, info = world.step(said[-1])
        infos.append(info)
        over = terminated or truncated
    return episode_of(said, infos, env_id=env_id, shown=shown)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("env_id", ["VLM/ZoomQA-v0", "VLM/VideoQA-v0"])
def test_points_hit_in_every_space(env_id, coordinates):
    episode = played(env_id, "points", coordinates)
    assert final_state(episode)["evidence"]
    assert exact_grounding(episode) == 1.0
    (reward,) = episode_judge("argos")([episode])
    assert reward.raw["grounding"] == 1.0
    (judged,) = judge_episodes([episode])
    assert judged.measures["point_accuracy"] == 1.0
    assert exact_grounding(with_state(episode, coordinates=None)) < 1.0  # As if they were percents.


@pytest.mark.parametrize("coordinates", COORDINATES)
def test_zooms_and_boxes_earn_everything_in_every_space(coordinates):
    (mags,) = episode_judge("mags_stage_2")([played("VLM/ZoomQA-v0", "mags", coordinates)])
    assert mags.raw["zoom_format"] > 0 and mags.raw["answer"] > 0
    (judged,) = judge_episodes([played("VLM/ZoomQA-v0", "ivgr_grounded", coordinates)])
    assert judged.measures["box_iou"] == 1.0


def test_models_look_at_images_without_their_margins():
    episode = played("VLM/ZoomQA-v0", "points", "pixels")
    episode = with_state(episode, sample_id="own:1")  # Of a data set, so that no mask is known.
    seen = []

    async def look(image, label):
        seen.append(image.shape[:2])
        return PackedMask.of(np.ones(image.shape[:2], np.bool_))

    mask = seen_masks(look, episode)
    assert mask is not None and run_blocking(mask("mug", None, None)).all()
    width, height = final_state(episode)["shown_size"]
    assert seen == [(height, width)] != [episode.turns[0].observation["images"][0].shape[:2]]
