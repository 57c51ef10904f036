"""Argos in training on `VLM/VideoQA-v0`: points, frames and stretches are scored without a model."""

from __future__ import annotations

import re
from functools import cache

import pytest

import vlm_envs
from agents.oracle import OracleAgent
from benchmarks.models.judged import judge_episodes
from judges.episode_rewards.argos import ArgosSettings
from judges.episode_rewards.episode_reading import final_state, true_boxes
from judges.episode_rewards.exact_models import exact_descriptions, exact_masks
from judges.episode_rewards.judge_models import JudgeModels
from judges.grounding import read_response
from tests.unit.judges.awaited import argos_judge
from tests.unit.judges.episodes import episode as episode_of
from tests.unit.judges.episodes import episode_judge, with_response, with_state
from vlm_envs.content.scenes.clip_questions import CATEGORIES
from vlm_envs.trajectory import Trajectory

SMALL = {"num_frames": 6, "side_px": 112, "size_px": (18, 22), "max_pixels": 56 * 56}

pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")


@cache
def played(category: str, seed: int = 0, prompt_format: str = "points") -> Trajectory:
    """An oracle's episode."""
    world = vlm_envs.make("VLM/VideoQA-v0", prompt_format=prompt_format, categories=(category,), **SMALL).unwrapped
    shown, _ = world.reset(seed=seed)
    said = OracleAgent().write(world)
    *_, info = world.step(said)
    return episode_of([said], [info], env_id="VLM/VideoQA-v0", shown=shown)


def raw(episode: Trajectory):
    (reward,) = episode_judge("argos")([episode])
    return reward.raw


def said_in(episode: Trajectory) -> str:
    return episode.turns[-1].response_text


@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("seed", range(4))
def test_an_oracle_points_where_and_when_and_earns_everything(category, seed):
    episode = played(category, seed)
    read = read_response(said_in(episode))
    state = final_state(episode)
    assert len(read.points) == len(state["evidence"]) > 0
    assert [point.frame for point in read.points] == [each["frame"] for each in state["evidence"]]
    assert [state["times_s"][point.frame - 1] for point in read.points] == [point.time_s for point in read.points]
    for point, box in zip(read.points, true_boxes(episode), strict=True):
        assert box.x1 <= point.x <= box.x2 and box.y1 <= point.y <= box.y2
    is_true = exact_descriptions(episode)
    # Every sentence that does not point is one that can be checked
    assert all(is_true(anchor) is True for anchor in (*read.moments, *read.segments))
    assert len(read.moments) + len(read.segments) == len(re.findall(r"\.(?: |$)", read.reasoning)) - len(read.points)
    assert raw(episode) == {"accuracy": 1.0, "grounding": 1.0}
    (measured,) = judge_episodes([episode])
    assert measured.measures["point_accuracy"] == 1.0


def test_each_of_the_three_kinds_counts():
    """A moving thing pointed at in two frames, and one sentence about the stretch between."""
    episode = played("motion:direction")
    text = said_in(episode)
    first, *_ = read_response(text).points
    other = next(number for number in range(1, 7) if not _is_hit(episode, first, number))
    # One of two points in a frame where the thing is elsewhere: (1/2 + 1) / 2
    moved = re.sub(
        r"In frame \d+ at [\d.]+ seconds", f"In frame {other} at {(other - 1) / 2:.1f} seconds", text, count=1
    )
    assert raw(with_response(episode, moved))["grounding"] == pytest.approx(0.75)
    # The other way: (1 + 0) / 2
    opposite = {"to the left": "to the right", "to the right": "to the left", " up ": " down ", " down ": " up "}
    way = next(way for way in opposite if f"moves {way.strip()} from" in text)
    turned = text.replace(f"moves {way.strip()} from", f"moves {opposite[way].strip()} from")
    assert raw(with_response(episode, turned))["grounding"] == pytest.approx(0.5)
    # A wrong moment beside it: (1 + 0 + 1) / 3
    ends = f"In frame 1 at 0.0 seconds there is no {first.label.split()[1]}.</think>"
    assert raw(with_response(episode, text.replace("</think>", f" {ends}")))["grounding"] == pytest.approx(2 / 3)


def _is_hit(episode: Trajectory, point, frame: int) -> bool:
    mask = exact_masks(episode)(point.label, frame, None)
    height, width = mask.shape
    return bool(mask[int(point.y * height / 100), int(point.x * width / 100)])


def test_points_that_name_no_frame_do_not_spare_the_points():
    episode = played("motion:direction")
    timeless = re.sub(r"In frame \d+ at [\d.]+ seconds I see", "I see", said_in(episode))
    assert all(point.frame is None for point in read_response(timeless).points)
    # No point can be checked: 0 of the points, 1 of the stretches
    assert raw(with_response(episode, timeless))["grounding"] == pytest.approx(0.5)
    pointless = re.sub(r"In frame \d+ at [\d.]+ seconds I see the <points.*?</points>\. ", "", said_in(episode))
    assert read_response(pointless).points == ()
    assert raw(with_response(episode, pointless))["grounding"] == 0.0


def test_a_wrong_answer_earns_nothing_however_true_the_rest():
    episode = played("time")
    wrong = re.sub(r"<answer>.*</answer>", "<answer>no idea</answer>", said_in(episode))
    assert raw(with_response(episode, wrong)) == {"accuracy": 0.0}


def test_what_happens_in_other_videos_nobody_knows():
    episode = with_state(played("motion"), sample_id="video_r1:7")
    assert exact_masks(episode) is None and exact_descriptions(episode) is None
    assert raw(episode) == {"accuracy": 1.0}


def test_the_control_thinks_in_words():
    text = said_in(played("order:first", 0, "direct"))
    assert "<points" not in text and " crosses the " in text


def test_grounding_is_told_whatever_is_rewarded():
    episode = played("place")
    elsewhere = with_response(
        episode, re.sub(r'[xy]1="[0-9.]+"', lambda found: f'{found[0][:2]}="0.10"', said_in(episode))
    )
    only_outcome = argos_judge(JudgeModels(), ArgosSettings(grounding_weight=0.0, reasoning_weight=0.0))
    (right,) = only_outcome([episode])
    assert right.raw == {"accuracy": 1.0} and only_outcome.metrics()["argos/grounding"] == 1.0
    (hacked,) = only_outcome([elsewhere])
    assert hacked.total == right.total, "the outcome alone does not tell them apart"
    told = only_outcome.metrics()
    assert told["argos/grounding"] <= 0.5 and raw(elsewhere)["grounding"] == told["argos/grounding"]
    silent = with_response(episode, re.sub(r"<think>.*</think>", "<think></think>", said_in(episode)))
    only_outcome([silent])
    assert only_outcome.metrics() == {"argos/grounding": 0.0, "argos/ungrounded_right": 1.0}
