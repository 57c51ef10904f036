"""The rollout archive of iVGR (equation 4)."""

import json
import math

import pytest

from judges.episode_rewards.ivgr import Reference, RolloutArchive
from vlm_envs.errors import ConfigError


def test_only_a_strictly_better_rollout_replaces_the_reference():
    archive = RolloutArchive()
    assert not archive.offer("q", "at the threshold", 0.3)
    assert archive.offer("q", "first", 0.4)
    assert not archive.offer("q", "equal", 0.4)
    assert not archive.offer("q", "worse", 0.35)
    assert archive.offer("q", "better", 0.41)
    assert not archive.offer("q", "unknown", math.nan)
    assert not archive.offer("other", "unknown", math.nan)
    assert archive.look_up("q") == Reference(text="better", box_reward=0.41)
    assert len(archive) == 1


def test_the_hit_rate_counts_lookups():
    archive = RolloutArchive()
    assert math.isnan(archive.hit_rate)
    archive.offer("q", "text", 0.5)
    for query_id in ("q", "r", "q", "s"):
        archive.look_up(query_id)
    assert archive.hit_rate == 0.5


def test_it_survives_json():
    archive = RolloutArchive()
    archive.offer("q", "text", 0.5)
    archive.look_up("q")
    archive.look_up("r")
    restored = RolloutArchive()
    restored.load_state_dict(json.loads(json.dumps(archive.state_dict())))
    assert restored.hit_rate == 0.5
    assert restored.look_up("q") == Reference(text="text", box_reward=0.5)
    assert not restored.offer("q", "other", 0.5)


@pytest.mark.parametrize(
    "change",
    [{"threshold": 0.5}, {"references": {"q": {"text": "a"}}}, {"references": 3}, {"num_hits": "many"}],
)
def test_another_state_is_refused_and_changes_nothing(change):
    archive = RolloutArchive()
    archive.offer("q", "text", 0.5)
    with pytest.raises(ConfigError):
        archive.load_state_dict({**archive.state_dict(), **change})
    assert archive.look_up("q").text == "text"


@pytest.mark.parametrize("threshold", [-0.1, 1.0, math.nan])
def test_a_threshold_out_of_range_is_refused(threshold):
    with pytest.raises(ConfigError):
        RolloutArchive(threshold)


def test_a_reference_of_the_same_step_is_no_hit():
    # iVGR, figure 4 (d): the rate is 0 throughout the first epoch, though each step's own rollouts serve as references
    # from the start; what counts is how often an earlier step's rollout is used.
    archive = RolloutArchive()
    first = archive.offer("q", "first", 0.5)
    assert archive.look_up("q", is_new=first) == Reference(text="first", box_reward=0.5)
    assert archive.hit_rate == 0.0
    worse = archive.offer("q", "worse", 0.4)
    assert archive.look_up("q", is_new=worse).text == "first"
    assert archive.hit_rate == 0.5
