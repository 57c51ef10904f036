"""Broken episodes of a curated dataset are left out of a cold start, named by file and line, and counted."""

from __future__ import annotations

import json
import warnings

import pytest

from training.curation.curated_data import curated_episodes
from training.curation.curation_config import CurateConfig
from training.curation.curation_loop import make_data_set
from training.preflight import _require_data_set
from vlm_envs.errors import ConfigError


@pytest.fixture
def directory(tmp_path):
    chosen = CurateConfig(
        name="data",
        output=str(tmp_path),
        settings=("side_px=200",),
        num_samples=3,
        num_rollouts=1,
        mistake_rate=0.0,
        threshold=0.0,
    )
    return make_data_set(chosen)[0]


def rewritten(directory, *lines):
    (directory / "trajectories" / "curated.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def test_broken_episodes_are_left_out_named_and_counted(directory):
    first, second, third = (directory / "trajectories" / "curated.jsonl").read_bytes().splitlines()
    without_turns = json.loads(second)
    del without_turns["turns"]
    lost_picture = json.loads(third)
    lost_picture["turns"][0]["images"] = ["0" * 64]
    rewritten(directory, first, b"{", json.dumps(without_turns).encode(), json.dumps(lost_picture).encode(), b"[1]")
    _require_data_set(str(directory))
    with pytest.warns(UserWarning, match=r"4 of 5 episodes of .* are left out") as told:
        (episode,) = curated_episodes(directory)
    assert episode.env_id == "VLM/ZoomQA-v0"
    said = str(told[0].message)
    assert all(f"curated.jsonl, line {number}: " in said for number in (2, 3, 4)) and "And 1 more" in said


def test_a_data_set_without_a_whole_episode_is_refused(directory):
    rewritten(directory, b"{", b"{}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConfigError, match=r"all 2 episodes are broken.*line 1: "):
            curated_episodes(directory)
    rewritten(directory, b"{")
    with pytest.raises(ConfigError, match="is empty"):
        _require_data_set(str(directory))
